"""The operator library as Python objects. All ctypes is in `bindings`; this package does not depend on MXNet."""
