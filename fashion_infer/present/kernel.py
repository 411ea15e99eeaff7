"""Kernel files: what a run or a check found, and the formats."""

from typing import List, Sequence

from .content import Part, Table, Text, number, table

_OUTSIDE = "work outside Op Time"  # how the finding ends (`kernel_files.plugin.FOUND`)


def marked(name: str, findings: Sequence[str]) -> str:
    """A kernel's name in a table of times: with a mark where its Op Time is not all of its work."""
    return f"{name} ({_OUTSIDE})" if any(finding.endswith(_OUTSIDE) for finding in findings) else name


def verdict(found) -> List[Part]:
    """A kernel file after a run of a network (a `judging.verdict.Verdict`): a line a layer, and more."""
    kernel = found.kernel
    lines = [f"{kernel.name} (format {kernel.format}):"]
    for one in found.layers:
        said = one.failure or one.diagnosis.line()
        lines.append(f"  layer {one.what}: {'' if one.right else 'WRONG: '}{said}")
        lines += [f"  layer {one.what}: {finding}" for finding in one.findings]
    lines.append(f"  predictions that differ from our kernels': {found.changed:,}; precision class: {found.precision}")
    if found.leaked:
        lines.append(f"  device memory not given back: {found.leaked / 2**20:,.0f} MiB a slice of images")
    return [Text("\n".join(lines))]


def check(found) -> List[Part]:
    """The report of `kernel check` (`judging.trials.Checked`)."""
    kernel, tried = found.kernel, found.tried
    phases = any(one.layer_seconds for one in tried)
    columns = [
        "layer",
        "input",
        "filters",
        ">images",
        "output",
        ">op time, ms",
        *([">layer time, ms"] if phases else []),
    ]
    rows = []
    for one in tried:
        images, channels, height, width, filters, side = one.shape
        row = [one.what, f"{channels} x {height} x {width}", f"{filters} of {side} x {side}", images]
        row += [_word(one), None if one.failure else number(1e3 * one.op_seconds, ".3f")]
        rows.append(row + ([number(1e3 * one.layer_seconds, ".3f")] if phases else []))
    parts: List[Part] = [
        table(f"{kernel.name}, format {kernel.format}, on the {kernel.backend.upper()}", columns, rows)
    ]
    for one in tried:
        if not one.right:
            parts.append(Text(f"{one.what}: {one.failure or one.diagnosis.line()}"))
    for finding in dict.fromkeys(text for one in tried for text in one.findings):
        where = [one.what for one in tried if finding in one.findings and one.what != "another size"]
        parts.append(Text(f"{finding} ({', '.join(where) or 'another size'})"))
    return [*parts, *([Text(found.reason)] if found.reason else [])]


def _word(one) -> str:
    if one.failure:
        return "FAILED"
    return f"right, {one.diagnosis.precision}" if one.right else "WRONG"


def formats(known: Sequence) -> Table:
    """The table of `kernel formats`."""
    rows = [[entry.name, entry.years, entry.backend, entry.looked_for] for entry in known]
    return table("", ["format", "years", "backend", "what the file has"], rows)
