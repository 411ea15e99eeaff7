"""Adds and finds classes, people, roles and tokens."""

import hashlib
import hmac
import re
import secrets
from datetime import datetime
from typing import Iterable, List, NamedTuple, Optional, Tuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from ...errors import UsageError
from .audit import record
from .models import Class, Person, Team, Token, WebSession
from .pseudonyms import fresh
from .types import ROLES, STUDENT, now

_NAME = re.compile(r"[\w][\w .,'@+-]{0,99}")
_CLASS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
_COMMAND = "command line"
_PREFIX = "fib"  # prefix of tokens, by which a secret scanner can recognise one
_TOKEN = re.compile(_PREFIX + "_(?P<selector>[0-9a-f]{16})_(?P<secret>[0-9a-f]{64})")


class Joined(NamedTuple):
    """An added person, with a new token, which cannot be read again later."""

    person: Person
    token: str


def new_class(
    session: Session, name: str, edition: str, backend: str, rubric: str, deadline: Optional[datetime] = None, **limits
) -> Class:
    """Add a class.

    Parameters
    ----------
    name
        Unique name of letters, digits, dots and dashes.
    edition, backend, rubric
        Edition of the course; "cpu" or "gpu"; rubric as TOML for `grading.rubric.parse`.
    deadline
        Time-zone-aware deadline; None for no deadline.
    limits
        Values of gpu_seconds, most_bytes, most_pending, most_an_hour of `models.Class`.

    Raises
    ------
    UsageError
        When the name is invalid or already in use.
    """
    if not _CLASS.fullmatch(name):
        raise UsageError(f"a class's name has letters, digits, dots and dashes, at most 60: not {name!r}")
    if find_class(session, name) is not None:
        raise UsageError(f"there is a class {name} already")
    made = Class(name=name, edition=edition, backend=backend, rubric=rubric, deadline=deadline, **limits)
    session.add(made)
    session.flush()
    record(session, "command line", "class new", name, made.id)
    return made


def find_class(session: Session, name: str) -> Optional[Class]:
    """Return the class with a name; None if there is none."""
    return session.scalar(select(Class).where(Class.name == name))


def the_class(session: Session, name: Optional[str]) -> Class:
    """Return the class with a name, or the only class if `name` is None; UsageError if there is no such class."""
    if name is None:
        every = session.scalars(select(Class).limit(2)).all()
        if len(every) != 1:
            raise UsageError("name the class: --class NAME" if every else "there is no class yet: board class new")
        return every[0]
    found = find_class(session, name)
    if found is None:
        raise UsageError(f"there is no class {name}: `board class list` lists them")
    return found


def join(
    session: Session, of_class: Class, people: Iterable[Tuple[str, str, str]], actor: str = _COMMAND, address: str = ""
) -> List[Joined]:
    """Add people to a class, each with a new token. People already in the class get an additional token.

    Parameters
    ----------
    people
        (name, role, team) of each person; an empty role means student, an empty team no team.
    actor, address
        The person who adds them, and the client address, for the audit log.

    Raises
    ------
    UsageError
        For an invalid name or role, and for a name that occurs twice.
    """
    joined, seen = [], set()
    for name, role, team in people:
        role = role or STUDENT
        if not _NAME.fullmatch(name):
            raise UsageError(f"a name has letters, digits, spaces and .,'@+-, at most 100: not {name[:40]!r}")
        if role not in ROLES:
            raise UsageError(f"{name}: a role is one of {', '.join(ROLES)}, not {role[:40]!r}")
        if name in seen:
            raise UsageError(f"{name} is named twice")
        seen.add(name)
        person = find_person(session, of_class, name)
        if person is None:
            person = Person(class_id=of_class.id, name=name, pseudonym=fresh(session, of_class))
            session.add(person)
        person.role = role
        person.team = _team(session, of_class, team) if team else None
        session.flush()
        joined.append(Joined(person, new_token(session, person)))
        record(session, actor, "join", f"{name} as {role}", of_class.id, address)
    return joined


def find_person(session: Session, of_class: Class, name: str) -> Optional[Person]:
    """Return a person of a class by name; None when there is no such person."""
    return session.scalar(select(Person).where(Person.class_id == of_class.id, Person.name == name))


def _team(session: Session, of_class: Class, name: str) -> Team:
    if not _NAME.fullmatch(name):
        raise UsageError(f"a team's name has letters, digits, spaces and .,'@+-, at most 100: not {name[:40]!r}")
    found = session.scalar(select(Team).where(Team.class_id == of_class.id, Team.name == name))
    if found is None:
        found = Team(class_id=of_class.id, name=name, pseudonym=fresh(session, of_class))
        session.add(found)
        session.flush()
    return found


def new_token(session: Session, person: Person) -> str:
    """Return a new token for a person, "fib_SELECTOR_SECRET". The database stores only the secret's hash."""
    selector, secret = secrets.token_hex(8), secrets.token_hex(32)
    session.add(Token(person_id=person.id, selector=selector, hashed=hashed(secret)))
    return f"{_PREFIX}_{selector}_{secret}"


def hashed(secret: str) -> str:
    """Return the SHA-256 in hexadecimal. Secrets of 256 random bits need neither a salt nor a slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


_NOBODY = hashed("nobody")


def authenticate(session: Session, token: str) -> Optional[Token]:
    """Return a token with its person; None if the token is unknown or revoked.

    The comparison takes constant time, even for an unknown selector.
    """
    parts = _TOKEN.fullmatch(token)
    if parts is None:
        return None
    found = session.scalar(select(Token).where(Token.selector == parts["selector"]))
    same = hmac.compare_digest(hashed(parts["secret"]), found.hashed if found else _NOBODY)
    return found if found is not None and same and found.revoked_at is None else None


def named_by(session: Session, token: str) -> Optional[Person]:
    """Return the person to whom a token's selector belongs, even if the secret is wrong, for the audit log."""
    parts = _TOKEN.fullmatch(token)
    found = session.scalar(select(Token).where(Token.selector == parts["selector"])) if parts else None
    return found.person if found else None


def revoke(session: Session, person: Person, actor: str = _COMMAND, address: str = "") -> int:
    """Revoke all of a person's tokens, end all browser sessions, and return the number of tokens."""
    live = session.scalars(select(Token).where(Token.person_id == person.id, Token.revoked_at.is_(None))).all()
    for token in live:
        token.revoked_at = now()
    for one in session.scalars(select(WebSession).where(WebSession.person_id == person.id)):
        session.delete(one)
    record(session, actor, "revoke", person.name, person.class_id, address)
    return len(live)


def sees_all(viewer: Optional[Person]) -> bool:
    """Return whether a person may see names, code and logs of the class: assistants and instructors."""
    return viewer is not None and viewer.role != STUDENT
