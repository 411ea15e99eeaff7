"""The library's pool of CPU threads."""

from typing import Optional

from .bindings import check, load


def resize(threads: Optional[int]) -> None:
    """Set the number of threads, 1 to 1024; None or 0 sets the default: one per core that this process may use."""
    check(load().fops_set_threads(threads or 0))


def size() -> int:
    """Return the number of threads that the library's CPU kernels use."""
    return load().fops_get_threads()
