"""Diagnosis: what the outputs of the probes show of a fault, as a code and details in indices.

Every rule proposes another computation, read off the outputs, and predicts what that computation gives for every probe.
A rule is said only if its prediction holds for all outputs; otherwise the first observation is said, or nothing.
"""

from functools import partial
from itertools import combinations, permutations, product
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..graph.layers import ConvolutionShape
from .bound import ComparedOutputs
from .calls import Cause
from .probes import (
    FLOAT32,
    IMPRECISE,
    MISREAD,
    ZERO,
    Probe,
    columns_have_images,
    precision_class,
    relative_error,
    relative_errors,
    rows_have_channels,
)
from .reference import convolve
from .tensors import NEVER

_NUMBERED = ("dense", "zero", "taps", "filters", "rows", "columns")  # in the order in which a prediction is tested
_WORK = 6_000_000  # products of a probe for which a prediction is computed; beyond it, fewer images are predicted
_FITTED = 4000  # readings from which strides are solved
_CLOSE = 2.0**-6  # error of an output in half precision, relative to the largest one
_NOISE = 0.2  # largest relative error of products that are said to be imprecise
_NEARLY_ALL = 0.9  # fraction of the images from some number on that are incorrect
_SEVERAL = 8  # largest number of taps, filters or images that are listed


class Reading(NamedTuple):
    """A probe, what the kernel returned, and which outputs no rounding explains."""

    probe: Probe
    got: np.ndarray  # (n,M,Ho,Wo) float64
    off: np.ndarray
    tolerance: float

    @property
    def worst(self) -> np.ndarray:
        """The images, those with the most faults first."""
        return np.argsort(-self.off.sum(axis=(1, 2, 3)), kind="stable")

    def agrees(self, predicted: np.ndarray, images) -> bool:
        """Whether all outputs of the images are as predicted; NaN predicts nothing."""
        limit = self.tolerance * np.maximum(1.0, np.abs(predicted) / max(1.0, np.abs(self.probe.wanted).max()))
        return bool((np.isnan(predicted) | (np.abs(self.got[images] - predicted) <= limit)).all())


# A prediction: the outputs of some images (an array of their indices) of a probe, with NaN where it predicts nothing.
Prediction = Callable[[Probe, np.ndarray], np.ndarray]


class Evidence:
    def __init__(
        self, shape: ConvolutionShape, comparison: Any, outputs: Dict[str, np.ndarray], probes: Sequence[Probe]
    ):
        self.probes = {probe.kind: probe for probe in probes}
        self.shape = shape._replace(B=len(probes[0].wanted))
        self.comparison = comparison
        self.precise = precision_class(self.probes["precision"], outputs["precision"]) == FLOAT32
        self.precision_output = outputs["precision"][: self.shape.B].astype(np.float64)
        self.readings: Dict[str, Reading] = {}
        for kind in _NUMBERED:
            probe, output = self.probes[kind], outputs[kind]
            off = probe.off(output, self.precise)[: self.shape.B]
            got = output[: self.shape.B].astype(np.float64)
            self.readings[kind] = Reading(probe, got, off, probe.tolerance(self.precise))
        given = list(outputs.values()) if comparison is None else [*outputs.values(), comparison.y]
        bits = [output[np.isnan(output)].view("u4") for output in given]
        self.unwritten = all((some == NEVER).all() for some in bits)  # whether NaN may be outputs never written
        self.any_off = any(reading.off.any() for reading in self.readings.values())

    def explained(self, predict: Prediction) -> bool:
        """Whether a prediction holds for all outputs of all probes, and predicts at least half of the wrong ones."""
        off = checked = 0
        every = max(2, 2 * _WORK * self.shape.M // self.shape._replace(B=1).operations)  # or as many as _WORK allows
        for most in (1, every):  # one image of each probe refutes nearly all that is false
            for reading in self.readings.values():
                images = reading.worst[:most] if most == 1 else np.sort(reading.worst[1:most])
                if not len(images):
                    continue
                predicted = predict(reading.probe, images)
                if not reading.agrees(predicted, images):
                    return False
                wrong = reading.off[images] & ~np.isnan(reading.got[images])
                off += int(wrong.sum())
                checked += int((wrong & ~np.isnan(predicted)).sum())
        return 2 * checked >= off and (checked > 0 or not self.any_off)

    def read(self, kind: str) -> np.ndarray:
        """Return the indices that the outputs of a probe stand for; MISREAD for all if its numbers may be rounded."""
        reading = self.readings[kind]
        if not (self.precise or reading.probe.readable):
            return np.full(reading.got.shape, MISREAD)
        return reading.probe.read(reading.got)


def diagnose(
    shape: ConvolutionShape, comparison: Any, outputs: Dict[str, np.ndarray], probes: Sequence[Probe]
) -> Optional[Cause]:
    """Return why a kernel is incorrect on a shape, as its outputs for the probes show, or None.

    `comparison` is that of a call on random inputs (or None); `outputs` has an array for each kind of probe.
    """
    evidence = Evidence(shape, comparison, outputs, probes)
    if not evidence.any_off:
        return _precision(evidence) or _clipped(evidence)  # places that the probes show as right are not the reason
    same = _all_the_same(evidence)
    if same is not None or _earlier(evidence):
        return same or _clipped(evidence)
    return next(filter(None, (rule(evidence) for rule in _RULES)), None)


def _earlier(evidence: Evidence) -> bool:
    """Whether a probe's output is that of another probe: what the kernel does then depends on earlier calls."""
    readings = [reading for reading in evidence.readings.values() if reading.off.any() and reading.got.any()]
    return any(
        np.array_equal(one.got, other.got) and not np.array_equal(one.probe.wanted, other.probe.wanted)
        for one, other in combinations(readings, 2)
    )


# Rules without a second computation: nothing written, constants, precision, places.


def _all_the_same(evidence: Evidence) -> Optional[Cause]:
    outputs = [reading.got for reading in evidence.readings.values()]
    if evidence.comparison is not None:
        outputs.append(evidence.comparison.y)
    if all(np.isnan(output).all() for output in outputs):
        return Cause("not_written") if evidence.unwritten else None
    value = outputs[0].flat[0]
    if not all((output == value).all() for output in outputs):
        return None
    return Cause("all_equal", {"value": float(value)}) if value else Cause("all_zero")


def _constant(evidence: Evidence) -> Optional[Cause]:
    """A constant is added, to all outputs or to each filter's."""
    got = evidence.readings["zero"].got
    added = got[:1, :, :1, :1]
    if not np.isfinite(got).all() or not got.any() or not (got == added).all():
        return None
    if not evidence.explained(lambda probe, images: probe.wanted[images] + added):
        return None
    if (added == added[0, 0]).all():
        return Cause("constant_added", {"value": float(added[0, 0, 0, 0])})
    first = int((added != 0).ravel().argmax())
    return Cause("constant_per_filter", {"filter": first, "value": float(added[0, first, 0, 0])})


def _whole(evidence: Evidence) -> Optional[Cause]:
    """Outputs are whole numbers where the exact ones are not."""
    got = evidence.precision_output
    whole = got.any() and (got == np.rint(got)).all() and (evidence.probes["precision"].wanted != 0).sum() > 1
    return Cause("whole_numbers") if whole else None


def _precision(evidence: Evidence) -> Optional[Cause]:
    """All indices are right, and the products are not precise."""
    probe, got = evidence.probes["precision"], evidence.precision_output
    if precision_class(probe, got) != IMPRECISE or not np.isfinite(got).all() or got[probe.wanted == 0].any():
        return None  # where there is no product, an error is not that of one
    cause = _whole(evidence) or _operand(evidence)
    return cause or (None if probe.off(got).any() else Cause("imprecise", {"error": relative_error(probe, got)}))


_CHANGES: Dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "truncated to a whole number": np.trunc,
    "rounded to a whole number": np.rint,
    "used without its sign": np.abs,
    "set to 0 if it is negative": lambda values: np.maximum(values, 0),
    "converted to an unsigned byte": lambda values: np.trunc(values) % 256,
    # As a GPU converts.
    "converted to a byte, or to 0 if it is negative": lambda values: np.trunc(np.maximum(values, 0)) % 256,
    "converted to a signed byte": lambda values: (np.trunc(values) + 128) % 256 - 128,
}


