"""This machine's available memory, from /proc."""

from pathlib import Path
from typing import Optional

from ...errors import DeviceError


def available_memory() -> Optional[int]:
    """Return the number of bytes available without swapping; None if the system does not report it."""
    said = proc("meminfo", "MemAvailable")
    return int(said.split()[0]) * 1024 if said else None


def check_memory(needed: int) -> None:
    """Raise DeviceError if `needed` bytes exceed the available memory, because the system would kill this process."""
    free = available_memory()
    if free is not None and needed > free:
        raise DeviceError(
            f"this batch needs {needed / 2**30:.1f} GiB of memory and {free / 2**30:.1f} GiB are free: "
            "use a smaller --batch"
        )


def proc(file: str, key: str) -> Optional[str]:
    """Return the value of a key in a file of /proc; None if the file or the key is missing."""
    try:
        lines = Path("/proc", file).read_text().splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), None)
