"""The settings of a board."""

from typing import NamedTuple, Optional


class BoardSettings(NamedTuple):
    """The options of `board serve`.

    Attributes
    ----------
    data
        The board's folder.
    database
        The database's URL; None for SQLite in the folder.
    host, port
        Address and port of the service.
    ray
        "auto" to start Ray on this machine, the address of a Ray cluster, or "off" for graders without Ray.
    cpu_slots
        Number of submissions to CPU classes that are judged at the same time on this machine.
    certificate, key
        Paths of the TLS certificate and its key; None for plain HTTP on the loopback or behind a proxy with TLS.
    proxies
        Addresses of proxies, separated by commas, whose headers X-Forwarded-For and X-Forwarded-Proto are trusted; None
        if there is no proxy.
    grader
        A command that judges instead of `fashion-infer grade` and accepts its options; None for `fashion-infer grade`.
    """

    data: str = "board"
    database: Optional[str] = None
    host: str = "127.0.0.1"
    port: int = 8408
    ray: str = "auto"
    cpu_slots: int = 1
    certificate: Optional[str] = None
    key: Optional[str] = None
    proxies: Optional[str] = None
    grader: Optional[str] = None

    @property
    def secure(self) -> bool:
        """Whether browsers reach the service by TLS, so that cookies can be marked `Secure`."""
        return bool(self.certificate or self.proxies)
