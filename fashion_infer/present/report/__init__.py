"""Presentation of the report: `pages` makes the whole page, the other modules make its larger sections."""
