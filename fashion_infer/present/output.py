"""What the command line prints: tables on stdout, notices on stderr."""

import click


def notice(text):
    """One line on stderr; nothing for None."""
    if text:
        click.echo(f"fashion-infer: {text}", err=True)


_LEAST_TEXT = 20  # characters that a column of text keeps; what is longer is folded: the names of fused stages


def table(*columns):
    """A table; a column whose name begins with ">" holds numbers, set right."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD)
    for name in columns:
        numeric = name.startswith(">")
        made.add_column(name.lstrip(">"), justify="right" if numeric else "left", overflow="fold")
    return made


def show(made):
    """Print a table on stdout. Where it is narrow, headers and text wrap; beyond that the table is wider than the
    screen, for a number that loses digits, or a name that is gone, is worse."""
    from rich.cells import cell_len
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)  # a name may hold [brackets] and :colons:
    if not console.is_terminal:
        console.width = 120  # a file or a pipe has no width of its own
    for column in made.columns:
        words = [word for cell in (column.header, *column.cells) for word in str(cell).split()]
        longest = max(map(cell_len, words), default=0)
        column.min_width = longest if column.justify == "right" else min(longest, _LEAST_TEXT)
    console.print(made, crop=False)


def run_lines(result):
    """The lines that scripts of the course parse."""
    lines = ["New Inference", *(f"Op Time: {seconds:f}" for _, seconds in result.op_times)]
    synthetic = " Data: synthetic" if result.data_source == "synthetic" else ""
    if result.model.endswith("baseline") and result.operator == "builtin":
        return [*lines, f"EvalMetric: {{'accuracy': {result.correctness}}}{synthetic}"]
    return [*lines, f"Correctness: {result.correctness} Model: {result.model}{synthetic}"]


def run_report(result):
    """The lines that scripts of the course parse, and the table of layers."""
    for line in run_lines(result):
        click.echo(line)
    staged = any(sum(layer.upload) + sum(layer.download) for layer in result.layers)
    columns = ["layer", "operator", "kernel", ">op time, s", ">share"]
    made = table(*columns, *([">transfers, s"] if staged else []))
    total = sum(layer.median for layer in result.layers) or 1.0
    for layer in result.layers:
        row = [layer.name, layer.operator, layer.kernel or "", f"{layer.median:f}", f"{layer.median / total:.1%}"]
        if staged:
            row.append(f"{layer.upload[0] + layer.download[0]:f}" if layer.custom else "")
        made.add_row(*row)
    show(made)
    if result.changed is not None:
        click.echo(f"precision {result.precision}: {result.changed} of {result.n} predictions differ from float32's")


def check_report(checks):
    """The table of `verify`."""
    made = table("model", "weights", "mode", "op", "backend", "data", ">n", ">expected", ">got", "")
    for c in checks:
        verdict = "ok" if c.ok else "WRONG"
        how = (c.model, c.weights, c.mode, c.operator, c.backend, c.source)
        made.add_row(*how, str(c.n), f"{c.expected}", f"{c.got}", verdict)
    show(made)


def comparison(found):
    """The tables of `compare`."""
    click.echo(f"A: {found.a.name}\nB: {found.b.name}")
    if found.settings:
        made = table("setting that differs", "A", "B")
        for row in found.settings:
            made.add_row(*row)
        show(made)
    made = table("median, ms", ">A", ">B", ">B / A", ">noise", "verdict of B")
    for line in found.lines:
        numbers = ("" if value is None else f"{value:.4g}" for value in (line.a, line.b))
        ratio = "" if line.ratio is None else f"{line.ratio:.3f}"
        made.add_row(line.what, *numbers, ratio, "" if line.noise is None else f"{line.noise:.3g}", line.verdict)
    show(made)
    if found.facts:
        made = table("must not change", "A", "B", "")
        for fact in found.facts:
            made.add_row(*fact)
        show(made)
