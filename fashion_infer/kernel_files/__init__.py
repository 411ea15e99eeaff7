"""Somebody's kernel file: its format, a plug-in built from it, and a kernel of the operator library by its name."""

__all__ = ["Loaded", "check", "load"]


def __getattr__(name):
    # Imported when first asked for: a command whose kernel is no file pays nothing.
    if name == "check":
        from .checking import check

        return check
    if name in ("Loaded", "load"):
        from . import loading

        return getattr(loading, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
