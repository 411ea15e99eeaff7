"""Output about kernel files: the verdict after a run, the report of `kernel check`, and the list of formats."""

from typing import List, Sequence

from .content import Part, Table, Text, number, table

_OUTSIDE = "work outside Op Time"  # the last words of the notes in `reasons.TABLE`


def marked(name: str, findings: Sequence[str]) -> str:
    """Return a kernel's name for a table of times, with a mark if its Op Time does not include all of its work."""
    return f"{name} ({_OUTSIDE})" if any(finding.endswith(_OUTSIDE) for finding in findings) else name


def verdict(found) -> List[Part]:
    lines = [f"{found.file.name} (format {found.file.format.name}):"]
    for one in found.layers:
        lines.append(f"  layer {one.what}: {'' if one.right else 'INCORRECT: '}{one.line()}")
        lines += [f"  layer {one.what}: {finding}" for finding in one.findings]
    lines.append(f"  predictions that differ from our kernels': {found.changed:,}")
    if found.leaked:
        lines.append(f"  device memory not freed: {found.leaked / 2**20:,.0f} MiB per slice of images")
    return [Text("\n".join(lines))]


def check(found, verbose: bool = False) -> List[Part]:
    """Show a verdict: a correct file's sentence, a table, an incorrect output or, with `verbose`, all and times."""
    file, tried = found.file, found.shapes
    columns = ["layer", "input", "filters", ">images", "verdict"]
    columns += [">op time, ms", ">layer time, ms"] if verbose else []
    rows = []
    for one in tried:
        images, channels, height, width, filters, side = one.shape
        word = one.precision if one.right else "incorrect"
        row = [one.what, f"{channels} x {height} x {width}", f"{filters} of {side} x {side}", f"{images:,}", word]
        times = (one.op_seconds, one.layer_seconds) if verbose else ()
        rows.append(row + [number(1e3 * seconds, ".3f") if seconds else None for seconds in times])
    parts: List[Part] = [Text(found.sentence)] if found.right else []
    parts.append(table(f"{file.name}, format {file.format.name}, on the {file.backend.upper()}", columns, rows))
    wrong = [one for one in tried if not one.right]
    example = next((one for one in found.wrong if one.example), None)
    if verbose:
        parts += [Text(f"{one.what}: {one.line()}") for one in wrong]
    elif example:
        parts.append(Text(f"for example {example.what}: {example.example}"))
    parts += [Text(f"remedy: {remedy}") for remedy in found.remedies]
    for finding in dict.fromkeys(text for one in tried for text in one.findings):
        count = sum(finding in one.findings for one in found.layers)
        parts.append(Text(f"{finding} ({count} of the layers)" if count else f"{finding} (another size)"))
    return parts


def formats(known: Sequence) -> Table:
    rows = [[entry.name, entry.years, entry.backend, entry.language, entry.signature] for entry in known]
    return table("", ["format", "years", "backend", "language", "function"], rows)
