"""The reference pages: commands from click, Python from docstrings, C from the headers' comments."""

import c_header
import commands

from fashion_infer.cli.main import PROGRAM, cli

# (module.name, whether its fields are shown that have a name and a type, and no words)
PYTHON = (
    ("fashion_infer.pipeline.infer", False),
    ("fashion_infer.request.Request", True),
    ("fashion_infer.result.Result", True),
    ("fashion_infer.result.Layer", True),
    ("fashion_infer.errors", False),
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
    for path, fields in PYTHON:
        parts.append(f"::: {path}\n    options:\n      show_if_no_docstring: {str(fields).lower()}\n")
    return "\n".join(parts)
