"""Skips that CI accepts. Any other skip means that a tool or package is missing, and fails the run.

The rule is active if CI=true, or with --strict-skips.
"""

import os
import re
import shutil
import sys

import pytest

from fashion_infer.system import compilers

ACCEPTED = [
    r"no CUDA device",
    r"this machine has a GPU",
    r"this build has CUDA",  # such tests need a build without CUDA
    r"no wheel was made here",
    r"part of make test-all",
]
if sys.version_info < (3, 10):  # these packages need Python 3.10
    ACCEPTED += [r"Ray", r"could not import '(fastapi|ray|torch|onnx)"]


def needs(program):
    """Return a mark that skips a test if a program is missing. `.ci/run` installs each such program."""
    found = compilers.find_nvcc() if program == "nvcc" else shutil.which(program)
    return pytest.mark.skipif(not found, reason=f"needs {program}")


def strict(config):
    return config.getoption("strict_skips") or os.environ.get("CI") == "true"


class StrictSkips:
    """Plugin of pytest that reports unexpected skips of tests and of whole files as failures."""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self):
        outcome = yield
        judge(outcome.get_result())

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self):
        outcome = yield
        judge(outcome.get_result())


def judge(report):
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    path, line, reason = report.longrepr
    if not re.search("|".join(ACCEPTED), reason):
        report.outcome = "failed"
        report.longrepr = f"{path}:{line}: {reason}: tests/skips.py does not accept this reason"
