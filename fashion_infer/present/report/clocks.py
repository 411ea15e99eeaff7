"""A table that compares the times of the convolutions in the report's parts, and says how each was measured."""

from typing import List, Optional

from ..content import Part, Text, number, table

_WHY = (
    "The first row of each convolution has its op time, from which every rate below is computed. The ladder and the "
    "profiler time the same kernel under other conditions, which the last column names. To make the times comparable, "
    "each is divided by its number of images."
)


def op_seconds(result, layer: str) -> Optional[float]:
    """Return the median op time of a run's layer in seconds; None if the run has no such layer."""
    return next((each.median for each in result.layers if each.name == layer), None)


def parts(measured) -> List[Part]:
    """Make the table of the convolutions' times, with one row per way of timing."""
    rows: List[List] = []
    for result, profile in zip(measured.runs, measured.profiles):
        known = {each.layer: each for each in profile.figures.throughput}
        custom = [layer for layer in result.layers if layer.custom]
        for place, layer in enumerate(custom, 1):
            base = layer.median / result.n
            spread = f"{1e3 * min(layer.seconds):.4g} to {1e3 * max(layer.seconds):.4g} ms"
            slices = f"in slices of {result.batch_size:,}" if result.batch_size < result.n else "all images at once"
            why = f"median of {len(layer.seconds)} passes, {spread}, {slices}"
            rows.append(_row(layer, result, "op time", layer.median, result.n, base, why))
            if layer.kernel != "fused":
                rows += _of_the_ladder(measured, result, layer, place, base)
            if layer.name in known:
                rows.append(_row(layer, result, "profile", known[layer.name].seconds, result.n, base, _why(profile)))
    if not rows:
        return []
    columns = ["layer", "mode", "kernel", "where", ">ms", ">images", ">us an image", ">of op time", "how it was timed"]
    return [Text(_WHY), table("One kernel, one time", columns, rows)]


def _row(layer, result, where, seconds, images, base, why) -> List:
    an_image = seconds / images
    ratio = number(an_image / base if base else None, ".2f")
    return [layer.name, result.mode, layer.kernel, where, number(1e3 * seconds, ".4g"), images,
            number(1e6 * an_image, ".3f"), ratio, why]  # fmt: skip


def _of_the_ladder(measured, result, layer, place, base) -> List[List]:
    cases = measured.convolutions.cases if measured.convolutions else ()
    found = [(case, row) for case in cases if case.number == place for row in case.rows if row.name == layer.kernel]
    return [
        _row(
            layer,
            result,
            "ladder",
            row.median_ms / 1e3,
            case.shape.B,
            base,
            f"median of {row.runs} runs of one batch of {case.shape.B:,} random images, all contenders in turn",
        )
        for case, row in found
        if row.timed
    ]


def _why(profile) -> str:
    passes = profile.figures.overhead[0].passes if profile.figures.overhead else 0
    if passes:
        return f"median of {passes} passes without the profiler, in a separate process"
    return "one pass, the first of a separate process: it loads code, allocates memory, and is profiled"
