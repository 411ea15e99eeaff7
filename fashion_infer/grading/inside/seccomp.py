"""A seccomp filter, built without a library, that refuses some system calls of a confined process.

It lists the calls that are refused, because CUDA needs most others, and its next version may need more. Files and
networks are protected by namespaces and Landlock, not by this filter.
"""

import ctypes
import errno
import os
import platform
import signal
import struct
from typing import Dict, List, NamedTuple, Tuple

_NONE = -1  # the architecture has no such call; 0 is a valid number: io_setup on aarch64
# Calls that are always refused: the numbers of each on x86_64 and on aarch64.
_ALWAYS: Dict[str, Tuple[int, int]] = {
    # other processes, and their memory
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "process_madvise": (440, 440), "tkill": (200, 130),
    "process_mrelease": (448, 448), "move_pages": (279, 239), "migrate_pages": (256, 238), "setns": (308, 268),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "setsid": (112, 157), "setpgid": (109, 154),
    # calls that wake a stopped process, or work for it while it is stopped (for F_SETSIG, see `_BY_ARGUMENT`)
    "timer_create": (222, 107), "mq_notify": (244, 184), "io_setup": (206, 0), "io_submit": (209, 2),
    # memory and queues that are not counted as a process's memory and outlive all processes, or are of other processes
    "mq_open": (240, 180), "mq_unlink": (241, 181), "mq_timedsend": (242, 182), "mq_timedreceive": (243, 183),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "msgctl": (71, 187), "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191),
    "semtimedop": (220, 192), "vmsplice": (278, 75), "seccomp": (317, 277), "landlock_create_ruleset": (444, 444),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "inotify_init": (253, _NONE), "inotify_init1": (294, 26),
    # changes of the user, for whom the kernel counts tasks (see `sandbox.box`)
    "setuid": (105, 146), "setreuid": (113, 145), "setresuid": (117, 147), "setfsuid": (122, 151),
    # scheduling of the user's other processes, such as the referee
    "setpriority": (141, 140), "ioprio_set": (251, 30),
    # parts of the kernel that have often had security holes
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "personality": (135, 92), "modify_ldt": (154, _NONE), "memfd_secret": (447, 447),
    "fanotify_init": (300, 262), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "swapon": (167, 224), "swapoff": (168, 225),
    # changes of the whole machine
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "reboot": (169, 142), "acct": (163, 89), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266), "iopl": (172, _NONE),
    "ioperm": (173, _NONE), "syslog": (103, 116), "vhangup": (153, 58), "sethostname": (170, 161),
    "setdomainname": (171, 162), "lookup_dcookie": (212, 18), "uselib": (134, _NONE), "sysfs": (139, _NONE),
}  # fmt: skip
_SOCKETS = {"socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201)}
_PROCESSES = {"fork": (57, _NONE), "vfork": (58, _NONE), "execve": (59, 221), "execveat": (322, 281)}
_MEMFD = {"memfd_create": (319, 279)}
_KILL, _TGKILL, _CLONE, _CLONE3, _SOCKET = (62, 129), (234, 131), (56, 220), (435, 435), (41, 198)
_MMAP = (9, 222)
# Calls that are refused if an argument has one of these values: numbers, the argument's index from 0, values by name.
_BY_ARGUMENT = {
    # F_SETOWN and FIOSETOWN choose the process that gets a descriptor's signals; such signals could end the referee.
    # F_SETSIG chooses the signal, which could be SIGCONT. A lease makes other processes wait when they open the file.
    # Locks of ranges are memory of the kernel, which is not counted as a process's, as are filters and hash tables.
    "fcntl": ((72, 25), 1, {"F_SETLK": 6, "F_SETLKW": 7, "F_SETOWN": 8, "F_SETSIG": 10, "F_SETOWN_EX": 15,
                            "F_OFD_SETLK": 37, "F_OFD_SETLKW": 38, "F_SETLEASE": 1024, "F_NOTIFY": 1026}),
    "ioctl": ((16, 29), 1, {"FIOSETOWN": 0x8901, "SIOCSPGRP": 0x8902}),
    # The referee could not read the memory of a process that is not dumpable. Other processes could trace one that has
    # named them. A subreaper's orphans are not those of the box's first process.
    "prctl": ((157, 167), 0, {"PR_SET_PDEATHSIG": 1, "PR_SET_DUMPABLE": 4, "PR_SET_SECCOMP": 22,
                              "PR_SET_CHILD_SUBREAPER": 36, "PR_FUTEX_HASH": 78, "PR_SET_PTRACER": 0x59616D61}),
}  # fmt: skip
# Calls whose first argument is a process. It may only be the caller; otherwise a submission could set the affinity and
# the limits of a referee that runs as the same user.
_OF_ITSELF = {
    "sched_setaffinity": (203, 122),
    "prlimit64": (302, 261),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000  # numbers from this one on belong to x86_64's other calling convention, x32

_CLONE_THREAD, _CLONE_FILES = 0x00010000, 0x00000400
_CLONE_NEW = 0x7E020080  # any new namespace
_AF_UNIX, _MAP_SHARED, _MAP_HUGETLB = 1, 1, 0x40000
_LOAD, _EQUAL, _GREATER_EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _ASK, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x7FC00000, 0x80000000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8


NEVER, ASKING, ALWAYS = "never", "asking", "always"  # when a process may start others: only if the referee agrees


class Rules(NamedTuple):
    """System calls that are refused by default, and that a process may be allowed to make."""

    processes: str = NEVER  # calls that start other processes: NEVER, ASKING or ALWAYS
    # Calls for Unix sockets; sockets of other families are always refused. CUDA creates two Unix sockets, and binds one
    # to an abstract name. Only a network namespace, or Landlock from version 6 on, prevents Unix sockets from reaching
    # those of other processes.
    unix_sockets: bool = False
    memory_files: bool = False  # memfd_create, which CUDA uses
    # Shared mappings, whose memory is no longer counted as a process's once it has unmapped them; and reserved huge
    # pages, which its largest resident size leaves out.
    shared_memory: bool = False
    # Id of the only process to which signals other than SIGCONT may be sent, the process's own; 0 for any process.
    signals_to: int = 0


def supported() -> bool:
    """Return whether this module knows the system calls of this machine, and its kernel supports filters."""
    if platform.machine() not in _AUDIT:
        return False
    # For a filter at address 0, a kernel that supports filters gives the error EFAULT, any other kernel EINVAL.
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, None, 0, 0) != 0 and ctypes.get_errno() == errno.EFAULT


def program(rules: Rules, machine: str = "") -> bytes:
    """Return the filter as an array of `struct sock_filter`, for "x86_64", "aarch64" or this machine."""
    machine = machine or platform.machine()
    column = list(_AUDIT).index(machine)
    allow, refuse = (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    start = {NEVER: refuse, ASKING: (_RETURN, 0, 0, _ASK), ALWAYS: allow}[rules.processes]
    denied = {**_ALWAYS, **({} if rules.memory_files else _MEMFD), **({} if rules.unix_sockets else _SOCKETS)}
    code: List[Tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, _AUDIT[machine]),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]

    def by_argument(called: Tuple[int, int], argument: int, tests: List[Tuple[int, int, int, int]]) -> None:
        code.extend([(_EQUAL, 0, len(tests) + 1, called[column]), (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument), *tests])

    if machine == "x86_64":
        code += [(_GREATER_EQUAL, 0, 1, _X32), refuse]
    for answer, table in ((refuse, denied), (start, _PROCESSES)):
        for numbers in table.values():
            if numbers[column] != _NONE:
                code += [(_EQUAL, 0, 1, numbers[column]), answer]
    # Refuse clone3 with ENOSYS, so that the C library assumes an old kernel and calls clone, whose flags a filter can
    # see.
    code += [(_EQUAL, 0, 1, _CLONE3[column]), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    # A thread shares the process's descriptors, whose number is limited.
    thread = [(_ANY_BIT, 0, 3, _CLONE_THREAD), (_ANY_BIT, 0, 1, _CLONE_FILES), allow, refuse]
    by_argument(_CLONE, 0, [(_ANY_BIT, 0, 1, _CLONE_NEW), refuse, *thread, start])
    for called, argument, values in _BY_ARGUMENT.values():
        tests = [step for value in values.values() for step in ((_EQUAL, 0, 1, value), refuse)]
        by_argument(called, argument, [*tests, allow])
    for called in _OF_ITSELF.values():
        by_argument(called, 0, [(_EQUAL, 1, 0, 0), (_EQUAL, 0, 1, rules.signals_to), allow, refuse])
    if not rules.shared_memory:
        by_argument(_MMAP, 3, [(_ANY_BIT, 0, 1, _MAP_SHARED | _MAP_HUGETLB), refuse, allow])
    if rules.signals_to:
        to_itself = [(_LOAD, 0, 0, _ARGUMENTS_AT), (_EQUAL, 0, 1, rules.signals_to), allow, refuse]
        for called, argument in ((_KILL, 1), (_TGKILL, 2)):
            by_argument(called, argument, [(_EQUAL, 0, 1, signal.SIGCONT), refuse, *to_itself])
    if rules.unix_sockets:
        by_argument(_SOCKET, 0, [(_EQUAL, 0, 1, _AF_UNIX), allow, refuse])
    code.append(allow)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install(rules: Rules) -> int:
    """Install the filter for this process, which may gain no privileges (no_new_privs), and all that it starts; OSError
    if the kernel refuses. With ASKING, return a descriptor on which the kernel asks whether a process may be started;
    otherwise -1."""
    filter = program(rules)
    described = ctypes.byref(_Program(len(filter) // 8, filter))
    libc = ctypes.CDLL(None, use_errno=True)
    asking = rules.processes == ASKING
    number = _ALWAYS["seccomp"][list(_AUDIT).index(platform.machine())]
    found = libc.syscall(number, _SET_MODE_FILTER, _NEW_LISTENER if asking else 0, described)
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return found if asking else -1
