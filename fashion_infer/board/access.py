"""FastAPI dependencies for the API and the pages: the store, a session, and a request's person, address and body."""

from typing import Annotated, Iterator

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.orm import Session

from .store.database import Store
from .store.models import Person
from .store.people import authenticate

_bearer = HTTPBearer(auto_error=False, description="A person's token, as `board join` printed it.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def store(request: Request) -> Store:
    return request.app.state.store


def reading(request: Request) -> Iterator[Session]:
    with store(request).read() as session:
        yield session


def address(request: Request) -> str:
    return request.client.host if request.client else ""


OpenStore = Annotated[Store, Depends(store)]
Reading = Annotated[Session, Depends(reading)]
Address = Annotated[str, Depends(address)]


def person_of(session: Reading, credentials: Credentials) -> Person:
    """Return the owner of a request's token; HTTPException 401 if the token is missing, unknown or revoked."""
    found = authenticate(session, credentials.credentials) if credentials else None
    if found is None:
        raise HTTPException(401, "this needs a valid token of this board", {"WWW-Authenticate": "Bearer"})
    return found.person


Someone = Annotated[Person, Depends(person_of)]


async def body(request: Request, most: int, what: str = "the submission") -> bytes:
    """Return a request's body; HTTPException 413 as soon as its header claims, or it has, more than `most` bytes."""
    said = request.headers.get("content-length", "0")
    content = bytearray()
    if not said.isdigit() or int(said) <= most:
        async for piece in request.stream():
            content += piece
            if len(content) > most:
                break
        else:
            return bytes(content)
    raise HTTPException(413, f"{what} has more than {most} bytes")