def _operand(evidence: Evidence) -> Optional[Cause]:
    """Each number of the data, or of the weights, is changed before it is multiplied."""
    products, few = evidence.probes["precision"], np.arange(min(_SEVERAL, evidence.shape.B))
    for (how, change), tensor in product(_CHANGES.items(), "kx"):

        def predict(probe: Probe, images, change=change, tensor=tensor) -> np.ndarray:
            x, k = probe.inputs.x[images], probe.inputs.k
            return convolve(change(x), k) if tensor == "x" else convolve(x, change(k))

        predicted = predict(products, few)
        outputs = (evidence.precision_output[few], products.wanted[few])
        alike = [(np.abs(y - predicted) <= 2.0**-9 * predicted).all() for y in outputs]
        if alike[0] and (evidence.explained(predict) if evidence.any_off else not alike[1]):
            return Cause("changed_operand", {"tensor": tensor, "how": how})
    return None


def _noisy(evidence: Evidence) -> Optional[Cause]:
    """Nearly all outputs are near the correct ones, which no other index gives, and zeros are zeros."""
    for kind in ("zero", "taps", "filters", "rows", "columns"):
        want, got = evidence.probes[kind].wanted, evidence.readings[kind].got
        if not (np.abs(got - want) <= _NOISE * want).all():
            return None
    probe, got = evidence.probes["precision"], evidence.precision_output
    error = np.abs(relative_errors(probe, got))
    if not (error <= _NOISE).all() or (error > 2.0**-11).mean() < 0.9 or got[probe.wanted == 0].any():
        return None
    return Cause("imprecise", {"error": relative_error(probe, got)})


def _state(values: Iterable[np.ndarray], unwritten: bool) -> str:
    """Return what wrong outputs contain: "zero", "not written" or "NaN" (all of them), or "wrong"."""
    values = list(values)
    if all(np.isnan(some).all() for some in values):
        return "not written" if unwritten else "NaN"
    return "wrong" if any(some.any() for some in values) else "zero"


def _images(evidence: Evidence, wrong: bool = False) -> Optional[Cause]:
    """Images from some number on, or a few images, are wrong; with `wrong` false only if they are zero or NaN."""
    masks = [evidence.readings[kind] for kind in ("rows", "columns")]
    off = np.any([reading.off for reading in masks], axis=0)
    if any(reading.off[~off.any(axis=(1, 2, 3))].any() for reading in evidence.readings.values()):
        return None
    calls = [(np.arange(evidence.shape.B), off, [(reading.off, reading.got) for reading in masks])]
    comparison = evidence.comparison
    if comparison is not None and comparison.off.any():
        calls.append((np.asarray(comparison.images), comparison.off, [(comparison.off, comparison.y)]))
    causes = [cause for cause in (_images_of(evidence, wrong, *call) for call in calls) if cause is not None]
    if not causes or len(causes) < len(calls):
        return None
    first, last = causes[0], causes[-1]
    if all(cause.details.get("first") == images[-1] for cause, (images, _, _) in zip(causes, calls)):
        return Cause("last_image", {"state": first.details["state"]})
    return first if first == last else None


def _images_of(evidence: Evidence, wrong: bool, images, off, contents) -> Optional[Cause]:
    """Say which images of one call are wrong."""
    shares = off.mean(axis=(1, 2, 3))
    bad = shares > 0
    if bad.all() or not bad.any():
        return None
    state = _state((values[mask] for mask, values in contents if mask.any()), evidence.unwritten)
    whole = bool((shares[bad] == 1).all())
    if (state == "wrong" and not wrong) or (state != "wrong" and not whole):
        return None
    first = int(bad.argmax())
    if first and bad[first:].all() and shares[first:].min() > 0.5:
        return Cause("images_from", {"first": int(images[first]), "state": state})
    if bad.sum() <= min(_SEVERAL, (~bad).sum()):
        named = f"image{'s' if bad.sum() > 1 else ''} {', '.join(str(int(image)) for image in images[bad])}"
        return Cause("images", {"images": named, "state": state})
    return None


