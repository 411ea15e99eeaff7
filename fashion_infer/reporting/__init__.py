"""The report: everything measured in one run, as one self-contained HTML page and the same as Markdown.

`report.make` does it; `gather` measures, `sections` says it as `content`, `plots` draws, `render` writes the pages
from the templates, `folder` puts the result in place.
"""
