"""Starts commands in boxes."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence

from ...errors import DeviceError
from .. import inside
from . import box as boxes
from . import cgroup
from .box import Box
from .layers import Layers
from .processes import Sandboxed

_PATHS = [str(Path(inside.__file__).parents[1]), str(Path(inside.abi.__file__).parent)]


def python(module: str, *arguments: str) -> List[str]:
    code = f"import sys; sys.path[:0] = {_PATHS!r}; from inside.{module} import main; main()"
    return [os.path.realpath(sys.executable), "-I", "-S", "-B", "-c", code, *arguments]


def start(box: Box, layers: Layers, command: Sequence[str], descriptors: Sequence[int]) -> Sandboxed:
    """Start a command of `python` in a box. The command must apply the restrictions from `plan` to itself. It inherits
    the standard streams and `descriptors` only. DeviceError if bubblewrap fails."""
    group = None
    if layers.cgroup:
        where = cgroup.parents()
        if where is not None:
            with contextlib.suppress(OSError):
                # The tensors count as memory of the referee, which writes to them first.
                memory, threads = box.limits.memory + box.limits.disk, box.limits.threads
                group = cgroup.Group(where, memory, threads + 2 if layers.bubblewrap else threads)  # two are its own
    told, info = os.pipe()
    words = list(command)
    if layers.bubblewrap:
        words = [*boxes.bubblewrap(layers.bubblewrap, box, info), *words]
    if group is not None:
        words = group.entered(words)
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    if box.library_path:
        environment["LD_LIBRARY_PATH"] = box.library_path
    if box.write:  # without a namespace, the box has no separate /tmp
        environment["TMPDIR"] = box.write[0]
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(*descriptors, info),
            cwd="/",
            env=environment,
        )
    finally:
        os.close(info)
    first = None
    with os.fdopen(told, "rb") as pipe:
        if layers.bubblewrap:
            try:
                first = json.loads(pipe.read())["child-pid"]
            except (ValueError, KeyError):
                said = " ".join(process.communicate()[0].decode(errors="replace").split())[-300:]
                raise DeviceError(f"bubblewrap failed: {said}") from None
    return Sandboxed(process, first, box, group)


class Ran(NamedTuple):
    code: int  # exit code
    output: str  # the beginning of its printed output
    layers: Dict[str, Any]  # layers of the sandbox that were in force, from `inside.confine`


def run(box: Box, layers: Layers, command: Sequence[str]) -> Ran:
    """Run a command in a box until it ends. Broken if it exceeds a limit; DeviceError if the box fails."""
    told, report = os.pipe()
    with os.fdopen(told, "rb") as pipe:
        try:
            words = python("confine", json.dumps(boxes.plan(box, layers)), str(report), *command)
            running = start(box, layers, words, (report,))
        finally:
            os.close(report)
        try:
            code = running.wait()
        finally:
            running.kill()
        said = pipe.read()
    if not said:
        raise DeviceError(f"the sandbox failed: {running.printed[-300:].strip()}")
    return Ran(code, running.printed, json.loads(said))
