"""Confines this process: sets rlimits, drops capabilities, and applies Landlock and a seccomp filter.

If the module runs as a program (`main`), the process then executes another program, such as the compiler.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any, Dict

from . import landlock, seccomp

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION = 0x20080522


def confine(plan: Dict[str, Any]) -> Dict[str, Any]:
    """Confine this process by a plan of `sandbox.box.plan`, and return the layers in force. Without Landlock and
    seccomp in it, only rlimits and user are set. The layer "asks" is the descriptor of `seccomp.install`; "stopped"
    says whether the referee can stop all that the process does."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    limits = dict(plan["limits"])
    if plan["user"]:
        try:
            os.setresuid(plan["user"], -1, -1)
        except OSError:  # this user namespace has no such user
            del limits["NPROC"]
    for name, value in limits.items():
        number = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(number)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (value, value))
    layers: Dict[str, Any] = {"rlimits": sorted(limits), "capabilities": False, "landlock": 0, "seccomp": False}
    layers.update(asks=-1, stopped=False)
    if plan["landlock"] or plan["seccomp"]:
        layers["capabilities"] = _drop_capabilities()
    if plan["landlock"]:
        layers["landlock"] = landlock.restrict(plan["read"], plan["write"], plan["devices"])
    if plan["seccomp"]:
        rules = seccomp.Rules(*plan["rules"])
        if rules.processes != seccomp.ALWAYS:
            rules = rules._replace(signals_to=os.getpid())
        try:
            layers["asks"] = seccomp.install(rules)
        except OSError:
            if rules.processes != seccomp.ASKING:
                raise
            seccomp.install(rules._replace(processes=seccomp.ALWAYS))  # Linux before 5.5, or a container that asks
        layers["seccomp"] = True
        layers["stopped"] = rules.processes == seccomp.NEVER or layers["asks"] >= 0
    return layers


def _drop_capabilities() -> bool:
    """Drop all capabilities; return whether that succeeded. Root without capabilities has the rights of an ordinary
    user who owns root's files."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(64):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    call = _CAPSET.get(os.uname().machine)
    if call is None:
        return False
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    return libc.syscall(call, header, (ctypes.c_uint32 * 6)()) == 0


def keep_only(*kept: int) -> None:
    """Close all descriptors except 0, 1, 2 and the given ones."""
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else map(str, range(3, 4096)):
        number = int(name)
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)


def main() -> None:
    """Confine this process, and execute a command in its place. The command line is PLAN REPORT COMMAND... PLAN is the
    plan in JSON; the layers in force are written to the descriptor REPORT."""
    plan, report, command = json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    keep_only(report)
    os.write(report, json.dumps(confine(plan)).encode())
    os.close(report)
    os.execv(command[0], command)
