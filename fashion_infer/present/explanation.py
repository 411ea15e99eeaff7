"""The output of `kernel explain`: the verdict and the speed in a paragraph, then the findings."""

from typing import List, Optional, Union

from ..judging import reasons
from .bench import convolutions
from .content import Column, Part, Text, compared, number, table, three_digits

_WIDTH = 100  # largest number of characters of a quoted source line


def page(found, verdict: bool = True) -> List[Part]:
    """Show an explanation: verdict (unless it is the command's error), speed, findings, and missing tools."""
    parts: List[Part] = [Text(_answer(found))] if found.right or verdict else []
    parts += [Text(_speed(found.figures))] if found.figures else []
    parts += why(found.findings, found.right)
    if found.right and found.figures and not found.findings:
        parts.append(Text("Nothing that this command looks for holds it back."))
    parts += [Text(line) for line in (*found.notes, *found.missing)]
    if found.listing:
        parts.append(Text(found.listing))
    return parts


def _speed(figures) -> str:
    part = figures["gflop_s"] / figures["peak_gflop_s"] if figures["peak_gflop_s"] else 0.0
    names = ", ".join(f"{name} {_size(number)}" for name, number in figures["caches"].items())
    usable, all_of = figures["processors"], figures.get("machine_processors", figures["processors"])
    few = f" that this process may use, of {all_of}" if usable < all_of else ""
    rate = three_digits(figures["gflop_s"])
    return (
        f"In a call with {figures['images']:,} images: {rate} GFLOP/s, {_percent(part)} of the "
        f"{figures['peak_gflop_s']:,.0f} that all processors reach here on registers alone; {figures['threads']} of "
        f"{usable} processors{few} worked.\nAn image with its output has {_size(figures['image_bytes'])}, "
        f"the weights {_size(figures['weight_bytes'])}; the caches hold {names or 'an unknown number of bytes'}."
    )


def _size(count: int) -> str:
    return f"{three_digits(count / 1024)} KiB" if count < 1 << 20 else f"{three_digits(count / (1 << 20))} MiB"


def _percent(part: float) -> str:
    return f"{part:.0%}" if part >= 0.1 else f"{part:.1%}"


def why(findings, right: bool = False) -> List[Part]:
    """Show findings as numbered text, each with its cost, its section in why.md, its line, and its remedy."""
    if not findings:
        return []
    heading = "What holds it back, largest first" if right else "Why it is incorrect"
    lines = [f"{heading} (docs/why.md explains each [name]):"]
    for place, one in enumerate(findings, 1):
        cost = f", about {_percent(one.share)} of the time" if one.share is not None else ""
        lines.append(f"{place}. {one.what}{cost} {_name(one)}".rstrip())
        if one.source:
            lines.append(f"     {one.line}: {one.source[:_WIDTH]}")
        lines.append(f"   remedy: {one.remedy}{_step(one)}{_brings(one)}")
    return [Text("\n".join(lines))]


def findings(found, right: bool) -> List[Part]:
    columns: List[Union[str, Column]] = ["finding", "remedy", Column("line", code=True)]
    caption = "Why it is incorrect"
    rows = [[f"{one.what} {_name(one)}".rstrip(), one.remedy, one.source and one.source[:_WIDTH]] for one in found]
    if right:
        columns += [">% of the time", "our kernel that shows it"]
        caption = "What holds it back, largest first; shares are estimates"
        rows = [[*row, one.share and number(100 * one.share, ".0f"), one.step] for row, one in zip(rows, found)]
    return [table(caption, columns, rows)._replace(stacked=True)] if rows else []


def _name(one) -> str:
    """Return the name of a finding's section in docs/why.md, in brackets; "" for a cause that has none."""
    cause = reasons.TABLE.get(one.code)
    return f"[{one.code}]" if cause is None or cause.section == one.code else ""


def _step(one) -> str:
    if not one.step:
        return ""
    gain = f", {compared(one.gain)} the step before it" if one.gain and "kernel" in one.evidence else ""
    return f" (see our kernel {one.step}{gain})"


def _brings(one) -> str:
    if one.after_ms is None or one.before_ms is None:
        return ""
    return f": {three_digits(one.before_ms)} ms -> about {three_digits(one.after_ms)} ms"


def _answer(found) -> str:
    said = f"{found.verdict.sentence.rstrip('.')}."
    if found.milliseconds is None:
        return said
    said += f"\n{found.layer}: {three_digits(found.milliseconds)} ms"
    slower, faster = found.between
    if slower and faster:
        said += f", between our kernels {slower} and {faster}"
    elif slower or faster:
        said += f", {'faster' if slower else 'slower'} than all of our kernels"
    standing: Optional[str] = convolutions.sentence(found.standing) if found.standing else None
    return f"{said}\n{standing}." if standing else f"{said}."
