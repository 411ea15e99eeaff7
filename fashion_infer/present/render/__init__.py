"""The renderers of `content`: for terminals, and as HTML and Markdown documents."""
