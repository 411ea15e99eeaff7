"""The report: `pages` is the whole page, the other files are its larger sections."""
