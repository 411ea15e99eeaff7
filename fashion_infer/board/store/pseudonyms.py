"""Makes pseudonyms, which classmates see instead of names."""

import secrets

from sqlalchemy import select
from sqlalchemy.orm import Session

from .models import Class, Person, Team

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


def fresh(session: Session, of_class: Class) -> str:
    """Return a random pseudonym that no person or team of the class has."""
    taken = set(session.scalars(select(Person.pseudonym).where(Person.class_id == of_class.id)))
    taken |= set(session.scalars(select(Team.pseudonym).where(Team.class_id == of_class.id)))
    while True:
        # There are 2,500 pairs of words. In a large class a number is added, so that an unused pseudonym is found soon.
        name = f"{secrets.choice(_ADJECTIVES)} {secrets.choice(_ANIMALS)}"
        if len(taken) > 1000:
            name += f" {secrets.randbelow(1000)}"
        if name not in taken:
            return name
