"""Output about kernel files: the verdict after a run, the report of `kernel check`, and the list of formats."""

from typing import List, Sequence

from .content import Part, Table, Text, number, table

_OUTSIDE = "work outside Op Time"  # the last words of the finding, in `kernel_files.plugin.FOUND`


def marked(name: str, findings: Sequence[str]) -> str:
    """Return a kernel's name for a table of times, with a mark if its Op Time does not include all of its work."""
    return f"{name} ({_OUTSIDE})" if any(finding.endswith(_OUTSIDE) for finding in findings) else name


def verdict(found) -> List[Part]:
    """Show the verdict on a kernel file after a run (a `judging.verdict.Verdict`), with one line per layer."""
    kernel = found.kernel
    lines = [f"{kernel.name} (format {kernel.format}):"]
    for one in found.layers:
        lines.append(f"  layer {one.what}: {'' if one.right else 'INCORRECT: '}{one.line()}")
        lines += [f"  layer {one.what}: {finding}" for finding in one.findings]
    lines.append(f"  predictions that differ from our kernels': {found.changed:,}; precision class: {found.precision}")
    if found.leaked:
        lines.append(f"  device memory not freed: {found.leaked / 2**20:,.0f} MiB per slice of images")
    return [Text("\n".join(lines))]


def check(found, verbose: bool = False) -> List[Part]:
    """Show a `judging.trials.Checked`: the verdict, a table, and one incorrect output.

    With `verbose`, the table also has the times of one call, and each incorrect shape gets a line of explanation.
    """
    file, tried = found.file, found.tried
    columns = ["layer", "input", "filters", ">images", "verdict"]
    columns += [">op time, ms", ">layer time, ms"] if verbose else []
    rows = []
    for one in tried:
        images, channels, height, width, filters, side = one.shape
        row = [one.what, f"{channels} x {height} x {width}", f"{filters} of {side} x {side}", images, _word(one)]
        times = (one.op_seconds, one.layer_seconds) if verbose else ()
        rows.append(row + [number(1e3 * seconds, ".3f") if seconds else None for seconds in times])
    parts: List[Part] = [
        Text(found.sentence),
        table(f"{file.name}, format {file.format.name}, on the {file.backend.upper()}", columns, rows),
    ]
    wrong = [one for one in tried if not one.right]
    examples = [one for one in wrong if one.diagnosis and not one.diagnosis.right]
    if verbose:
        parts += [Text(f"{one.what}: {one.line()}") for one in wrong]
    elif examples:
        parts.append(Text(f"for example {examples[0].what}: {_example(examples[0].diagnosis)}"))
    for finding in dict.fromkeys(text for one in tried for text in one.findings):
        where = [one.what for one in tried if finding in one.findings and one.what != "another size"]
        parts.append(Text(f"{finding} ({len(where)} of the layers)" if where else f"{finding} (another size)"))
    return parts


def _example(found) -> str:
    where = ",".join(map(str, found.first))
    share = f"{found.wrong:,} of {found.total:,} outputs differ"
    return f"got y[{where}] = {found.got:.6g}, want {found.wanted:.6g}; {share}"


def _word(one) -> str:
    if not one.right:
        return one.code.replace("_", " ")
    return f"correct, {one.diagnosis.precision}"


def formats(known: Sequence) -> Table:
    rows = [[entry.name, entry.years, entry.backend, entry.language, entry.signature] for entry in known]
    return table("", ["format", "years", "backend", "language", "function"], rows)
