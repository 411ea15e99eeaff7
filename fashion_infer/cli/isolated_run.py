"""Commands whose kernels may be files: with one they run in a child process."""

import sys
from typing import Optional, Sequence

import click

from ..kernel_files import paths
from ..system import isolation


def run_isolated(kernels: Sequence[Optional[str]], timeout: float) -> None:
    """Where a kernel file is among these, run this very command line in a child, and exit as the child did.

    Returns where there is no file, and in the child.
    """
    files = paths.among([name for name in kernels if name])
    if not files or isolation.inside():
        return
    context = click.get_current_context()
    arguments = context.find_root().obj
    context.exit(isolation.run(sys.argv[1:] if arguments is None else arguments, files, timeout))
