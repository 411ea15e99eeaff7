"""The operator library as Python objects. All ctypes is in `bindings`; nothing here knows MXNet."""
