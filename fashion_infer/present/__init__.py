"""Presentation of results.

One module per subject converts a result to `content`. The renderers in `render` show the content on a terminal, in
Markdown and in HTML; `charts` draws pictures.
"""