def of_many_images(found: ComparedOutputs) -> Optional[Cause]:
    """Return the cause that the images of a call are incorrect from some number on, or None."""
    wrong = found.wrong_images
    first = int(wrong.argmax())
    if first == 0 or wrong[first:].mean() <= _NEARLY_ALL:
        return None
    outputs, whole = found.y[found.off], found.off[found.images >= first].all()
    state = _state([outputs], bool((outputs.view("u4") == NEVER).all())) if whole else "wrong"
    if first == len(wrong) - 1:
        return Cause("last_image", {"state": state})
    return Cause("images_from", {"first": first, "state": state})


def _places(evidence: Evidence, wrong: bool = False) -> Optional[Cause]:
    """The same filters, rows or columns are wrong in the same images; with `wrong` false, zero or NaN in all."""
    full = [(evidence.readings[kind].off, evidence.readings[kind].got) for kind in ("rows", "columns")]
    if evidence.comparison is not None and len(evidence.comparison.off):
        full.append((evidence.comparison.off, evidence.comparison.y))
    off = np.any([mask.any(axis=0) for mask, _ in full], axis=0)
    if not off.any() or off.all():
        return None
    if any((reading.off & ~off).any() for reading in evidence.readings.values()):
        return None
    state = _state((values[mask] for mask, values in full if mask.any()), evidence.unwritten)
    if state != "wrong" and not all((mask == off).all() for mask, _ in full):
        return None
    if state == "wrong" and (not wrong or 2 * off.sum() > off.size):
        return None
    cause, images = _place(off, state), [_any(mask, 1, 2, 3) for mask, _ in full]
    if cause is None or all(each.all() for each in images):
        return cause
    if "where" not in cause.details or any(
        set(np.flatnonzero(each)) != set(np.flatnonzero(images[0])) for each in images
    ):
        return None
    return Cause("places", {"where": f"{_range('b', images[0])} and {cause.details['where']}", "state": state})


def _any(mask: np.ndarray, *axes: int) -> np.ndarray:
    return np.asarray(mask.any(axis=axes))


def _place(off: np.ndarray, state: str) -> Optional[Cause]:
    """Describe a mask (M,H-K+1,W-K+1) of outputs: filters, rows and columns; None if it is neither of them."""
    filters = _any(off, 1, 2)
    place = off[filters][0]
    if not (off[filters] == place).all():
        return None
    rows, columns = ~_any(~place, 1), ~_any(~place, 0)
    if not place.all():
        if (place == rows[:, None] | columns).all():
            join = " or "
        elif (place == np.outer(place.any(axis=1), place.any(axis=0))).all():
            rows, columns, join = _any(place, 1), _any(place, 0), " and "
        else:
            return None
        where = join.join(_range(name, mask) for name, mask in (("h", rows), ("w", columns)) if mask.any())
        if filters.all():
            return Cause("border", {"where": where, "state": state})
        where = f"({where})" if " or " in where else where
        return Cause("places", {"where": f"{_range('m', filters)} and {where}", "state": state})
    first = int(filters.argmax())
    if filters[first:].all() and first:
        return Cause("filters_from", {"first": first, "state": state})
    return Cause("places", {"where": _range("m", filters), "state": state})


def _range(name: str, mask: np.ndarray) -> str:
    """Describe a set of indices: "h = 0", "h >= 31", "h < 2", "h = 3 to 5", "h = 1, 3"."""
    found = np.flatnonzero(mask).tolist()
    first, last = found[0], found[-1]
    if len(found) == 1:
        return f"{name} = {first}"
    if len(found) == last - first + 1:
        some = f"{name} = {first} to {last}" if first else f"{name} < {last + 1}"
        return f"{name} >= {first}" if last == len(mask) - 1 else some
    return f"{name} = {', '.join(map(str, found[:_SEVERAL]))}{', ...' if len(found) > _SEVERAL else ''}"


# Rules that change the correct outputs.


