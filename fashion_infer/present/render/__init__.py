"""The three renderers of `content`: for terminals, Markdown and HTML."""


def environment(escape: bool):
    """Create a Jinja environment for the folder `templates`. With `escape`, inserted values are escaped for HTML."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader(__name__, "templates"),
        autoescape=escape,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
