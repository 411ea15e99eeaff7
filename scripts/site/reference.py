"""Generates the reference pages: commands from click, Python from docstrings, C from the headers' comments."""

import ast
import inspect

import c_header
import commands

from fashion_infer import infer
from fashion_infer.cli.main import PROGRAM, cli
from fashion_infer.request import Request

_BEGINNING = (
    "This page shows how to run a network, check, explain and time a kernel file, and compare files from Python. It "
    "has every function of `fashion_infer`, and what each returns and raises. `from fashion_infer import infer` is the "
    "way in; `fashion_infer.__version__` is the version."
)
# Each function of the package with the class that it returns. For a class with fields, the entry has its file, its
# name, and the methods and properties that are shown after the fields.
API = (
    (None, (
        ("request.py", "Request", ("but", "check")),
        ("result.py", "Result", ("op_times", "as_dict")),
        ("inference/layer_times.py", "LayerResult", ("median", "layer_seconds", "as_dict")),
    )),
    ("check", (
        ("judging/verdict.py", "Verdict", ("right", "right_for", "wrong", "precision", "sentence", "as_dict")),
        ("judging/verdict.py", "ShapeVerdict", ("right", "code", "reason", "line")),
    )),
    ("explain_kernel", (
        ("explain/explanation.py", "Explanation", ("right", "as_dict")),
        ("explain/findings.py", "KernelFinding", ()),
    )),
    ("bench_conv", (
        ("bench/records.py", "BenchResult", ("wrong", "as_dict")),
        ("bench/records.py", "BenchCase", ("name", "title")),
        ("bench/records.py", "Measurement", ("title", "timed")),
    )),
    ("compare", (
        ("bench/verdicts.py", "Comparison", ("faults",)),
        ("bench/verdicts.py", "ComparedTime", ("ratio",)),
        ("bench/verdicts.py", "ComparedFact", ()),
    )),
)  # fmt: skip


def generated(root):
    """Return the pages' Markdown by their paths on the site."""
    include = root / "custom_ops" / "include"
    return {
        "reference/commands.md": commands.page(cli, PROGRAM),
        "reference/python.md": python(root / "fashion_infer"),
        "reference/c.md": c_header.page(include / "fashion_ops.h", "The C API"),
        "reference/plugin.md": c_header.page(include / "fashion_ops_plugin.h", "Plug-ins"),
    }


def python(package):
    """Return the Python page: directives that mkdocstrings expands, and tables of fields."""
    parts = ["# Python", _BEGINNING]
    for name, classes in API:
        parts.append(f"::: fashion_infer.api.{name}" if name else function(infer))
        for file, shown, members in classes:
            path = f"fashion_infer.{file[:-3].replace('/', '.')}.{shown}"
            parts += [
                f"::: {path}\n    options:\n      members: false",
                options() if shown == "Request" else fields((package / file).read_text("utf-8"), shown),
            ]
            parts += [f"::: {path}.{member}\n    options:\n      heading_level: 3" for member in members]
    return "\n\n".join([*parts, "::: fashion_infer.errors"]) + "\n"


def function(called):
    """Document a function whose parameters are the options of a request; its signature is created at import time."""
    text = inspect.getdoc(called).partition("\n\nParameters\n")[0]
    heading = f"## {called.__name__} {{#{called.__module__}.{called.__name__}}}"
    return f"{heading}\n\n{text}\n\nThe parameters are the fields of `Request`; the result is a `Result`, both below."


def options():
    """Return the fields of a request as a table."""
    rows = ["| field | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, parameter in inspect.signature(infer).parameters.items():
        kind = inspect.formatannotation(parameter.annotation).replace("typing.", "")
        text = Request.__dataclass_fields__[name].metadata["help"]
        rows.append(f"| `{name}` | `{kind}` | `{parameter.default}` | {text} |")
    return "\n".join(rows)


def fields(source, name):
    """Return a class's fields as a table: name, type, default, and the comment after each field."""
    (found,) = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name]
    lines = source.splitlines()
    rows = ["| field | type | default | meaning |", "| --- | --- | --- | --- |"]
    for node in found.body:
        if isinstance(node, ast.AnnAssign):
            words = [ast.get_source_segment(source, part) if part else "" for part in (node.annotation, node.value)]
            said = lines[node.end_lineno - 1].partition("  # ")[2]
            code = " | ".join(f"`{word.strip(chr(34))}`" if word else "" for word in words)
            rows.append(f"| `{node.target.id}` | {code} | {said} |")
    return "\n".join(rows)
