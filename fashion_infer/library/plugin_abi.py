"""The structures of custom_ops/include/fashion_ops_plugin.h. This file imports nothing else of the package, because the
sandbox of `grading` shows it alone."""

import ctypes

OK, DEVICE_ERROR = 0, 6
EXAMINE, OUTPUT_NUMBER, OWN_NAN, OWN_NUMBER = 1, 2, 4, 8  # bits of PluginCall.examine


class ConvSize(ctypes.Structure):
    """The C API's structure fops_conv."""

    _fields_ = [(name, ctypes.c_int64) for name in "BCHWMK"] + [("x_type", ctypes.c_int)]


class PluginCall(ctypes.Structure):
    """The C API's structure fops_plugin_call."""

    _fields_ = [
        ("conv", ConvSize),
        ("x", ctypes.c_void_p),
        ("k", ctypes.c_void_p),
        ("y", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("examine", ctypes.c_int),
        ("op_seconds", ctypes.c_double),
        ("layer_seconds", ctypes.c_double),
        ("findings", ctypes.c_uint32),
        ("message", ctypes.c_char * 512),
    ]


RUN_PLUGIN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(PluginCall))


class PluginDescription(ctypes.Structure):
    """The C API's structure fops_kernel_plugin."""

    _fields_ = [
        ("abi", ctypes.c_uint32),
        ("backend", ctypes.c_int),
        ("host_memory", ctypes.c_int),
        ("zero_output", ctypes.c_int),
        ("batch_multiple", ctypes.c_int64),
        ("summary", ctypes.c_char_p),
        ("takes", ctypes.c_char_p),
        ("precision", ctypes.c_char_p),
        ("accepts", ctypes.c_void_p),
        ("run", RUN_PLUGIN),
    ]
