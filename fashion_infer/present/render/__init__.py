"""The three renderers of `content`: for terminals, Markdown and HTML."""
