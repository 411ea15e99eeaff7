"""Presentation of results: modules convert results to `content`, which the renderers in `render` show."""
