"""The operator library as Python objects. All ctypes is in `bindings` and `plugin_abi`; nothing depends on MXNet."""
