"""A browser, for the tests of pages."""

import os
import shutil

import pytest


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
