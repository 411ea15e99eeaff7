"""How results are shown. One file per subject typesets a result once, as `content`; the renderers of
`render` show that on a terminal, in Markdown and in HTML; `charts` draws.
"""
