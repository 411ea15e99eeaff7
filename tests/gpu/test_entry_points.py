"""The staged entry point, the device queries, and what each says when something is missing."""

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path

import library
import numpy as np
import pytest

pytestmark = pytest.mark.gpu
HERE = Path(__file__).resolve().parent


def tensors(batch=30, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, (batch, 1, 28, 28)).astype(np.float32)
    return x, rng.standard_normal((50, 1, 5, 5)).astype(np.float32)


def python(code, **environment):
    """Run code in a fresh process beside library.py; its output and exit status."""
    return subprocess.run(
        [sys.executable, "-c", code], cwd=str(HERE), env={**os.environ, **environment}, capture_output=True, text=True
    )


def test_staged_is_right_also_over_many_chunks():
    x, k = tensors(500)  # 57.6 MB of output, in chunks of 16
    status, y = library.staged("auto", x, k)
    assert status == library.OK, library.message()
    assert library.error(y, library.reference(x, k)) <= 2e-6


def test_two_threads_at_once():
    problems = []

    def work(seed):
        x, k = tensors(60, seed)
        want = library.reference(x, k)
        for name, precision in library.kernels():
            status, y = library.staged(name, x, k)
            if status or library.error(y, want) > library.TOLERANCE[precision]:
                problems.append((name, status, library.message()))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_two_processes_at_once():
    code = [sys.executable, str(HERE / "every_kernel.py")]
    running = [subprocess.Popen(code, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in running:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output


def test_no_memory_is_lost_in_200_passes():
    code = """
import ctypes, library, numpy as np
class Info(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 256)] + [(n, ctypes.c_int) for n in ("major", "minor", "sms")] + [
        ("total", ctypes.c_size_t), ("free", ctypes.c_size_t), ("driver", ctypes.c_int), ("runtime", ctypes.c_int)]
def free():
    info = Info()
    assert library.load().fops_cuda_device_info(0, ctypes.byref(info)) == 0
    return info.free
x = np.ones((40, 1, 28, 28), np.float32); k = np.ones((50, 1, 5, 5), np.float32)
for name, _ in library.kernels(): library.staged(name, x, k)
before = free()
for _ in range(200): assert library.staged("auto", x, k)[0] == 0
print(before - free())
"""
    result = python(code)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) <= 4 << 20


def test_a_device_that_is_not_there():
    for device in (-1, 99):
        status, _ = library.staged("auto", *tensors(1), device=device)
        assert status == library.NO_DEVICE
        assert f"no CUDA device {device}" in library.message()
        assert "\n" not in library.message()


def test_no_visible_device():
    code = """
import ctypes, library, numpy as np
print(library.device_count(), library.message())
status, _ = library.staged("auto", np.ones((1, 1, 28, 28), np.float32), np.ones((2, 1, 5, 5), np.float32))
print(status, library.message())
"""
    result = python(code, CUDA_VISIBLE_DEVICES="")
    lines = result.stdout.splitlines()
    assert result.returncode == 0 and len(lines) == 2, result.stderr
    assert lines[0].startswith("0 no CUDA device") and lines[1].startswith(f"{library.NO_DEVICE} no CUDA device")


def test_out_of_memory(torch):
    hold = []
    size = 32 << 30
    while size >= 1 << 20:  # leave less than one image and its outputs
        try:
            hold.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.cuda.OutOfMemoryError:
            size //= 2
    rng = np.random.default_rng(0)
    x = rng.random((1, 1, 2000, 2000)).astype(np.float32)
    status, _ = library.staged("implicit-gemm", x, rng.random((50, 1, 5, 5)).astype(np.float32))
    said = library.message()
    del hold
    torch.cuda.empty_cache()
    assert status == library.OUT_OF_MEMORY and "out of memory" in said and "\n" not in said
    status, _ = library.staged("auto", *tensors(3))  # and the process goes on
    assert status == library.OK, library.message()


def test_slices_when_memory_is_short(torch):
    x, k = tensors(4000)  # 460 MB of output
    free = torch.cuda.mem_get_info()[0]
    hold = torch.empty(max(0, free - (200 << 20)), dtype=torch.uint8, device="cuda")
    status, y = library.staged("auto", x, k)
    del hold
    torch.cuda.empty_cache()
    assert status == library.OK, library.message()
    assert library.error(y[-50:], library.reference(x[-50:], k)) <= 2e-6
    assert not np.isnan(y).any()


def test_mistakes_are_named():
    x, k = tensors(1)
    lib = library.load()
    conv = library.conv_of(x, k)
    assert lib.fops_conv_forward_cuda(b"auto", ctypes.byref(conv), None, None, None, None) == library.INVALID
    assert library.staged("no-such-kernel", x, k)[0] == library.UNKNOWN_KERNEL
    assert "tensor-core" in library.message()
    assert library.staged("compile-time", np.ones((1, 1, 9, 9), np.float32), k)[0] == library.UNSUPPORTED
