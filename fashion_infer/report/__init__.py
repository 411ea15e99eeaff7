"""The report: the measurements of one run, as a self-contained HTML page and as Markdown.

`make` calls the other modules: `gather` measures everything that a `request` asks for, `present.report` makes the pages
and pictures, and `folder` puts the files in place.
"""
