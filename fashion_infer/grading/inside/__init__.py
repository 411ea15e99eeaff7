"""Code that runs inside the sandbox: it confines itself, loads a submission, and calls it when the referee says so.

It imports only the standard library and one file of the package, because the sandbox shows no others. After a
submission has been loaded, the referee trusts nothing here, because the submission runs in the same process.
"""

try:
    from ...library import plugin_abi as abi
except ImportError:  # in the sandbox
    import plugin_abi as abi  # type: ignore[import-not-found,no-redef]

__all__ = ["abi"]
