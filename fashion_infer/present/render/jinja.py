"""The engine that fills in the templates of pages."""


def environment(escape: bool):
    """A Jinja environment over the folder `templates`.

    Parameters
    ----------
    escape
        Whether what is filled in is escaped for HTML: a template's own text is its author's, but a table's cell may
        hold anything, kernel names with < and | included.
    """
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("fashion_infer.present.render", "templates"),
        autoescape=escape,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
