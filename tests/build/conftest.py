"""Fixtures that import the modules of scripts/."""

import importlib
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture
def of_scripts(monkeypatch):
    """A function that imports a module of scripts/ by its name."""

    def module(name):
        monkeypatch.syspath_prepend(str(SCRIPTS))
        return importlib.import_module(name)

    return module


@pytest.fixture
def make_env(of_scripts):
    """The module scripts/make_env.py, which `make` calls."""
    return of_scripts("make_env")
