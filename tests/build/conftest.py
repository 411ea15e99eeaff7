"""A browser, for the tests of pages."""

from chromium import browser  # noqa: F401
