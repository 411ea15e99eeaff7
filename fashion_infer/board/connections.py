"""Limits of the board's connections: how many, how long a request may take to arrive, and how much is logged."""

import asyncio
import ipaddress
import logging
import resource
import socket
from typing import Any, Dict, Optional, Tuple
from weakref import WeakSet

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .store.audit import network_of

_log = logging.getLogger("fashion_infer.board")
HEAD_SECONDS = 10.0  # time limit in seconds for receiving the head of a request
REQUEST_SECONDS = 60.0  # time limit in seconds for receiving the body of a request
MOST, MOST_OF_ONE = 4096, 512  # largest numbers of connections, in all and of one address
_OTHER_FILES = 256  # descriptors for everything but connections


class LimitedProtocol(H11Protocol):
    """Closes a connection if a request is not complete in time; uvicorn limits only pauses. Ignores upgrades."""

    _timer: Optional[asyncio.TimerHandle] = None
    _waits_for: object = None  # the state of h11 that the timer limits

    def connection_made(self, transport) -> None:
        super().connection_made(transport)
        self._limit()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit()

    def connection_lost(self, exc) -> None:
        self._limit(done=True)
        super().connection_lost(exc)

    def _should_upgrade(self) -> bool:
        return False

    def _limit(self, done: bool = False) -> None:
        state: Any = None if done else self.conn.their_state
        if state is self._waits_for:
            return
        if self._timer is not None:
            self._timer.cancel()
        seconds = {h11.IDLE: HEAD_SECONDS, h11.SEND_BODY: REQUEST_SECONDS}.get(state)
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.transport.close)
        self._waits_for = state if seconds is not None else None


class Connection(socket.socket):
    """An accepted connection, which counts until it is closed."""

    counted: Tuple[WeakSet, ...] = ()

    def close(self) -> None:
        for each in self.counted:
            each.discard(self)
        super().close()


class LimitedSocket(socket.socket):
    """A listening socket that closes connections beyond the limits, before a handshake. Proxies have no own limit."""

    @classmethod
    def of(cls, listening: socket.socket, proxies: Optional[str]) -> "LimitedSocket":
        """Return the same socket with limits; raise this process's limit of descriptors as far as they need it."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MOST + _OTHER_FILES
        if soft != resource.RLIM_INFINITY and soft < wanted:
            soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        made = cls(listening.family, listening.type, listening.proto, listening.detach())
        made.setblocking(False)
        made._most = MOST if soft == resource.RLIM_INFINITY else max(16, min(MOST, soft - _OTHER_FILES))
        made._proxies = [ipaddress.ip_network(each.strip()) for each in proxies.split(",")] if proxies else []
        made._all, made._of = WeakSet(), {}
        return made

    _most: int
    _proxies: list
    _all: WeakSet
    _of: Dict[str, WeakSet]

    def accept(self) -> Tuple[socket.socket, tuple]:
        while True:
            accepted, address = super().accept()
            network = network_of(address[0])
            if len(self._of) > 2 * self._most:
                self._of = {name: each for name, each in self._of.items() if len(each)}
            own = self._of.setdefault(network, WeakSet())
            if len(self._all) < self._most and len(own) < self._most_of(network):
                made = Connection(accepted.family, accepted.type, accepted.proto, accepted.detach())
                made.counted = (self._all, own)
                for each in made.counted:
                    each.add(made)
                return made, address
            accepted.close()
            _log.warning("a connection was refused: too many are open", extra={"address": network})

    def _most_of(self, network: str) -> int:
        address = ipaddress.ip_network(network)[0]
        if any(address.version == each.version and address in each for each in self._proxies):
            return self._most
        return min(MOST_OF_ONE, self._most // 2)
