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
        "auto" for a local Ray, a cluster's address, or "off" for graders on this machine without Ray.
    cpu_slots
        Number of concurrent judgings of CPU classes on this machine.
    certificate, key
        TLS files; None for plain HTTP on the loopback or behind a proxy with TLS.
    proxies
        Addresses of proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted; None for none.
    grader
        Command that accepts the options of `fashion-infer grade`; None for `fashion-infer grade` itself.
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
        """Return whether browsers use TLS: cookies are then marked `Secure`."""
        return bool(self.certificate or self.proxies)
