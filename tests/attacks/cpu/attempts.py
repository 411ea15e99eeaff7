# Ends as: harmless. Memory that no size shows, and processes: after the first call of a shape, all are refused.
import contextlib
import ctypes
import mmap
import os
import signal

import torch

libc = ctypes.CDLL(None, use_errno=True)
SIZE = 512 << 20
called = {}


def attempt(what, work):
    with contextlib.suppress(OSError, ValueError):
        work()
        print(what, "GOT THROUGH", flush=True)


def refused(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def fork():
    if os.fork() == 0:
        os._exit(0)
    os.wait()


def conv_forward(x, k):
    key = (*x.shape, *k.shape)
    called[key] = called.get(key, 0) + 1
    if called[key] > 20:
        attempt("fork", fork)
        attempt("vfork and execve", lambda: os.posix_spawn("/bin/true", ["true"], {}))
    if os.getpid() != 1:
        attempt("continue the first process", lambda: os.kill(1, signal.SIGCONT))
        attempt("write to the first process", lambda: os.open("/proc/1/mem", os.O_RDWR))
    attempt("shared anonymous memory", lambda: mmap.mmap(-1, SIZE))
    attempt("a shared mapping of zeros", lambda: mmap.mmap(os.open("/dev/zero", os.O_RDWR), SIZE))
    attempt("a file in memory", lambda: os.memfd_create("hidden"))
    attempt("not dumpable", lambda: refused(libc.prctl(4, 0, 0, 0, 0)))
    attempt("traced by any process", lambda: refused(libc.prctl(0x59616D61, -1, 0, 0, 0)))
    attempt("System V", lambda: refused(libc.shmget(0, SIZE, 0o1600)))
    return torch.nn.functional.conv2d(x, k)
