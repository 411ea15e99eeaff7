"""The report: everything that was measured in one run, as a self-contained HTML page and as Markdown.

`make` calls the other modules: `gather` measures everything that a `request` asks for, `present.report` typesets the
measurements, and `folder` puts the files in place.
"""
