"""Runs the web service of `board serve`, and a dispatcher's process, which is restarted whenever it ends."""

import contextlib
import ipaddress
import json
import logging
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from typing import Callable, Optional

import uvicorn
from sqlalchemy.exc import DBAPIError

from ..errors import DataError, DeviceError, UsageError
from . import BoardSettings, logs
from .connections import LimitedProtocol, LimitedSocket
from .queue import lifeline
from .service import create_app

_log = logging.getLogger("fashion_infer.board")
_AGAIN = (0.5, 4.0)  # shortest and longest pause in seconds before a dispatcher is restarted


class DispatcherKeeper:
    def __init__(self, settings: BoardSettings):
        self._settings = settings
        self._process: Optional[subprocess.Popen] = None
        self._ended = threading.Event()
        # The process is killed when the thread that started it ends (see lifeline). This thread runs until `stop`.
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._process is not None:
            self._process.terminate()
        self._thread.join(15)
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    def _keep(self) -> None:
        pause = _AGAIN[0]
        while not self._ended.is_set():
            began = time.monotonic()
            command = [sys.executable, "-m", f"{__package__}.queue.process"]
            # stdout is only for this command's output, so that Ray's goes to stderr.
            self._process = lifeline.start(command, stdin=subprocess.PIPE, stdout=sys.stderr)
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(json.dumps(self._settings._asdict()).encode() + b"\n")
                self._process.stdin.close()
            except BrokenPipeError:
                pass
            code = self._process.wait()
            if self._ended.is_set():
                return
            pause = _AGAIN[0] if time.monotonic() - began > 30 else min(2 * pause, _AGAIN[1])
            _log.error("the dispatcher ended and is restarted", extra={"code": code, "pause": pause})
            self._ended.wait(pause)


def serve(settings: BoardSettings, notice: Callable[[str], None] = print) -> None:
    """Serve a board until a signal ends the service; UsageError, DataError or DeviceError if it cannot begin."""
    _check_tls(settings)
    if not settings.secure and settings.host not in ("127.0.0.1", "::1", "localhost"):
        raise UsageError("tokens need TLS: give --certificate and --key, or the ADDRESS of a TLS proxy with --proxies")
    logs.begin(settings.json_logs)
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        settings.host,
        settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        proxy_headers=settings.proxies is not None,
        forwarded_allow_ips=settings.proxies,
        timeout_keep_alive=30,
        h11_max_incomplete_event_size=64 << 10,
        timeout_graceful_shutdown=5,
        http=LimitedProtocol,
        loop="asyncio",
    )
    keeper = DispatcherKeeper(settings)
    try:
        config.load()
        listening = LimitedSocket.of(config.bind_socket(), settings.proxies)
    except (OSError, SystemExit) as error:
        why = getattr(error, "strerror", None) or "the port is in use or may not be used"
        raise DeviceError(f"cannot listen on {settings.host}:{settings.port}: {why}") from None
    keeper.start()
    if not settings.json_logs:
        scheme, name = "https" if settings.certificate else "http", settings.host
        name = socket.gethostname() if name in ("0.0.0.0", "::") else f"[{name}]" if ":" in name else name
        notice(f"the board is at {scheme}://{name}:{settings.port}; Ctrl-C ends it")
    _log.info("serving", extra={"address": f"{settings.host}:{settings.port}", "ray": settings.ray})
    try:
        uvicorn.Server(config).run([listening])
    finally:
        keeper.stop()
        with contextlib.suppress(DBAPIError):
            app.state.refused.write()
        app.state.store.close()


def _check_tls(settings: BoardSettings) -> None:
    """Raise an error if certificate, key or proxies are invalid, with a clearer message than uvicorn's."""
    if bool(settings.certificate) != bool(settings.key):
        raise UsageError("TLS needs both files: --certificate and --key")
    for option, path in (("--certificate", settings.certificate), ("--key", settings.key)):
        try:
            with open(path or os.devnull, "rb"):
                pass
        except OSError as error:
            raise DataError(f"cannot read {option} {path}: {error.strerror}") from None
    if settings.certificate and settings.key:
        try:
            # The password is "", because without one OpenSSL asks for the password of an encrypted key on the terminal.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.certificate, settings.key, "")
        except ssl.SSLError as error:
            wrong = "must be a certificate and its key, both PEM without a password"
            if error.reason == "KEY_VALUES_MISMATCH":
                wrong = "do not match"
            raise DataError(f"--certificate {settings.certificate} and --key {settings.key} {wrong}") from None
    for address in (settings.proxies or "").split(",") if settings.proxies is not None else ():
        try:
            ipaddress.ip_network(address.strip())
        except ValueError:
            raise UsageError(f"--proxies takes addresses and networks such as 10.0.0.0/8, not {address!r}") from None
