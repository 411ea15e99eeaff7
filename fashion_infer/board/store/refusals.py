"""Counts refused sign-ins. Anyone can cause them, so that the audit log gets at most 101 rows a day for them."""

import threading
import time
from collections import Counter
from ipaddress import ip_address, ip_network
from typing import Callable, NamedTuple, Optional

from . import audit
from .database import Store

A_MINUTE = 20  # limit per address, and per person whose tokens are tried
_WRITES = 10  # rows written per minute; others wait for the next minute, or until the audit log's page is opened
_KEYS = 10_000  # number of addresses that are distinguished within a minute, to bound memory


class SignInAttempt(NamedTuple):
    """A refused sign-in, with what is known about the person who tried it."""

    address: str
    actor: str = audit.SOMEBODY  # owner of the token, if it was revoked or had a wrong secret
    class_id: Optional[int] = None


class RefusedSignIns:
    """The refused sign-ins of one service.

    Parameters
    ----------
    store
        The board's database.
    clock
        Returns the time in seconds.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic):
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._minute, self._seen, self._written = -1, Counter[str](), 0
        self._unwritten = Counter[SignInAttempt]()

    def add(self, who: SignInAttempt) -> Optional[int]:
        """Count one refused sign-in. Return the seconds to wait if it exceeds the limit, else None."""
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
        """Write the refusals that have only been counted so far to the audit log."""
        with self._lock:
            taken, self._unwritten = self._unwritten, Counter()
        if taken:
            with self._store.write() as session:
                for who, times in taken.items():
                    audit.count(session, who.actor, "sign in refused", times, who.class_id, who.address)

    def _key(self, name: str) -> str:
        return name if name in self._seen or len(self._seen) < _KEYS else ""


def network_of(address: str) -> str:
    """Return the network of an address: for IPv6 the first half, because each household has 2**64 addresses."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if found.version == 4 or found.ipv4_mapped:
        return str(found.ipv4_mapped if found.version == 6 else found)
    return str(ip_network((int(found) >> 64 << 64, 64)))
