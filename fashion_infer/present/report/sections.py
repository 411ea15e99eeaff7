"""The report's strip of main results, and those of its sections that no other output has."""

from typing import Dict, List, Optional

import numpy as np

from ...bench.ceilings import roof
from ...bench.conclusions import Conclusion, conclusions
from ...bench.records import BenchCase, BenchResult
from ...system import noise
from .. import profile
from ..bench import convolutions, networks
from ..charts import images
from ..content import Command, Fact, Folded, Part, Picture, Strip, Text, arithmetic, compared, number, table

CONFUSION, SHEET = "confusion.svg", "mistakes.svg"
_MOST_CONFUSED = 10
_PEER, _FLOOR = "Against the best peer", "Distance to the write floor"
_STATES = {True: ("correct", "ok"), False: ("WRONG", "wrong")}
_ROOFLINE = (
    "Arithmetic intensity is a layer's number of operations divided by the bytes of its input, weights and output, "
    "each moved once: all kernels have the same intensity on a layer. A kernel above a ceiling of memory kept part of "
    "its data in the caches. The roof is the lower of two rates: the rate that the faster of fill and copy allows at "
    "that intensity, and the rate of the fastest matrix product. The points are the times of the ladder; the ceilings "
    "are those of the profile below."
)


def strip(measured) -> Strip:
    known = conclusions(measured.convolutions) if measured.convolutions else []
    one = known[0] if known else None
    kernel, (file, ours) = measured.kernel, measured.faults()
    passed = sum(check.ok for check in measured.checks)
    checked = "; ".join([*ours, f"{passed} of {len(measured.checks)} checks of the models passed"])
    facts = [Fact("Our kernels and networks", *_STATES[not ours], checked)]
    if kernel is not None:
        said = "; ".join(file) or f"{kernel.verdict.file.name}, {kernel.verdict.precision}"
        facts.insert(0, Fact("Your kernel", *_STATES[not file], said))
    if not file:  # the speed of an incorrect kernel is meaningless
        facts += [_against_peers(measured, one), _against_the_floor(one)]
    if not measured.harm:
        between = f"between {kernel.verdict.file.name} and our kernels" if kernel else "between the two modes"
        state = "wrong" if measured.changed else "ok"
        note = f"of {measured.runs[0].n:,}, {between}"
        facts.append(Fact("Predictions that differ", f"{measured.changed:,}", state, note))
    return Strip(facts)


def _against_peers(measured, one: Optional[Conclusion]) -> Fact:
    """Compare a kernel file's convolutions, or the whole network at the largest batch size, with the fastest peer."""
    result = measured.networks
    if result and result.cases and (one is None or one.auto):
        largest = networks.places(result.cases)[-1][-1]
        ours, peer = networks.fastest(largest, "ours"), networks.fastest(largest, "peer")
        if ours and peer:
            ratio = peer.median_ms / ours.median_ms  # type: ignore[operator]
            spread = noise.beside(ours.spread, peer.spread)
            return _ratio(_PEER, ratio, f"{peer.title}: whole network, batches of {largest.batch:,}{spread}")
    if one is not None and one.peer:
        than = f"{convolutions.peer_title(one.peer[0])}: {one.name}, convolutions{one.noise}"
        return _ratio(_PEER, one.peer[1], than)
    return Fact(_PEER, "--", note="no peer was measured here")


def _against_the_floor(one: Optional[Conclusion]) -> Fact:
    if one is None or one.percent_of_floor is None:
        return Fact(_FLOOR, "--", note="the write floor does not apply, or nothing was timed")
    return _ratio(_FLOOR, one.percent_of_floor / 100, f"writing the output: {one.name}{one.noise}")


def _ratio(name: str, ratio: float, than: str) -> Fact:
    """Make a fact such as "1.6 times faster", and below it "than" and the rest."""
    figure, word = compared(ratio).rsplit(" ", 1)
    return Fact(name, figure, note=f"{word} {than}")


