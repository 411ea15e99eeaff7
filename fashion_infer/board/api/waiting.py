"""Answers that wait for something to happen, without holding a thread meanwhile."""

import asyncio
import time
from typing import Callable, TypeVar

from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from ..store.expectation import slots_of

Seen = TypeVar("Seen")
_PAUSE = 0.25  # seconds between two looks: 300 readers are 1,200 short queries a second at the most
_LONGEST = 2.0


async def until(look: Callable[[], Seen], enough: Callable[[Seen], object], end: float) -> Seen:
    """Look, and look again until it is enough or the clock (`time.monotonic`) says the end; the last look."""
    pause = _PAUSE
    while True:
        seen = await run_in_threadpool(look)
        left = end - time.monotonic()
        if enough(seen) or left <= 0:
            return seen
        await asyncio.sleep(min(pause, left))
        pause = min(1.5 * pause, _LONGEST)


def graders(session: Session, backend: str) -> int:
    """Judgings that run side by side."""
    return slots_of(session, backend)
