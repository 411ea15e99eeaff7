"""The reference pages: commands from click, Python from docstrings, C from the headers' comments."""

import c_header
import commands

from fashion_infer.cli.main import PROGRAM, cli

# (module.name, the names within it that are shown; none: all that is public)
PYTHON = (
    ("fashion_infer.pipeline.infer", ()),
    ("fashion_infer.request.Request", ()),
    ("fashion_infer.result.Result", ("op_times", "as_dict")),
    ("fashion_infer.result.Layer", ("median", "layer_seconds", "as_dict")),
    ("fashion_infer.errors", ()),
)


def generated(root):
    """The pages' Markdown by their paths in the site."""
    include = root / "custom_ops" / "include"
    return {
        "reference/commands.md": commands.page(cli, PROGRAM),
        "reference/python.md": python(),
        "reference/c.md": c_header.page(include / "fashion_ops.h", "The C API"),
        "reference/plugin.md": c_header.page(include / "fashion_ops_plugin.h", "Plug-ins"),
    }


def python():
    """The Python page: directives that mkdocstrings fills in."""
    parts = ["# Python\n\n`from fashion_infer import infer` is the way in; what it returns and raises is below it.\n"]
    for path, members in PYTHON:
        parts.append(f"::: {path}\n")
        if members:
            parts.append(f"    options:\n      members: [{', '.join(members)}]\n")
    return "\n".join(parts)
