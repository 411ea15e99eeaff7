"""Presentation of the report: `pages` makes the whole page, and the other modules make parts of it."""
