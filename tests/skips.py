"""Skips that CI accepts. Any other skip means that a tool or package is missing, and fails the run.

The rule is active if CI=true, or with --strict-skips.
"""

import os
import re
import sys

import pytest

ACCEPTED = [
    r"no CUDA device",
    r"this machine has a GPU",
    r"this build has CUDA",  # tests of the behaviour without CUDA run with builds that have no CUDA
    r"no wheel was made here",
    r"part of make test-all",
]
if sys.version_info < (3, 10):  # Ray, FastAPI and recent peer libraries need a newer Python
    ACCEPTED += [r"Ray", r"could not import '(fastapi|ray|torch|onnx)"]


def strict(config):
    """Return whether unexpected skips fail the run."""
    return config.getoption("strict_skips") or os.environ.get("CI") == "true"


class StrictSkips:
    """Plugin of pytest that turns unexpected skips of tests and of whole files into failures."""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self):
        outcome = yield
        judge(outcome.get_result())

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self):
        outcome = yield
        judge(outcome.get_result())


def judge(report):
    """Turn the report of an unexpected skip into the report of a failure."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    path, line, reason = report.longrepr
    if not re.search("|".join(ACCEPTED), reason):
        report.outcome = "failed"
        report.longrepr = f"{path}:{line}: {reason}: tests/skips.py does not accept this reason"
