"""The report: everything measured in one run, as one self-contained HTML page and the same as Markdown.

`make` is the whole way: `gather` measures what a `request` asks for, `present.report` typesets it, `folder` puts the
files in place.
"""
