"""The staged entry point, the device queries, and their error messages."""

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
    """Run Python code in a new process, in the folder of library.py; return the finished process with its output."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=str(HERE),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_staged_is_correct_over_several_chunks():
    x, k = tensors(500)  # 57.6 MB of output, in chunks of 16 MB
    status, y = library.staged("auto", x, k)
    assert status == library.OK, library.message()
    assert library.error(y, library.reference(x, k)) <= 2e-6


def test_two_threads_at_once():
    problems = []

    def work(seed):
        x, k = tensors(60, seed)
        want = library.reference(x, k)
        for name, precision in library.kernels():
            if not library.takes(name, library.conv_of(x, k)):
                continue
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


@pytest.mark.alone
def test_200_passes_leak_no_device_memory():
    code = """
import library, numpy as np
def free():
    return library.devices.cuda_devices()[0].memory_free
x = np.ones((40, 1, 28, 28), np.float32); k = np.ones((50, 1, 5, 5), np.float32)
for name, _ in library.kernels(): library.staged(name, x, k)
before = free()
for _ in range(200): assert library.staged("auto", x, k)[0] == 0
print(before - free())
"""
    result = python(code)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) <= 4 << 20


def test_a_missing_device():
    for device in (-1, 99):
        status, _ = library.staged("auto", *tensors(1), device=device)
        assert status == library.NO_DEVICE
        assert f"no CUDA device {device}" in library.message()
        assert "\n" not in library.message()


def test_no_visible_device():
    code = """
import library, numpy as np
print(library.device_count(), library.message())
status, _ = library.staged("auto", np.ones((1, 1, 28, 28), np.float32), np.ones((2, 1, 5, 5), np.float32))
print(status, library.message())
"""
    result = python(code, CUDA_VISIBLE_DEVICES="")
    lines = result.stdout.splitlines()
    assert result.returncode == 0 and len(lines) == 2, result.stderr
    assert lines[0].startswith("0 no CUDA device") and lines[1].startswith(f"{library.NO_DEVICE} no CUDA device")


@pytest.mark.alone
def test_out_of_memory(torch):
    hold = []
    size = 32 << 30
    while size >= 1 << 20:  # leave too little memory for the pass below
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
    status, _ = library.staged("auto", *tensors(3))  # the process still works
    assert status == library.OK, library.message()


@pytest.mark.alone
def test_smaller_slices_with_little_memory(torch):
    x, k = tensors(4000)  # 460 MB of output
    free = torch.cuda.mem_get_info()[0]
    hold = torch.empty(max(0, free - (200 << 20)), dtype=torch.uint8, device="cuda")
    status, y = library.staged("auto", x, k)
    del hold
    torch.cuda.empty_cache()
    assert status == library.OK, library.message()
    assert library.error(y[-50:], library.reference(x[-50:], k)) <= 2e-6
    assert not np.isnan(y).any()


def timed(x, k, y, pointer, stream, node):
    """Run one pass through the entry point that MXNet's GPU context calls; return its record in the log of Op Times."""
    library.drain_log()
    pointers = pointer(x), pointer(k), pointer(y)
    status = library.load().fops_conv_forward_timed(b"auto", library.conv_of(x, k), *pointers, stream, node)
    assert status == library.OK, library.message()
    (record,) = library.drain_log()
    return record


def check_record(record, node, images):
    assert record.first_node == record.last_node == node and record.kernel in dict(library.kernels())
    assert 0 < record.seconds < 1 and record.upload == record.download == 0
    assert images == record.shape[0]


@pytest.mark.parametrize("layer", library.COURSE_LAYERS)
def test_timed_on_a_stream_of_torch(torch, layer):
    C, H, W, M, K = library.COURSE_LAYERS[layer]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # the pass must wait until the stream has filled the tensors
        x = torch.randint(0, 256, (300, C, H, W), device="cuda").float()
        k = torch.randn((M, C, K, K), device="cuda")
        y = torch.full((300, M, H - K + 1, W - K + 1), float("nan"), device="cuda")
    record = timed(x, k, y, lambda tensor: tensor.data_ptr(), stream.cuda_stream, 7)
    check_record(record, 7, 300)
    # The pass waits for its kernel, so that the default stream can read the output now.
    want = library.reference(x[-20:].cpu().numpy(), k.cpu().numpy())
    assert library.error(y[-20:].cpu().numpy(), want) <= library.TOLERANCE["float32"]
    assert not y.isnan().any()


def test_timed_on_a_stream_of_cupy():
    cupy = pytest.importorskip("cupy")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.random.randint(0, 256, (300, 6, 30, 30)).astype(cupy.float32)
        k = cupy.random.standard_normal((16, 6, 5, 5)).astype(cupy.float32)
        y = cupy.full((300, 16, 26, 26), cupy.nan, cupy.float32)
    record = timed(x, k, y, lambda array: array.data.ptr, stream.ptr, 3)
    check_record(record, 3, 300)
    assert library.error(y.get(), library.reference(x.get(), k.get())) <= library.TOLERANCE["float32"]


def test_an_invalid_timed_call_logs_nothing():
    library.drain_log()
    conv = library.conv_of(*tensors(1))
    status = library.load().fops_conv_forward_timed(b"auto", conv, None, None, None, None, 0)
    assert status == library.INVALID and "null pointer" in library.message()
    assert library.drain_log() == []


def test_a_device_lost_by_another_librarys_kernel():
    pytest.importorskip("cupy")
    code = """
import cupy, library, numpy as np
x, k = np.ones((9, 6, 30, 30), np.float32), np.ones((16, 6, 5, 5), np.float32)
assert library.staged("auto", x, k)[0] == library.OK
a, b, y = cupy.asarray(x), cupy.asarray(k), cupy.empty((9, 16, 26, 26), cupy.float32)
cupy.RawKernel('extern "C" __global__ void stray(int* p) { *p = 1; }', "stray")((1,), (1,), (np.uint64(64),))
try:
    cupy.cuda.Device().synchronize()
except cupy.cuda.runtime.CUDARuntimeError as error:
    assert "IllegalAddress" in str(error), error
conv, lib = library.conv_of(x, k), library.load()
pointers = a.data.ptr, b.data.ptr, y.data.ptr, None
for name, _ in library.kernels():
    if library.takes(name, conv):
        print(lib.fops_conv_forward_gpu(name.encode(), conv, *pointers), library.message())
print(lib.fops_conv_forward_timed(b"auto", conv, *pointers, 0), library.message())
print(library.staged("auto", x, k)[0], library.message(), flush=True)
import os
os._exit(0)  # CuPy's own destructors cannot free on a lost device
"""
    result = python(code)
    lines = result.stdout.splitlines()
    assert result.returncode == 0 and len(lines) > 2, result.stderr
    for line in lines:
        assert line.startswith(f"{library.DEVICE_ERROR} the GPU is lost to this process"), line


def test_statuses_of_invalid_calls():
    x, k = tensors(1)
    lib = library.load()
    conv = library.conv_of(x, k)
    assert lib.fops_conv_forward_gpu(b"auto", conv, None, None, None, None) == library.INVALID
    assert library.staged("no-such-kernel", x, k)[0] == library.UNKNOWN_KERNEL
    assert "tensor-core" in library.message()
    assert library.staged("compile-time", np.ones((1, 1, 9, 9), np.float32), k)[0] == library.UNSUPPORTED
