"""Adds and finds classes, people, tokens and pseudonyms."""

import hashlib
import hmac
import re
import secrets
from datetime import datetime
from typing import Iterable, List, NamedTuple, Optional

from sqlalchemy import select
from sqlalchemy.orm import Session

from ...errors import UsageError
from .audit import record
from .models import ROLES, STUDENT, Class, Person, Team, Token, WebSession, now

_NAME = re.compile(r"[\w][\w .,'@+-]{0,99}")
_CLASS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
_COMMAND = "command line"
_PREFIX = "fib"  # beginning of every token, so that a secret scanner can recognise tokens
_TOKEN = re.compile(_PREFIX + "_(?P<selector>[0-9a-f]{16})_(?P<secret>[0-9a-f]{64})")
# Pseudonyms, which classmates see instead of names, are pairs of these words.
_ADJECTIVES = (
    "amber", "azure", "bold", "brisk", "calm", "clear", "copper", "coral", "crisp", "deft", "early", "fair",
    "fleet", "gentle", "golden", "green", "happy", "indigo", "ivory", "jolly", "keen", "late", "light", "lively",
    "lunar", "mellow", "misty", "noble", "olive", "patient", "plain", "proud", "quick", "quiet", "rapid", "round",
    "ruby", "sharp", "silver", "sly", "solar", "steady", "still", "sunny", "swift", "tidy", "violet", "warm",
    "wise", "young",
)  # fmt: skip
_ANIMALS = (
    "badger", "bat", "bear", "beaver", "bison", "crane", "crow", "deer", "dove", "duck", "eagle", "falcon",
    "ferret", "finch", "fox", "frog", "gull", "hare", "hawk", "heron", "ibex", "jay", "kite", "koala", "lark",
    "lemur", "lion", "lynx", "marten", "mole", "moose", "mouse", "newt", "otter", "owl", "panda", "puffin", "quail",
    "rabbit", "raven", "robin", "seal", "stork", "swan", "tapir", "tiger", "toad", "turtle", "wolf", "wren",
)  # fmt: skip


class ListedPerson(NamedTuple):
    """A person to add to a class. An existing person keeps a role or team that is None here."""

    name: str
    role: Optional[str] = None  # "" for a student
    team: Optional[str] = None  # "" for no team


class AddedPerson(NamedTuple):
    """An added person and a new token. The token cannot be shown again, because the database has only its hash."""

    person: Person
    token: str


def new_class(
    session: Session, name: str, edition: str, backend: str, rubric: str, deadline: Optional[datetime] = None, **limits
) -> Class:
    if not _CLASS.fullmatch(name):
        raise UsageError(f"a class's name has at most 60 letters, digits, dots, dashes and underscores: not {name!r}")
    if find_class(session, name) is not None:
        raise UsageError(f"there is already a class {name}: give another name")
    made = Class(name=name, edition=edition, backend=backend, rubric=rubric, deadline=deadline, **limits)
    session.add(made)
    session.flush()
    record(session, "command line", "class new", name, made.id)
    return made


def find_class(session: Session, name: str) -> Optional[Class]:
    return session.scalar(select(Class).where(Class.name == name))


def the_class(session: Session, name: Optional[str]) -> Class:
    if name is None:
        every = session.scalars(select(Class).limit(2)).all()
        if len(every) != 1:
            raise UsageError("name the class: --class NAME" if every else "create a class with `board class new`")
        return every[0]
    found = find_class(session, name)
    if found is None:
        raise UsageError(f"there is no class {name}: `board class list` lists them")
    return found


