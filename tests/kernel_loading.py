"""Kernel files of users, from their paths."""

from fashion_infer.judging import trials
from fashion_infer.kernel_files import formats, loading


def load(path, format=None, backend=None, **options):
    """A kernel file as a kernel of the operator library; options as `loading.load` takes them."""
    return loading.load(formats.recognise(path, format, backend), **options)


def check(path, format=None, backend=None, **options):
    """A kernel file, checked; options as `trials.check` takes them."""
    return trials.check(formats.recognise(path, format, backend), **options)
