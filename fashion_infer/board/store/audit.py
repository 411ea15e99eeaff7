"""Writes and reads the audit log. An entry has a person, an action and its object, a time and an address."""

import threading
import time
from collections import Counter
from datetime import datetime
from ipaddress import ip_address, ip_network
from typing import Callable, List, NamedTuple, Optional

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from .database import Store
from .models import AuditEntry, Class, now

SOMEBODY = "somebody"
MOST_A_DAY = 100  # largest number of rows per action and day that `count` adds, besides one row that counts all others
A_MINUTE = 20  # largest number of refused sign-ins per minute from an address, and with tokens of a person
_WRITES = 10  # number of writes per minute; later refusals wait for the next minute or a reader of the audit log
_KEYS = 10_000  # number of addresses and people that are counted separately in a minute, to limit memory


def record(
    session: Session, actor: str, action: str, what: str = "", class_id: Optional[int] = None, address: str = ""
) -> None:
    """Add an entry to the audit log, in the same transaction as the action. `what` must never be a secret."""
    session.add(AuditEntry(actor=actor, action=action, what=what[:1000], class_id=class_id, address=address[:64]))


def count(
    session: Session,
    actor: str,
    action: str,
    times: int = 1,
    class_id: Optional[int] = None,
    address: str = "",
    what: str = "",
    at: Optional[datetime] = None,
) -> None:
    """Count an action in one entry per day and arguments or, above `MOST_A_DAY` entries, in one for all others."""
    at = at or now()
    today = (AuditEntry.at >= at.replace(hour=0, minute=0, second=0, microsecond=0), AuditEntry.action == action)
    address, what = address[:64], what[:1000]
    for whose, of, where, which in ((actor, class_id, address, what), (SOMEBODY, None, "", "")):
        known = session.scalar(
            select(AuditEntry)
            .where(
                *today,
                AuditEntry.actor == whose,
                AuditEntry.class_id.is_not_distinct_from(of),
                AuditEntry.address == where,
                AuditEntry.what == which,
            )
            .limit(1)
            .with_for_update()
        )
        if known is not None:
            known.times += times
            return
        if (whose == SOMEBODY and not where) or (
            session.scalar(select(func.count()).select_from(AuditEntry).where(*today)) or 0
        ) < MOST_A_DAY:
            session.add(
                AuditEntry(actor=whose, action=action, what=which, class_id=of, address=where, times=times, at=at)
            )
            return


def entries(session: Session, of: Class, limit: int = 200, start: int = 0) -> List[AuditEntry]:
    """Return the class's entries and those without a class, newest first: at most `limit`, after the first `start`."""
    seen = or_(AuditEntry.class_id == of.id, AuditEntry.class_id.is_(None))
    query = select(AuditEntry).where(seen).order_by(AuditEntry.id.desc())
    return list(session.scalars(query.offset(start).limit(limit)))


class SignInAttempt(NamedTuple):
    """A refused sign-in: its client address, and the person whose token was tried, if known."""

    address: str
    actor: str = SOMEBODY  # name of that person
    class_id: Optional[int] = None  # class of that person


class RefusedSignIns:
    """The refused sign-ins of one service: at most 101 rows a day, because anyone can cause them."""

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
            self._unwritten[who if len(self._unwritten) < MOST_A_DAY else SignInAttempt("")] += 1
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
                    count(session, who.actor, "sign in refused", times, who.class_id, who.address)

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
