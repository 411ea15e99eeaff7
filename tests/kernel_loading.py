"""Loads and checks users' kernel files, given by their paths."""

from fashion_infer.judging import trials
from fashion_infer.kernel_files import formats, loading


def load(path, format=None, backend=None, **options):
    """Return a kernel file as a kernel of the operator library; `options` are those of `loading.load`."""
    return loading.load(formats.recognise(path, format, backend), **options)


def check(path, format=None, backend=None, **options):
    """Return the result of checking a kernel file; `options` are those of `trials.check`."""
    return trials.check(formats.recognise(path, format, backend), **options)
