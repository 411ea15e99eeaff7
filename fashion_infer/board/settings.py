"""The settings of a board."""

from typing import NamedTuple, Optional


class BoardSettings(NamedTuple):
    data: str = "board"
    database: Optional[str] = None  # a URL; None for SQLite in the folder `data`
    host: str = "127.0.0.1"
    port: int = 8408
    ray: str = "auto"  # "auto" to start Ray here, the address of a cluster, or "off"
    cpu_slots: int = 1  # submissions to CPU classes judged at once on this machine
    certificate: Optional[str] = None  # a path; None for plain HTTP on the loopback or behind a proxy
    key: Optional[str] = None
    proxies: Optional[str] = None  # trusted for X-Forwarded-*, separated by commas
    grader: Optional[str] = None  # a command with the options of `fashion-infer grade`, used instead of it

    json_logs: bool = False  # whether logs are lines of JSON, also about what is no warning

    @property
    def secure(self) -> bool:
        return bool(self.certificate or self.proxies)
