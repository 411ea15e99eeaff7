"""The referee's answer when a process of a box wants to start another: the kernel asks, by seccomp's notifications."""

import contextlib
import errno
import fcntl
import os
import select
import struct
import threading

_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_RECV and SECCOMP_IOCTL_NOTIF_SEND
_SIZE = 80  # bytes of struct seccomp_notif
_CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_WAIT = 0.2  # seconds after which the thread looks whether it must end


class Gate:
    """Answers the questions on a descriptor of `inside.seccomp.install`, in a thread, until `end`."""

    def __init__(self, descriptor: int):
        self._descriptor, self.open, self._ended = descriptor, True, False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def set(self, open: bool) -> None:
        """Allow or refuse to start processes. Calls that were allowed before may still be under way."""
        with self._lock:
            self.open = open

    def end(self) -> None:
        self._ended = True
        self._thread.join()
        os.close(self._descriptor)

    def _answer(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while not self._ended:
            asked = bytearray(_SIZE)
            # An error says that the process has been killed meanwhile.
            with contextlib.suppress(OSError):
                events = poll.poll(1e3 * _WAIT)
                if events and events[0][1] & (select.POLLHUP | select.POLLERR):  # no process of the box is left
                    return
                if events:
                    fcntl.ioctl(self._descriptor, _RECEIVE, asked)
                    number = struct.unpack_from("=Q", asked)[0]
                    with self._lock:
                        answer = (0, 0, _CONTINUE) if self.open else (0, -errno.EPERM, 0)
                        fcntl.ioctl(self._descriptor, _ANSWER, struct.pack("=QqiI", number, *answer))
