"""How results are shown. A file a subject typesets a result once, as `content`; `terminal`, `markdown` and `html`
render that; `charts` draws.
"""