def join(
    session: Session, of_class: Class, people: Iterable[ListedPerson], actor: str = _COMMAND, address: str = ""
) -> List[AddedPerson]:
    """Add people, or update their role and team; each gets a new token. UsageError for an invalid or repeated name."""
    joined, seen = [], set()
    for name, role, team in people:
        if not _NAME.fullmatch(name):
            raise UsageError(f"a name has at most 100 letters, digits, spaces and _.,'@+-: not {name[:40]!r}")
        if role and role not in ROLES:
            raise UsageError(f"{name}: a role is one of {', '.join(ROLES)}, not {role[:40]!r}")
        if name in seen:
            raise UsageError(f"{name} occurs twice")
        seen.add(name)
        person = find_person(session, of_class, name)
        if person is None:
            person = Person(class_id=of_class.id, name=name, pseudonym=_fresh_pseudonym(session, of_class))
            session.add(person)
        if role is not None or person.role is None:
            person.role = role or STUDENT
        if team is not None:
            person.team = _team(session, of_class, team) if team else None
        session.flush()
        joined.append(AddedPerson(person, new_token(session, person)))
        record(session, actor, "join", f"{name} as {person.role}", of_class.id, address)
    return joined


def find_person(session: Session, of_class: Class, name: str) -> Optional[Person]:
    return session.scalar(select(Person).where(Person.class_id == of_class.id, Person.name == name))


def _team(session: Session, of_class: Class, name: str) -> Team:
    if not _NAME.fullmatch(name):
        raise UsageError(f"a team's name has at most 100 letters, digits, spaces and _.,'@+-: not {name[:40]!r}")
    found = session.scalar(select(Team).where(Team.class_id == of_class.id, Team.name == name))
    if found is None:
        found = Team(class_id=of_class.id, name=name, pseudonym=_fresh_pseudonym(session, of_class))
        session.add(found)
        session.flush()
    return found


def new_token(session: Session, person: Person) -> str:
    """Add a token for a person, and return it as "fib_SELECTOR_SECRET". The database stores only the secret's hash."""
    selector, secret = secrets.token_hex(8), secrets.token_hex(32)
    session.add(Token(person_id=person.id, selector=selector, hashed=hashed(secret)))
    return f"{_PREFIX}_{selector}_{secret}"


def hashed(secret: str) -> str:
    """Return a secret's SHA-256 in hexadecimal. A secret of 256 random bits needs neither a salt nor a slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


_NOBODY = hashed("nobody")


def authenticate(session: Session, token: str) -> Optional[Token]:
    """Return the row of a token, in the same time for any wrong one; None if it is unknown or revoked."""
    parts = _TOKEN.fullmatch(token)
    if parts is None:
        return None
    found = session.scalar(select(Token).where(Token.selector == parts["selector"]))
    same = hmac.compare_digest(hashed(parts["secret"]), found.hashed if found else _NOBODY)
    return found if found is not None and same and found.revoked_at is None else None


def named_by(session: Session, token: str) -> Optional[Person]:
    """Return the owner of a token's selector, even if the secret is wrong; None if the selector is unknown."""
    parts = _TOKEN.fullmatch(token)
    found = session.scalar(select(Token).where(Token.selector == parts["selector"])) if parts else None
    return found.person if found else None


def revoke(session: Session, person: Person, actor: str = _COMMAND, address: str = "") -> int:
    live = session.scalars(select(Token).where(Token.person_id == person.id, Token.revoked_at.is_(None))).all()
    for token in live:
        token.revoked_at = now()
    for one in session.scalars(select(WebSession).where(WebSession.person_id == person.id)):
        session.delete(one)
    record(session, actor, "revoke", person.name, person.class_id, address)
    return len(live)


def sees_all(viewer: Optional[Person]) -> bool:
    """Return whether a viewer is an assistant or instructor, who may see all names, code and logs of the class."""
    return viewer is not None and viewer.role != STUDENT


def _fresh_pseudonym(session: Session, of_class: Class) -> str:
    taken = set(session.scalars(select(Person.pseudonym).where(Person.class_id == of_class.id)))
    taken |= set(session.scalars(select(Team.pseudonym).where(Team.class_id == of_class.id)))
    while True:
        # There are 2,500 pairs of words. In a large class a number is added, so that an unused pseudonym is found soon.
        name = f"{secrets.choice(_ADJECTIVES)} {secrets.choice(_ANIMALS)}"
        if len(taken) > 1000:
            name += f" {secrets.randbelow(1000)}"
        if name not in taken:
            return name
