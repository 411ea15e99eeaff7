"""The three renderers of `content`: terminal, Markdown and HTML."""