def mistakes(measured, sheet: Optional[str]) -> List[Part]:
    """Make the section; `sheet` is the file name of the picture with the misclassified images, None without one."""
    result = measured.runs[1]
    wrong = int((result.predictions != result.labels).sum())
    files = ("--confusion", CONFUSION, *(("--mistakes", SHEET) if wrong else ()))
    command = measured.request.run_command(result.model, result.n, measured.backend, "fused", 1, *files)
    rows = _most_frequent(result)
    worst = f" Most often {rows[0][0]} is taken for {rows[0][1]}, {rows[0][2]} times." if rows else ""
    shares = "in percent of each true class, true by predicted"
    matrix = f"Confusion matrix of {result.model} on {result.n:,} images, {shares}.{worst}"
    found: List[Part] = [
        Text(f"{wrong:,} of {result.n:,} images are misclassified, correctness {result.correctness}."),
        Command(command),
        Picture(CONFUSION, matrix),
    ]
    if rows:
        found.append(table("Most frequent mistakes", ["true class", "predicted", ">images"], rows))
    if sheet:
        first = f"the first {min(wrong, images.MOST)} of {wrong:,}"
        shown = f"Misclassified images, each with the predicted class and the true class in brackets: {first}."
        found.append(Folded(f"Misclassified images: {first}", [Picture(sheet, shown)]))
    return found


def _most_frequent(result) -> List[List]:
    """Return [true class, predicted class, number of images] of the pairs of classes that are confused most often."""
    names = result.class_names
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (result.labels, result.predictions), 1)
    np.fill_diagonal(counts, 0)
    most = np.argsort(-counts, axis=None, kind="stable")[:_MOST_CONFUSED]
    pairs = [divmod(int(index), len(names)) for index in most if counts.flat[index]]
    return [[names[true], names[said], int(counts[true, said])] for true, said in pairs]


def roofline(
    result: BenchResult, ceilings: Dict[str, float], no_ceilings: str, commands: List[str], picture: Optional[str]
) -> List[Part]:
    found: List[Part] = []
    if picture:
        shown = "; ".join(f"{case.title} at {case.shape.intensity:.1f} operations a byte" for case in result.cases)
        unit, _ = arithmetic(result.backend)
        found.append(Picture(picture, f"Roofline: {unit} of every kernel under the measured ceilings. {shown}."))
    found += [*map(Command, commands), Folded("What a roofline shows", [Text(_ROOFLINE)])]
    return [*found, *profile.ceilings(ceilings, no_ceilings, result.backend), *_under_the_roof(result, ceilings)]


def _under_the_roof(result: BenchResult, ceilings: Dict[str, float]) -> List[Part]:
    unit, scale = arithmetic(result.backend)
    columns = ["kernel", "layer", ">operations a byte", f"*>{unit}", "*>% of the roof"]
    rows: List[List] = []
    reasons: List[Part] = []
    for case in result.cases:
        at = case.shape.intensity
        highest = roof(at, ceilings)
        above = []
        for row in case.rows:
            if row.tflop_s:
                percent = 100 * row.tflop_s / highest if highest else None
                rate = number(scale * row.tflop_s, ".4f" if scale == 1 else ".1f")
                above += [row.title] if percent and percent > 100 else []
                under = percent if percent is None or percent <= 100 else None
                rows.append([row.title, case.name, number(at, ".2f"), rate, number(under, ".1f")])
        reasons += [_why_above(case, above, ceilings)] if above else []
    return [table("Kernels and peers under the roof", columns, rows), *reasons]


def _why_above(case: BenchCase, above: List[str], ceilings: Dict[str, float]) -> Text:
    """Name the kernels that are above the roof, and say why this can happen: the roof is a measurement, too."""
    memory = roof(case.shape.intensity, {name: gb_s for name, gb_s in ceilings.items() if name.endswith("_gb_s")})
    bound_by_memory = memory is not None and memory == roof(case.shape.intensity, ceilings)
    moved = f"the layer moves {case.shape.bytes / 1e6:,.1f} MB"
    why = (
        f"here the roof is the rate of memory; {moved}, and the part that stays in the caches is not limited by it"
        if bound_by_memory
        else "here the roof is the rate of one library's matrix product, which may be below the hardware's limit"
    )
    return Text(f"No % of the roof for {', '.join(above)} on {case.name}, which are above it: {why}.")
