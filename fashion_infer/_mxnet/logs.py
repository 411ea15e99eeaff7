"""Suppression of MXNet's log lines on stderr."""

import contextlib
import os
import re
import sys

_LOG_LINE = re.compile(rb"\[\d\d:\d\d:\d\d\] \S+:\d+: ")


@contextlib.contextmanager
def quiet():
    """Return a context that drops MXNet's log lines, which MXNet cannot turn off, and delays other output on stderr."""
    try:
        sys.stderr.flush()
        stderr = os.dup(2)
    except (AttributeError, OSError, ValueError):  # no stderr
        yield
        return
    with os.fdopen(os.memfd_create("mxnet-log"), "w+b") as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            log.seek(0)
            for line in log:
                if not _LOG_LINE.match(line):
                    os.write(2, line)
