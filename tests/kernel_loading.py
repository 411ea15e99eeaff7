"""Loads and checks users' kernel files from their paths."""

from fashion_infer.judging import trials
from fashion_infer.kernel_files import formats, loading


def load(path, format=None, backend=None, **options):
    """A kernel file as a kernel of the operator library; options of `loading.load`."""
    return loading.load(formats.recognise(path, format, backend), **options)


def check(path, format=None, backend=None, **options):
    """The result of checking a kernel file; options of `trials.check`."""
    return trials.check(formats.recognise(path, format, backend), **options)
