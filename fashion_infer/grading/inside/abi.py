"""The structures of custom_ops/include/fashion_ops_plugin.h in ctypes.

The sandbox shows only this folder of the package, so this module repeats structures of `library.bindings`.
tests/unit/test_grading_inside.py compares them with the header and with `library.bindings`.
"""

import ctypes

CPU, GPU = 0, 1
OK, DEVICE_ERROR = 0, 6


class Conv(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in "BCHWMK"] + [("x_type", ctypes.c_int)]


class Call(ctypes.Structure):
    _fields_ = [
        ("conv", Conv),
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


RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Call))


class Description(ctypes.Structure):
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
        ("run", RUN),
    ]