def _changed(evidence: Evidence, change: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether all outputs are a function of the correct ones, those for random inputs too."""
    random = evidence.comparison
    if random is not None and not (np.abs(change(random.want) - random.y) <= _CLOSE * random.scale).all():
        return False
    return evidence.explained(lambda probe, images: change(probe.wanted[images].astype(np.float64)))


def _factor(evidence: Evidence) -> Optional[Cause]:
    """All outputs are multiplied by one number, or a function is applied to them."""
    want, got = evidence.probes["rows"].wanted, evidence.readings["rows"].got
    factor = float(np.median(got / want))
    if np.isfinite(factor) and factor not in (0, 1) and _changed(evidence, lambda y: factor * y):
        if evidence.precise:  # a scaled sum is precise too, and the factor is not one of the weights
            factor = float(np.float32(factor))
        return Cause("doubled") if factor == 2 else Cause("factor", {"factor": factor})
    dense, random = evidence.readings["dense"], evidence.comparison
    pairs = [(dense.probe.wanted, dense.got), *([(random.want, random.y)] if random is not None else [])]
    ratios = np.concatenate([y[exact < 0] / exact[exact < 0] for exact, y in pairs])
    slope = round(float(np.median(ratios)), 3) if len(ratios) else 1.0
    if np.isfinite(slope) and slope != 1 and _changed(evidence, lambda y: np.where(y < 0, slope * y, y)):
        code = {0.0: "relu", -1.0: "absolute"}.get(slope)
        return Cause(code) if code else Cause("negative_scaled", {"factor": slope})
    return _clipped(evidence)


def _clipped(evidence: Evidence) -> Optional[Cause]:
    """Outputs below or above a limit are that limit."""
    pairs = [(reading.probe.wanted, reading.got) for reading in evidence.readings.values()]
    pairs += [(evidence.comparison.want, evidence.comparison.y)] if evidence.comparison is not None else []
    want, got = (np.concatenate([np.ravel(values) for values in side]) for side in zip(*pairs))
    low, high, margin = float(got.min()), float(got.max()), _CLOSE * np.abs(want).max()
    limits = {"below": low} if want.min() < low - margin else {}
    limits.update({"above": high} if want.max() > high + margin else {})
    found = limits and np.isfinite(high - low) and _changed(evidence, lambda y: np.clip(y, low, high))
    return Cause("clipped", limits) if found else None


def _maps(evidence: Evidence) -> Optional[Cause]:
    """Each image, or each filter, has the outputs of another one."""
    apart = columns_have_images(evidence.shape)
    B, M = evidence.shape.B, evidence.shape.M
    found = evidence.read("columns")
    width = evidence.shape.W
    if apart == B and B > 1:
        source = _mapped(np.where(found >= 0, found // width, found), 0)
        if source is not None and evidence.explained(lambda probe, images: probe.wanted[np.asarray(source)[images]]):
            return _map_cause("image", source)
    source = _mapped(evidence.read("filters"), 1)
    if source is not None and M > 1 and evidence.explained(lambda probe, images: probe.wanted[images][:, source]):
        return _map_cause("filter", source)
    return None


def _mapped(found: np.ndarray, axis: int) -> Optional[np.ndarray]:
    """Return the index that all numbers of each image or filter stand for, or None if they differ."""
    lines = np.moveaxis(found, axis, 0).reshape(found.shape[axis], -1)
    if (lines == MISREAD).any():
        return None
    least = np.where(lines < 0, found.size, lines).min(axis=1)
    most = lines.max(axis=1)
    ok = (least == most).all() and not (most == np.arange(len(most))).all() and most.max() < len(most)
    return most if ok else None


def _map_cause(what: str, source: np.ndarray) -> Cause:
    if (source == source[0]).all():
        return Cause(f"one_{what}", {what: int(source[0])})
    first = int((source != np.arange(len(source))).argmax())
    return Cause(f"other_{what}", {what: first, "used": int(source[first])})


def _output_order(evidence: Evidence) -> Optional[Cause]:
    """Outputs are stored at other places of the output."""
    B, M, height, width = evidence.shape.output
    W, H, area = evidence.shape.W, evidence.shape.H, height * width
    layouts: List[Tuple[str, Dict[str, Any], Tuple[int, ...]]] = [
        ("output_transposed", {"used": "y[b,m,w,h]"}, (M * area, area, 1, height)),
        ("output_transposed", {"used": "y[b,m,w,h]"}, (M * area, area, 1, width)),
        ("output_order", {"order": "b,h,w,m"}, (M * area, 1, width * M, M)),
        ("output_order", {"order": "b,h,m,w"}, (M * area, width, width * M, 1)),
        ("output_order", {"order": "m,b,h,w"}, (area, B * area, width, 1)),
        ("output_order", {"order": "b,w,h,m"}, (M * area, 1, M, height * M)),
        ("output_order", {"order": "h,w,b,m"}, (M, 1, width * B * M, B * M)),
    ]
    for stride, name in ((W, "W"), (H, "H"), (height, "H-K+1")):
        details: Dict[str, Any] = {"apart": stride, "name": name, "right": width}
        layouts += [("output_rows", details, (M * step, step, stride, 1)) for step in (area, height * stride)]
    details = {"apart": width - 1, "name": "W-K", "right": width}
    layouts += [("output_rows", details, (M * step, step, width - 1, 1)) for step in (area, (height - 1) * (width - 1))]
    images = evidence.shape.C * area
    details = {"apart": images, "name": "C*(H-K+1)*(W-K+1)", "right": M * area}
    layouts.append(("output_images", details, (images, area, width, 1)))
    for step, name in ((H * W, "H*W"), (area + 1, "(H-K+1)*(W-K+1)+1")):
        layouts.append(("output_planes", {"apart": step, "name": name, "right": area}, (M * step, step, width, 1)))
    for code, details, strides in layouts:
        at = _flat(strides, np.ogrid[:B, :M, :height, :width]).ravel()
        inside = at < B * M * area
        stored = np.bincount(at[inside], minlength=B * M * area)
        for unknown in (stored == 0, stored != 1):  # of several outputs at one place, the last one may stay

            def moved(probe: Probe, images, at=at, inside=inside, unknown=unknown) -> np.ndarray:
                y = np.full(B * M * area, np.nan)
                y[at[inside]] = probe.wanted.ravel()[inside]
                y[unknown] = np.nan
                return y.reshape(probe.wanted.shape)[images]

            if evidence.explained(moved):
                return Cause(code, details)
    return None


def _flat(strides: Sequence[int], axes: Sequence[np.ndarray]) -> np.ndarray:
    """Return the flat index of all combinations of indices, which are in broadcastable axes."""
    return np.asarray(sum(int(stride) * axis for stride, axis in zip(strides, axes)))


def _running(evidence: Evidence) -> Optional[Cause]:
    """Each output is added to the one before it, in the order of loops over some axes, or even over all calls."""
    sizes = evidence.shape.output
    for count in (4, 3, 2, 1):
        for axes in permutations([axis for axis in range(4) if sizes[axis] > 1], count):
            rest = [axis for axis in range(4) if axis not in axes]

            def summed(probe: Probe, images, axes=axes, rest=rest) -> np.ndarray:
                loops = probe.wanted.astype(np.float64).transpose(*rest, *axes)
                sums = loops.reshape(*loops.shape[: len(rest)], -1).cumsum(axis=-1).reshape(loops.shape)
                sums = sums.transpose(np.argsort([*rest, *axes]))
                if not rest:
                    sums = sums + evidence.readings[probe.kind].got.flat[0] - probe.wanted.flat[0]
                return np.where(np.abs(sums[images]) < 2**34, sums[images], np.nan)

            if evidence.explained(summed):
                return Cause("sum_not_reset", {"loops": ", ".join("bmhw"[axis] for axis in axes)})
    return None


# Rules for the terms of the sum.


def _terms(evidence: Evidence) -> Optional[Cause]:
    """Some products are left out, counted twice, or scaled: the same ones in every output."""
    reading = evidence.readings["taps"]
    want, got = reading.probe.wanted, reading.got
    M, C, K, _ = evidence.shape.weights
    where = np.argwhere(want != 0)
    if not len(where) or not np.isfinite(got).all():
        return None
    b, m, h, w = where.T
    c, row, column = reading.probe.pixels[b].T
    ratio = got[tuple(where.T)] / want[tuple(where.T)]
    ratio = np.where(np.abs(ratio - np.rint(ratio)) < 0.05, np.rint(ratio), np.round(ratio, 3))
    term = np.ravel_multi_index((m, c, row - h, column - w), (M, C, K, K))
    most, least = np.full(M * C * K * K, -np.inf), np.full(M * C * K * K, np.inf)
    np.maximum.at(most, term, ratio)
    np.minimum.at(least, term, ratio)
    seen = most >= least
    if not (most == least)[seen].all():
        return None
    counts = np.where(seen, most, 1.0).reshape(M, C, K, K)
    changed = counts != 1
    if not changed.any() or changed.all():
        return None

    def predict(probe: Probe, images) -> np.ndarray:
        return convolve(probe.inputs.x[images], probe.inputs.k * counts)

    if not evidence.explained(predict):
        return None
    return _terms_cause(counts, changed)


def _terms_cause(counts: np.ndarray, changed: np.ndarray) -> Optional[Cause]:
    factor = float(counts[changed][0])
    changed = changed & (counts == factor)  # nothing is said of other factors
    kind = {0.0: "missing", 2.0: "doubled"}.get(factor, "scaled")
    details: Dict[str, Any] = {"factor": factor} if kind == "scaled" else {}
    filters = _any(changed, 1, 2, 3)
    if not filters.all() and changed[filters].all():
        return Cause("filters_scaled", {"filters": _range("m", filters), "factor": factor})
    alike, here = bool((counts == counts[:1]).all()), _any(changed, 0)
    channels = _any(here, 1, 2)
    if alike and here[channels].all():  # whole channels
        if kind == "missing" and not channels[0] and channels[1:].all():
            return Cause("first_channel")
        if kind == "missing" and not channels[-1] and channels[:-1].all():
            return Cause("last_channel")
        return Cause(f"channels_{kind}", {"channels": _range("c", channels), **details})
    if alike and (here == here[:1]).all():  # the same taps in every channel
        return Cause(f"taps_{kind}", {"taps": _taps(here[0]), **details})
    at = np.argwhere(changed if not alike else changed[:1])
    named = [f"k[{'m' if alike else m},{c},{p},{q}]" for m, c, p, q in at[:3].tolist()]
    more = f" and {len(at) - 3} more" if len(at) > 3 else ""
    return Cause(f"weights_{kind}", {"weights": f"{', '.join(named)}{more}", **details})


def _taps(mask: np.ndarray) -> str:
    """Describe taps (p,q): "p = 6", "p = 6 or q = 6", "(0,0), (0,1) and 3 more"."""
    rows, columns = ~_any(~mask, 1), ~_any(~mask, 0)
    if (mask == rows[:, None] | columns).all():
        return " or ".join(_range(name, some) for name, some in (("p", rows), ("q", columns)) if some.any())
    at = [f"({p},{q})" for p, q in np.argwhere(mask).tolist()]
    return f"{', '.join(at[:3])}{f' and {len(at) - 3} more' if len(at) > 3 else ''}"


# Rules for the indices of the weights and of the data.


def _solved(coordinates: np.ndarray, values: np.ndarray) -> Optional[np.ndarray]:
    """Return whole coefficients and a constant with coordinates @ coefficients + constant = values, or None.

    A coordinate that is the same everywhere has the coefficient 0.
    """
    if len(values) < 2:
        return None
    pick = np.linspace(0, len(values) - 1, min(len(values), _FITTED)).astype(int)
    varies = coordinates.min(axis=0) != coordinates.max(axis=0)
    matrix = np.c_[coordinates[:, varies], np.ones(len(coordinates))].astype(np.float64)
    found = np.rint(np.linalg.lstsq(matrix[pick], values[pick].astype(np.float64), rcond=None)[0])
    if not (matrix @ found == values).all():
        return None
    whole = np.zeros(coordinates.shape[1] + 1)
    whole[np.r_[varies, True]] = found
    return whole.astype(np.int64)


def _weights(evidence: Evidence) -> Optional[Cause]:
    """The right pixels are multiplied by weights at other places, whose flat index has other strides."""
    M, C, K, _ = evidence.shape.weights
    taps, filters = evidence.read("taps"), evidence.read("filters")
    where = np.argwhere((taps >= 0) & (filters >= 0))
    if not len(where):
        return None
    b, m, h, w = where.T
    c, row, column = evidence.probes["taps"].pixels[b].T
    p, q = row - h, column - w
    if not ((p >= 0) & (p < K) & (q >= 0) & (q < K)).all():
        return None
    used = filters[tuple(where.T)] * (C * K * K) + taps[tuple(where.T)]
    right = np.array([C * K * K, K * K, K, 1])
    terms = np.stack([m, c, p, q], axis=1)
    change = _solved(terms, used - terms @ right)
    if change is None or not change.any():
        return None
    strides, first = right + change[:4], int(change[4])
    axes = np.ogrid[:M, :C, :K, :K]
    at = _flat(strides, axes) + first
    inside = (at >= 0) & (at < M * C * K * K)

    def predict(probe: Probe, images) -> np.ndarray:
        k = np.where(inside, probe.inputs.k.ravel()[np.where(inside, at, 0)], 0)
        y = convolve(probe.inputs.x[images], k)
        y[:, ~inside.all(axis=(1, 2, 3))] = np.nan
        return y

    return _weights_cause(evidence.shape, strides, first) if evidence.explained(predict) else None


def _weights_cause(shape: ConvolutionShape, strides: np.ndarray, first: int) -> Cause:
    """Name other strides of the weights: another index, another order, or the strides themselves."""
    M, C, K, _ = shape.weights
    found, right = tuple(strides.tolist()), (C * K * K, K * K, K, 1)
    sizes, axes = dict(zip("mcpq", (M, C, K, K))), ("filters", "channels", "rows", "columns")
    seen = [size > 1 for size in sizes.values()]  # an axis of size 1 shows no stride

    def same(candidate) -> bool:
        return all(a == b for shown, a, b in zip(seen, found, candidate) if shown)

    belongs = "k[m,c,p,q]"
    for flips in product((False, True), repeat=4):
        start = sum((size - 1) * step for size, step, flip in zip(sizes.values(), right, flips) if flip)
        if any(flips) and first == start and same([-step if flip else step for step, flip in zip(right, flips)]):
            names = zip("mcpq", ("M-1-m", "C-1-c", "K-1-p", "K-1-q"), flips)
            used = ",".join(last if flip else axis for axis, last, flip in names)
            return Cause("weights_flipped", {"used": f"k[{used}]", "belongs": belongs})
    if same((C * K * K, 0, K, 1)) and first % (K * K) == 0:
        return Cause("weights_channel", {"used": f"k[m,{first // (K * K)},p,q]", "belongs": belongs})
    if same((0, *right[1:])) and first % right[0] == 0:
        return Cause("one_filter", {"filter": first // right[0]})
    if first:
        return _strides_cause("k", shape, axes, found, right, first)
    if same((K * K, 0, K, 1)):
        return Cause("weights_channel", {"used": "k[m,p,q] in filters K*K apart", "belongs": belongs})
    codes = {"mcqp": "weights_transposed", "cmpq": "weights_swapped"}
    for order in permutations("mcpq"):
        if same(_strides_of(order, sizes, "mcpq")):
            name = ",".join(order)
            code = codes.get("".join(order))
            usual = Cause("weights_order", {"order": name, "right": "m,c,p,q"})
            return Cause(code, {"used": f"k[{name}]", "belongs": belongs}) if code else usual
    for index in sorted(product("mcpq0", repeat=4), key=lambda index: sum(a != b for a, b in zip(index, "mcpq"))):
        if same([sum(step for step, name in zip(right, index) if name == axis) for axis in "mcpq"]):
            code = codes.get("".join(index), "weights_index")
            return Cause(code, {"used": f"k[{','.join(index)}]", "belongs": belongs})
    return _strides_cause("k", shape, axes, found, right)


def _strides_of(order: Sequence[str], sizes: Dict[str, int], axes: str) -> Tuple[int, ...]:
    """Return the strides of the axes in a memory where they follow each other in another order."""
    strides, step = {}, 1
    for axis in reversed(order):
        strides[axis] = step
        step *= sizes[axis]
    return tuple(strides[axis] for axis in axes)


def _strides_cause(tensor: str, shape: ConvolutionShape, axes, found, right, first: int = 0) -> Cause:
    """Name the strides that differ from the right ones, in numbers and in terms of the sizes."""
    changed = [
        f"{axis}: {stride}{f' ({name})' if name else ''} for {correct}"
        for axis, stride, correct in zip(axes, found, right)
        for name in [size_name(stride, shape, tensor)]
        if stride != correct
    ]
    if first:
        changed.append(f"first: {first}")
    return Cause(f"{tensor}_strides", {"strides": "; ".join(changed)})


_WEIGHT_SIZES = ["K", "K+1", "K-1", "K*K", "C*K", "C*K*K", "M*K", "M*K*K", "C", "M", "M*C", "C*C*K*K"]
_DATA_SIZES = ["H", "W", "H-K+1", "W-K+1", "W-K", "W-1", "W+1", "H*W", "C*H*W", "H*H", "W*W", "W*C", "M*H*W"]
_DATA_SIZES += ["H*(W-K+1)", "(H-K+1)*W", "(H-K+1)*(W-K+1)"]


def size_name(number: int, shape: ConvolutionShape, tensor: str = "x") -> str:
    """Return the sizes or products of sizes that a number equals, such as "W-K+1", or "H = W-K+1"; "" for none."""
    sizes = dict(zip("CHWMK", shape[1:]))
    names = _WEIGHT_SIZES if tensor == "k" else _DATA_SIZES
    if shape.H == shape.W:  # one name for each
        names = [name for name in names if name not in ("H", "H-K+1", "H*H", "W*W", "(H-K+1)*W")]
    return " = ".join(name for name in names if eval(name, {}, sizes) == number > 1)


def _pixels_used(evidence: Evidence) -> Tuple[np.ndarray, np.ndarray]:
    """Return the outputs (b,m,h,w) of "rows" and "columns" that show one pixel, and these pixels (b,c,h,w)."""
    B, _, H, W = evidence.shape.data
    rows, columns = evidence.read("rows"), evidence.read("columns")
    where = np.argwhere((rows >= 0) & (columns >= 0))
    row, column = rows[tuple(where.T)], columns[tuple(where.T)]
    taps = evidence.probes["rows"].taps[where[:, 1]] if len(where) else np.zeros((0, 3), int)
    channel = row // H if rows_have_channels(evidence.shape) else taps[:, 0]
    apart = columns_have_images(evidence.shape)
    image = column // W
    if apart < B:
        image = image + np.rint((where[:, 0] - image) / apart).astype(int) * apart
    return where, np.stack([image, channel, row % H, column % W], axis=1)


def _data(evidence: Evidence) -> Optional[Cause]:
    """The right weights are multiplied by pixels at other places: windows moved, or a flat index of other strides."""
    _, C, H, W = evidence.shape.data
    where, pixels = _pixels_used(evidence)
    if len(where) < 2:
        return None
    c, p, q = evidence.probes["rows"].taps[where[:, 1]].T
    b, _, h, w = where.T
    moved = pixels - np.stack([b, c, h + p, w + q], axis=1)
    if (moved == moved[0]).all() and not moved[0, :2].any() and moved[0].any():
        cause = _shifted(evidence, int(moved[0, 2]), int(moved[0, 3]))
        if cause is not None:
            return cause
    right = np.array([C * H * W, H * W, W, 1, W, 1])
    flat = np.array([C * H * W, H * W, W, 1])
    terms, used = np.stack([b, c, h, w, p, q], axis=1), pixels @ flat
    for at, value in (_with_taps(evidence, terms, used), (terms, used)):
        change = _solved(at, value - at @ right)
        if change is None or not change.any():
            continue
        strides, first = right + change[:6], int(change[6])
        if evidence.explained(_strided(evidence, strides, first)):
            return _data_cause(evidence.shape, strides, first)
    return None


def _with_taps(evidence: Evidence, terms: np.ndarray, used: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Append what "taps" shows if each image uses its own pixel: the tap that the pixel is multiplied by."""
    _, C, H, W = evidence.shape.data
    K = evidence.shape.K
    taps = evidence.read("taps")
    where = np.argwhere(taps >= 0)
    b, _, h, w = where.T
    c, p, q = np.unravel_index(taps[tuple(where.T)], (C, K, K))
    pixel = evidence.probes["taps"].pixels[b]
    more = np.stack([b, c, h, w, p, q], axis=1)
    at = b * C * H * W + pixel @ np.array([H * W, W, 1]) if len(b) else np.zeros(0, int)
    return np.concatenate([terms, more]), np.concatenate([used, at])


def _strided(evidence: Evidence, strides, first: int) -> Prediction:
    """Predict outputs from data with a flat index of other strides; NaN where the index is outside the data."""
    B, C = evidence.shape.data[:2]
    K, (height, width) = evidence.shape.K, evidence.shape.output[2:]

    def predict(probe: Probe, images) -> np.ndarray:
        x, k = probe.inputs.x[:B].ravel(), probe.inputs.k
        axes = [images.reshape(-1, 1, 1, 1, 1, 1), *np.ogrid[:height, :width, :C, :K, :K]]
        axes[1:] = [axis[None] for axis in axes[1:]]
        image, h, w, c, p, q = axes
        at = _flat(strides, (image, c, h, w, p, q)) + first
        inside = (at >= 0) & (at < len(x))
        patches = np.where(inside, x[np.where(inside, at, 0)], 0).reshape(-1, C * K * K)
        y = patches.astype(np.float64) @ k.reshape(len(k), -1).T.astype(np.float64)
        y[~inside.reshape(len(y), -1).all(axis=1)] = np.nan
        return y.reshape(len(images), height, width, -1).transpose(0, 3, 1, 2)

    return predict


def _shifted(evidence: Evidence, down: int, right: int) -> Optional[Cause]:
    """Windows begin elsewhere; outside of the image are zeros, or what a rule does not say."""
    _, _, H, W = evidence.shape.data
    height, width = evidence.shape.output[2:]
    rows, columns = np.arange(height) + down, np.arange(width) + right
    inside = ((rows >= 0) & (rows < height))[:, None] & ((columns >= 0) & (columns < width))

    def moved(probe: Probe, images) -> np.ndarray:
        y = probe.wanted[images][:, :, np.clip(rows, 0, height - 1)][..., np.clip(columns, 0, width - 1)]
        return np.where(inside, y.astype(np.float64), np.nan)

    def padded(probe: Probe, images) -> np.ndarray:
        widths = [(max(0, -down), max(0, down)), (max(0, -right), max(0, right))]
        x = np.pad(probe.inputs.x[images], [(0, 0), (0, 0), *widths])
        x = x[:, :, max(0, down) :, max(0, right) :][:, :, :H, :W]
        return convolve(x, probe.inputs.k)

    if evidence.explained(padded):
        return _shift_cause("padded", down, right)
    return _shift_cause("windows_shifted", down, right) if evidence.explained(moved) else None


def _shift_cause(code: str, down: int, right: int) -> Cause:
    used = f"x[b,c,{_plus('h+p', down)},{_plus('w+q', right)}]"
    return Cause(code, {"used": used, "belongs": "x[b,c,h+p,w+q]"})


def _plus(name: str, number: int) -> str:
    return f"{name}{number:+d}" if number else name


def _data_cause(shape: ConvolutionShape, strides: np.ndarray, first: int) -> Cause:
    _, C, H, W = shape.data
    found = tuple(strides.tolist())
    image, channel, h, w, p, q = found
    h, w = p if H == shape.K else h, q if W == shape.K else w  # one row, or column, of outputs shows no stride
    found = image, channel, h, w, p, q
    right = (C * H * W, H * W, W, 1, W, 1)
    belongs = "x[b,c,h+p,w+q]"
    used = {right[0]: "x[b,0,h+p,w+q]", H * W: "x[b,h+p,w+q] in planes H*W apart"}.get(image)
    if used and not first and found[1:] == (0, *right[2:]):
        return Cause("data_channel", {"used": used, "belongs": belongs})
    if found[1:] == right[1:] and image == 0 and first % right[0] == 0:
        return Cause("one_image", {"image": first // right[0]})
    if found == right:
        down = round(first / W)
        return _shift_cause("windows_shifted", down, first - down * W)
    if not first and h == p and w == q == 1 and image in (right[0], C * H * h) and channel in (right[1], H * h):
        return Cause("data_rows", {"apart": h, "name": size_name(h, shape), "right": W})
    if not first and (image, channel) == right[:2] and (h, w, p, q) == (1, W, W, 1) and H == W:
        return Cause("output_transposed", {"used": "y[b,m,w,h]"})
    if not first and (image, channel) == right[:2] and (h, w, p, q) in ((1, W, 1, W), (1, H, 1, H)):
        return Cause("data_transposed", {"used": "x[b,c,w+q,h+p]", "belongs": belongs})
    if not first and (image, channel, p, q) == (*right[:2], W, 1) and h % W == 0 and (h > W or w > 1):
        return Cause("stride", {"rows": h // W, "columns": w})
    if not first and image == right[0]:
        for used, candidate in _data_indices(H * W, W):
            if (channel, h, w, p, q) == candidate:
                return Cause("data_index", {"used": used, "belongs": belongs})
    height, width = shape.output[2:]
    for down, across in ((True, False), (False, True), (True, True)):
        start = (height - 1) * W * down + (width - 1) * across
        if first == start and found == (*right[:2], -W if down else W, -1 if across else 1, W, 1):
            used = f"y[b,m,{'H-K-h' if down else 'h'},{'W-K-w' if across else 'w'}]"
            return Cause("output_flipped", {"used": used})
        start = (H - 1) * W * down + (W - 1) * across
        if first == start and found[2:] == (-W if down else W, -1 if across else 1) * 2 and found[:2] == right[:2]:
            used = f"x[b,c,{'H-1-h-p' if down else 'h+p'},{'W-1-w-q' if across else 'w+q'}]"
            return Cause("data_flipped", {"used": used, "belongs": belongs})
    if not first and h == p and w == q:
        sizes = dict(zip("bchw", (shape.B, C, H, W)))
        for order in ("bhwc", "cbhw", "bhcw", "bwhc", "hwbc", "hwcb", "chwb"):
            if found[:4] == _strides_of(order, sizes, "bchw"):
                return Cause("data_order", {"order": ",".join(order), "right": "b,c,h,w"})
    if not first and found[2:] == right[2:]:
        if image == right[0] or image == C * channel:
            return Cause("data_planes", {"apart": channel, "name": size_name(channel, shape), "right": H * W})
        if channel == right[1]:
            return Cause("data_images", {"apart": image, "name": size_name(image, shape), "right": C * H * W})
    return _strides_cause("x", shape, ("images", "channels", "h", "w", "p", "q"), found, right, first)


def _data_indices(plane: int, W: int) -> Iterator[Tuple[str, Tuple[int, ...]]]:
    """Yield wrong indices of the data, and their strides of c, h, w, p and q."""
    terms = ("h", "w", "p", "q", "h+p", "h+q", "w+p", "w+q", "h+2p", "w+2q", "2h+p", "2w+q", "h+w", "p+q")

    def count(term: str, axis: str) -> int:
        return 2 if f"2{axis}" in term else int(axis in term)

    for channel in ("c", "0"):
        for row, column in product(terms, repeat=2):
            strides = [count(row, axis) * W + count(column, axis) for axis in "hwpq"]
            yield f"x[b,{channel},{row},{column}]", (plane if channel == "c" else 0, *strides)


# Facts: one output, and what it uses.


def _index(tensor: str, indices) -> str:
    return f"{tensor}[{','.join(str(int(i)) for i in indices)}]"


def _fact(evidence: Evidence) -> Optional[Cause]:
    """Say of the first wrong output which weight, or which pixel, it uses, or that it is not zero for data of zeros."""
    got = evidence.readings["zero"].got
    if not np.isfinite(got).all():
        return None
    if got.any():
        where = tuple(np.argwhere(got != 0)[0])
        return Cause("zero_data", {"output": _index("y", where), "value": float(got[where])})
    return _fact_of_weight(evidence) or _fact_of_pixel(evidence)


def _fact_of_weight(evidence: Evidence) -> Optional[Cause]:
    _, C, K, _ = evidence.shape.weights
    used = [output != 0 for output in (evidence.readings["taps"].got, evidence.readings["filters"].got)]
    if not (used[0] == used[1]).all() or not (used[0] == (evidence.precision_output != 0)).all():
        return None  # calls with the same pixels differ in which outputs use them
    reading, found, filters = evidence.readings["taps"], evidence.read("taps"), evidence.read("filters")
    right = reading.probe.read(reading.probe.wanted)
    wrong = np.argwhere(reading.off & (found >= ZERO) & ((filters >= 0) == (found >= 0)))
    if not _confirmed(evidence, wrong, found, filters):
        return None
    for b, m, h, w in wrong[:1].tolist():
        at, is_, was = (b, m, h, w), int(found[b, m, h, w]), int(right[b, m, h, w])
        c, row, column = reading.probe.pixels[b].tolist()
        output, pixel = _index("y", at), _index("x", (b, c, row, column))
        weight = _index("k", (filters[at], *np.unravel_index(is_, (C, K, K)))) if is_ >= 0 else ""
        belongs = _index("k", (m, *np.unravel_index(was, (C, K, K)))) if was >= 0 else ""
        if weight and belongs:
            return Cause("uses_weight", {"output": output, "used": weight, "belongs": belongs, "pixel": pixel})
        if weight:
            return Cause("uses_outside", {"output": output, "used": weight, "pixel": pixel})
        return Cause("lacks_weight", {"output": output, "belongs": belongs, "pixel": pixel})
    return None


def _confirmed(evidence: Evidence, wrong: np.ndarray, found: np.ndarray, filters: np.ndarray) -> bool:
    """Whether the products of "precision" are those of the weights that "taps" and "filters" show."""
    at = tuple(wrong.T)
    used = found[at] >= 0
    at = tuple(axis[used] for axis in at)
    probe = evidence.probes["precision"]
    if not len(at[0]):
        return True
    pixel = probe.inputs.x[(at[0], *probe.pixels[at[0]].T)]
    weight = probe.inputs.k.reshape(len(probe.inputs.k), -1)[filters[at], found[at]]
    error = np.abs(evidence.precision_output[at] / (pixel * weight) - 1)
    return bool((error <= 2.0**-8).mean() > 0.9)


def _fact_of_pixel(evidence: Evidence) -> Optional[Cause]:
    where, pixels = _pixels_used(evidence)
    if not len(where):
        return None
    c, p, q = evidence.probes["rows"].taps[where[:, 1]].T
    b, _, h, w = where.T
    right = np.stack([b, c, h + p, w + q], axis=1)
    wrong = np.flatnonzero((pixels != right).any(axis=1))
    if not len(wrong):
        return None
    first = wrong[0]
    alike = (where[:, 1:] == where[first, 1:]).all(axis=1) & (pixels - right == pixels[first] - right[first]).all(
        axis=1
    )
    if alike.sum() < 2:
        return None  # no other image shows it
    details = {"output": _index("y", where[first]), "used": _index("x", pixels[first])}
    return Cause("uses_pixel", {**details, "belongs": _index("x", right[first])})


_RULES: Tuple[Callable[[Evidence], Optional[Cause]], ...] = (
    _images,
    _places,
    _constant,
    _noisy,
    _whole,
    _factor,
    _operand,
    _terms,
    _weights,
    _maps,
    _data,
    _output_order,
    _running,
    partial(_places, wrong=True),
    partial(_images, wrong=True),
    _fact,
)
