"""The report: the measurements of one run, as a self-contained HTML page and as Markdown."""
