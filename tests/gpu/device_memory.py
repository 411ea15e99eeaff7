"""Device memory through the CUDA driver's C API (libcuda), for programs without PyTorch or CuPy."""

import ctypes
import functools


class Memory:
    """A copy of a NumPy array in the memory of device 0."""

    def __init__(self, array):
        self.array, self.pointer = array, ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(self.pointer), ctypes.c_size_t(array.nbytes))
        host = ctypes.c_void_p(array.ctypes.data)
        self._call("cuMemcpyHtoD_v2", self.pointer, host, ctypes.c_size_t(array.nbytes))

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def driver():
        """Load libcuda, make the primary context of device 0 current, and return libcuda."""
        cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        assert cuda.cuInit(0) == 0
        assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert cuda.cuCtxSetCurrent(context) == 0
        return cuda

    def _call(self, name, *arguments):
        status = getattr(self.driver(), name)(*arguments)
        assert status == 0, f"{name}: CUDA error {status}"

    @property
    def address(self):
        """Return the address of the device memory, as an integer."""
        return self.pointer.value

    def get(self):
        """Wait for the device, copy the memory back and free it."""
        host = ctypes.c_void_p(self.array.ctypes.data)
        self._call("cuMemcpyDtoH_v2", host, self.pointer, ctypes.c_size_t(self.array.nbytes))
        self._call("cuMemFree_v2", self.pointer)
        return self.array
