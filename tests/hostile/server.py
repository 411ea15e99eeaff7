"""Runs tries in forks of a process that has already imported the program.

The server reads one JSON object per line on stdin, and writes one per line to stdout. It starts no thread and does not
load MXNet, so that a fork of the server behaves like a new process.
"""

import contextlib
import json
import os
import pkgutil
import resource
import select
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import conditions

# Modules that commands import when they are called. The server imports them in advance.
_OTHERS = (
    "h5py",
    "jinja2",
    "matplotlib.backends.backend_agg",
    "matplotlib.figure",
    "PIL.Image",
    "pooch",
    "requests",
    "rich.console",
    "rich.table",
    "tqdm",
)
# Like the console script, this does not search the working folder for modules.
_PROGRAM = "import sys; del sys.path[0]; from fashion_infer.cli.main import main; main()"


def main():
    import importlib

    import fashion_infer

    for module in pkgutil.walk_packages(fashion_infer.__path__, "fashion_infer."):
        # scale and board are left out: they import PyArrow and Ray, whose threads do not survive a fork, and
        # migrations, which only Alembic can import.
        apart = module.name.startswith(("fashion_infer.scale", "fashion_infer.board"))
        if not module.name.endswith("__main__") and not apart:
            importlib.import_module(module.name)
    for name in _OTHERS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if "mxnet" in sys.modules:
        raise AssertionError("the server has loaded MXNet: its threads would not be there in a fork")
    for line in sys.stdin:
        print(json.dumps(attempt(json.loads(line))), flush=True)


def attempt(asked):
    """Run a try, in a fork of this process or, with `cold`, in a new one. `_become` uses the other keys of `asked`."""
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        _become(asked)
    late = not _ended(child, asked["timeout"])
    if late:
        os.killpg(child, signal.SIGKILL)
    _, status, used = os.wait4(child, 0)
    return {
        "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status),
        "late": late,
        "seconds": time.monotonic() - begun,
        "rss": used.ru_maxrss << 10,
        "left": _left(child),
    }


def _ended(child, timeout):
    handle = os.pidfd_open(child) if hasattr(os, "pidfd_open") else None
    if handle is not None:
        ready, _, _ = select.select([handle], [], [], timeout)
        os.close(handle)
        return bool(ready)
    deadline = time.monotonic() + timeout  # Python 3.8 has no timeout for waitpid
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return True
        time.sleep(0.002)
    return False


def _left(group):
    """Return whether processes of the try's group still run five seconds after the try; if so, kill them.

    Sandboxes need a moment: bubblewrap's `--die-with-parent` kills them by a signal after their parent has ended. A
    process that has ended but was not waited for, as in a container without an init, does not count.
    """
    deadline = time.monotonic() + 5
    try:
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.002)
        if not _running(group):
            return False
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _running(group):
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of_group = stat.read_text().rpartition(")")[2].split()[:3]
            if int(of_group) == group and state not in "ZX":
                return True
    return False


def _become(asked):
    """Make the child behave like a process that a shell has started, and run the program in it.

    Environment, working folder, arguments and conditions come from the request. Output and errors go to the files `out`
    and `err`.
    """
    code = 70
    try:
        os.setsid()
        os.environ.clear()
        os.environ.update(asked["environment"])
        os.chdir(asked["folder"])
        for number, name in enumerate((os.devnull, asked["out"], asked["err"])):
            handle = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, number)
            os.close(handle)
        for condition in asked["conditions"]:
            conditions.apply(condition)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if asked["cold"]:
            os.execve(sys.executable, [sys.executable, "-c", _PROGRAM, *asked["arguments"]], os.environ)
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            shut = f"closed={number}" in asked["conditions"]
            setattr(sys, name, None if shut else os.fdopen(number, "w" if number else "r", closefd=False))
        sys.argv = ["fashion-infer", *asked["arguments"]]
        from fashion_infer.cli.main import main as program

        program()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        with contextlib.suppress(Exception):
            traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            code = 120  # as the interpreter does if a stream cannot be flushed
    os._exit(code)


if __name__ == "__main__":
    main()
