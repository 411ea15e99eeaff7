"""Runs a command line in a child process if it names a kernel file."""

import sys
from typing import Optional, Sequence

import click

from ..kernel_files import paths
from ..system import isolation


def run_isolated(kernels: Sequence[Optional[str]], timeout: float) -> None:
    """Run this command line in a child process if one of `kernels` is a file, and exit with the child's exit code."""
    files = paths.among([name for name in kernels if name])
    if not files or isolation.inside():
        return
    context = click.get_current_context()
    arguments = context.find_root().obj
    context.exit(isolation.run(sys.argv[1:] if arguments is None else arguments, files, timeout))
