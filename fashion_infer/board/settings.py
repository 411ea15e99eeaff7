"""What a board is started with."""

from typing import NamedTuple, Optional


class BoardSettings(NamedTuple):
    """Of `board serve`.

    Attributes
    ----------
    data
        The board's folder.
    database
        Its URL; None for SQLite in the folder.
    host, port
        Where the service listens.
    ray
        "auto" for a local Ray, the address of one, or "off" for graders without Ray on this machine.
    cpu_slots
        Judgings of CPU classes side by side, of a local Ray.
    certificate, key
        Files for TLS; None for plain HTTP, on the loopback or behind a proxy that has TLS.
    proxies
        Addresses whose X-Forwarded-For and X-Forwarded-Proto are believed, as uvicorn takes them; None for none.
    grader
        The command of a grader, which `fashion-infer grade`'s options follow; None for that itself.
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
        """Whether browsers reach it by TLS: cookies are then marked `Secure`."""
        return bool(self.certificate or self.proxies)
