"""Counts refused sign-ins. Because anyone can cause them, the audit log gets at most 101 rows a day for them."""

import threading
import time
from collections import Counter
from ipaddress import ip_address, ip_network
from typing import Callable, NamedTuple, Optional

from . import audit
from .database import Store

A_MINUTE = 20  # largest number of refused sign-ins per minute from an address, and with tokens of a person
_WRITES = 10  # number of writes per minute; later refusals wait for the next minute or a reader of the audit log
_KEYS = 10_000  # number of addresses and people that are counted separately in a minute, to limit memory


class SignInAttempt(NamedTuple):
    """A refused sign-in: its client address, and the person whose token was tried, if known."""

    address: str
    actor: str = audit.SOMEBODY  # name of that person
    class_id: Optional[int] = None  # class of that person


class RefusedSignIns:
    """The refused sign-ins of one service. `clock` returns the time in seconds."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic):
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._minute, self._seen, self._written = -1, Counter[str](), 0
        self._unwritten = Counter[SignInAttempt]()

    def add(self, who: SignInAttempt) -> Optional[int]:
        """Count a refused sign-in. Return the seconds until the next minute if it exceeds the limit, else None."""
        who = who._replace(address=network_of(who.address))
        now = self._clock()
        with self._lock:
            if int(now // 60) != self._minute:
                self._minute, self._written = int(now // 60), 0
                self._seen.clear()
            self._seen.update(self._key(name) for name in (who.address, f"{who.class_id} {who.actor}"))
            named = [self._seen[who.address]] + ([self._seen[f"{who.class_id} {who.actor}"]] if who.class_id else [])
            self._unwritten[who if len(self._unwritten) < audit.MOST_A_DAY else SignInAttempt("")] += 1
            due = self._written < _WRITES
            self._written += due
        if due:
            self.write()
        return max(1, round(60 - now % 60)) if max(named) > A_MINUTE else None

    def write(self) -> None:
        """Write the refusals that were counted since the last write to the audit log."""
        with self._lock:
            taken, self._unwritten = self._unwritten, Counter()
        if taken:
            with self._store.write() as session:
                for who, times in taken.items():
                    audit.count(session, who.actor, "sign in refused", times, who.class_id, who.address)

    def _key(self, name: str) -> str:
        return name if name in self._seen or len(self._seen) < _KEYS else ""


def network_of(address: str) -> str:
    """Return the /64 network of an IPv6 address, an IPv4 address written as IPv6 as IPv4, or the text unchanged."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if found.version == 4 or found.ipv4_mapped:
        return str(found.ipv4_mapped if found.version == 6 else found)
    return str(ip_network((int(found) >> 64 << 64, 64)))
