"""The output of `kernel explain`: the verdict and the speed in a paragraph, then the findings."""

from typing import List, Optional

from .bench import convolutions
from .content import Part, Text, number, table

_WIDTH = 100  # largest number of characters of a quoted source line


def page(found) -> List[Part]:
    """Show an explanation (`explain.explanation.Explanation`): verdict, speed, findings, and missing tools."""
    parts: List[Part] = [Text(_answer(found))]
    parts += [Text(_speed(found.figures))] if found.figures else []
    parts += why(found.findings, found.right)
    if found.right and found.figures and not found.findings:
        parts.append(Text("Nothing that this command looks for holds it back."))
    parts += [Text(line) for line in found.missing]
    if found.listing:
        parts.append(Text(found.listing))
    return parts


def _speed(figures) -> str:
    """Describe a call's arithmetic rate, threads and bytes, and what this machine can reach."""
    part = figures["gflop_s"] / figures["peak_gflop_s"] if figures["peak_gflop_s"] else 0.0
    names = ", ".join(f"{name} {_size(number)}" for name, number in figures["caches"].items())
    return (
        f"In a call with {figures['images']} images: {figures['gflop_s']:.3g} GFLOP/s, {part:.1%} of the "
        f"{figures['peak_gflop_s']:,.0f} that all processors reach here on registers alone; {figures['threads']} of "
        f"{figures['processors']} processors worked.\nAn image with its output has {_size(figures['image_bytes'])}, "
        f"the weights {_size(figures['weight_bytes'])}; the caches hold {names or 'an unknown number of bytes'}."
    )


def _size(count: int) -> str:
    return f"{count / 1024:,.3g} KiB" if count < 1 << 20 else f"{count / (1 << 20):,.3g} MiB"


def why(findings, right: bool = False) -> List[Part]:
    """Show findings as numbered text, each with its cost, its section in why.md, its line, and its remedy."""
    if not findings:
        return []
    heading = "What holds it back, largest first" if right else "Why it is incorrect"
    if right and findings[0].share is None:
        heading = "Errors that its results do not show"
    lines = [f"{heading} (docs/why.md explains each [name]):"]
    for place, one in enumerate(findings, 1):
        cost = f", about {one.share:.0%} of the time" if one.share is not None else ""
        lines.append(f"{place}. {one.what}{cost} {_name(one)}")
        if one.source:
            lines.append(f"     {one.line}: {one.source[:_WIDTH]}")
        lines.append(f"   remedy: {one.remedy}{_step(one)}")
    return [Text("\n".join(lines))]


def findings(found, right: bool) -> List[Part]:
    """Make a table of findings, for the report's page. `why` shows findings as text."""
    columns, caption = ["finding", "line", "remedy"], "Why it is incorrect"
    rows = [[f"{one.what} {_name(one)}", one.source and one.source[:_WIDTH], one.remedy] for one in found]
    if right:
        columns += [">% of the time", "our kernel that shows it"]
        caption = "What holds it back, largest first; shares are estimates"
        rows = [[*row, one.share and number(100 * one.share, ".0f"), one.step] for row, one in zip(rows, found)]
    return [table(caption, columns, rows)] if rows else []


def _name(one) -> str:
    """Return the name of a finding's section in docs/why.md, in brackets."""
    return f"[{one.code}]"


def _step(one) -> str:
    if not one.step:
        return ""
    gain = f", {one.gain:.1f} x faster than the step before it" if one.gain and one.gain > 1.05 else ""
    return f" (see our kernel {one.step}{gain})"


def _answer(found) -> str:
    said = f"{found.checked.sentence.rstrip('.')}."
    if found.milliseconds is None:
        return said
    said += f"\n{found.layer}: {found.milliseconds:.3g} ms"
    slower, faster = found.between
    if slower and faster:
        said += f", between our kernels {slower} and {faster}"
    elif slower or faster:
        said += f", {'faster' if slower else 'slower'} than all of our kernels"
    standing: Optional[str] = convolutions.sentence(found.standing) if found.standing else None
    return f"{said}\n{standing}." if standing else f"{said}."
