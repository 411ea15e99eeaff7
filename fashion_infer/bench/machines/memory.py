"""How much memory this machine has left, from /proc."""

from pathlib import Path
from typing import Optional

from ...errors import DeviceError


def available_memory() -> Optional[int]:
    """Bytes of memory that a process can still get without swapping; None where the system does not say."""
    said = proc("meminfo", "MemAvailable")
    return int(said.split()[0]) * 1024 if said else None


def check_memory(needed: int) -> None:
    """Refuse a batch that could only end with the system killing this process: DeviceError for too many bytes."""
    free = available_memory()
    if free is not None and needed > free:
        raise DeviceError(
            f"this batch needs {needed / 2**30:.1f} GiB of memory and {free / 2**30:.1f} GiB are free: "
            "use a smaller --batch"
        )


def proc(file: str, key: str) -> Optional[str]:
    """The value of a key in a file of /proc; None where it has none."""
    try:
        lines = Path("/proc", file).read_text().splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), None)
