"""Presentation of the report: `pages` makes the whole page, and `sections` makes parts of it."""
