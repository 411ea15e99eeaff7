"""A browser, for the tests of pages; the modules of scripts/."""

import importlib
import os
import shutil
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture(scope="session")
def browser():
    names = ("chromium", "chromium-browser", "google-chrome")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("there is no Chromium: install one, or name it in $CHROMIUM")
    driver = pytest.importorskip("playwright.sync_api")
    with driver.sync_playwright() as playwright:
        # Chromium refuses its sandbox to root, which is who tests run as in a container.
        options = ["--no-sandbox"] if os.getuid() == 0 else []
        started = playwright.chromium.launch(executable_path=program, args=options)
        yield started
        started.close()


@pytest.fixture
def of_scripts(monkeypatch):
    """A function that imports a module of scripts/, which is no package."""

    def module(name):
        monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "scripts"))
        return importlib.import_module(name)

    return module


@pytest.fixture
def make_env(of_scripts):
    """scripts/make_env.py, which `make` calls."""
    return of_scripts("make_env")


@pytest.fixture
def env_plan(of_scripts):
    """scripts/env_plan.py, which decides what is made."""
    return of_scripts("env_plan")
