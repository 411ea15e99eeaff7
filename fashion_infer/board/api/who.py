"""Who asks: the person whose token a request carries."""

from typing import Annotated, Iterator

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.orm import Session

from ..store.models import Person
from ..store.people import authenticate, sees_all
from ..store.types import INSTRUCTOR

_bearer = HTTPBearer(auto_error=False, description="A person's token, as `board join` printed it.")


def reading(request: Request) -> Iterator[Session]:
    """A session for queries alone."""
    with request.app.state.store.read() as session:
        yield session


Reading = Annotated[Session, Depends(reading)]
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def person_of(session: Session, credentials: HTTPAuthorizationCredentials | None) -> Person:
    """Whose token it is; 401 when it is nobody's."""
    found = authenticate(session, credentials.credentials) if credentials else None
    if found is None:
        raise HTTPException(401, "a token is needed, and this is none of this board's", {"WWW-Authenticate": "Bearer"})
    return found.person


def person(session: Reading, credentials: Credentials) -> Person:
    """Whoever asks."""
    return person_of(session, credentials)


Someone = Annotated[Person, Depends(person)]


def staff(who: Someone) -> Person:
    """An assistant or an instructor; 403 for others."""
    if not sees_all(who):
        raise HTTPException(403, "this is for the staff of the class")
    return who


def instructor(who: Someone) -> Person:
    """An instructor; 403 for others."""
    if who.role != INSTRUCTOR:
        raise HTTPException(403, "this is for instructors")
    return who


def address(request: Request) -> str:
    """Where a request comes from, for the audit log."""
    return request.client.host if request.client else ""
