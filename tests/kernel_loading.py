"""Loads and checks users' kernel files, given by their paths."""

from fashion_infer.judging import judge
from fashion_infer.kernel_files import formats, loading


def load(path, format=None, backend=None, **options):
    """Return a kernel file as a kernel of the operator library; `options` are those of `loading.load`."""
    return loading.load(formats.recognise(path, format, backend), **options)


def check(path, format=None, backend=None, **options):
    """Return the verdict on a kernel file; `options` are those of `judge.check`."""
    return judge.check(formats.recognise(path, format, backend), **options)
