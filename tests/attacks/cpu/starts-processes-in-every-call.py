# Ends as: harmless. Forks, executes and signals in every call; after the first call of a shape, all must be refused.
import os
import signal

import torch

called = {}


def attempt(what, work):
    try:
        work()
        print(what, "GOT THROUGH", flush=True)
    except OSError as error:
        print(what, error, flush=True)


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
    return torch.nn.functional.conv2d(x, k)
