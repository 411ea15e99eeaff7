"""The verdict on a kernel file, and all of its words."""

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..graph.layers import ConvolutionShape
from ..kernel_files.formats import KernelFile
from . import bound, reasons
from .bound import INCORRECT, ComparedOutputs, worst
from .calls import Cause

OTHER = "another size"
GIVEN = "the given sizes"


class ShapeVerdict(NamedTuple):
    """What the calls of one shape showed."""

    what: str  # the edition and its layer's number, OTHER, or the layer's name in a network
    shape: ConvolutionShape  # of the largest call
    cause: Optional[Cause]  # why it is incorrect; None if it is correct
    precision: str  # one of `bound.CLASSES`
    comparison: Optional[ComparedOutputs] = None  # of the call that shows the cause; None if no call completed
    op_seconds: float = 0.0  # in the first call
    layer_seconds: float = 0.0  # 0 for a format without phases
    notes: Tuple[Cause, ...] = ()  # what is no fault of the outputs, such as work outside of Op Time
    calls: int = 0  # completed calls

    @property
    def right(self) -> bool:
        return self.cause is None

    @property
    def code(self) -> str:
        """The code of the cause in `reasons.TABLE`; "" if it is correct."""
        return self.cause.code if self.cause else ""

    @property
    def harmful(self) -> bool:
        """Whether the fault can harm the process that calls the kernel."""
        return self.cause is not None and (self.code in reasons.HARMFUL or "harm" in self.cause.details)

    @property
    def reason(self) -> str:
        return reasons.sentence(self.cause) if self.cause else ""

    @property
    def findings(self) -> Tuple[str, ...]:
        return tuple(map(reasons.sentence, self.notes))

    @property
    def example(self) -> str:
        """The first incorrect output beside the exact one; "" if there is none."""
        found = self.comparison
        if found is None or found.first is None:
            return ""
        where = ",".join(map(str, found.first))
        if not math.isfinite(found.got):
            return f"y[{where}] is {found.got:g} instead of {found.wanted:.6g}"
        return f"y[{where}] = {found.got:.6g} instead of {found.wanted:.6g}"

    def line(self) -> str:
        if self.right and self.comparison:
            found = self.comparison
            return f"correct, {self.precision}; largest error {found.largest:.2g} of {found.scale:.4g}"
        if not self.example or self.comparison is None:
            return self.reason or "correct"
        found = self.comparison
        return f"{self.reason}; {found.wrong:,} of {found.total:,} outputs compared differ: {self.example}"

    def as_dict(self) -> Dict[str, Any]:
        """Convert for JSON, which has neither NaN nor infinity."""
        found = self.comparison
        return {
            "what": self.what,
            "shape": list(self.shape),
            "correct": self.right,
            "code": self.code,
            "reason": self.reason,
            "details": dict(self.cause.details) if self.cause else {},
            "precision": self.precision,
            "first": found.first if found else None,
            "got": _number(found.got) if found and found.first else None,
            "wanted": _number(found.wanted) if found and found.first else None,
            "largest_error": _number(found.largest) if found else None,
            "scale": _number(found.scale) if found else None,
            "op_seconds": self.op_seconds,
            "layer_seconds": self.layer_seconds,
            "findings": list(self.findings),
            "calls": self.calls,
        }


class Verdict(NamedTuple):
    """The verdict on a kernel file: on the layers of editions, of a run's network, or of given sizes."""

    file: KernelFile
    shapes: Tuple[ShapeVerdict, ...]
    edition: Optional[str] = None  # required by the caller; every layer of it must be correct
    together: Optional[Cause] = None  # cause that only a comparison of several shapes shows
    changed: Optional[int] = None  # after a run: predictions that differ from those of our kernels
    leaked: int = 0  # after a run: bytes of device memory that are not freed per slice of images

    def __repr__(self) -> str:
        """The verdict in one sentence."""
        return f"<Verdict: {self.sentence}>"

    @property
    def layers(self) -> List[ShapeVerdict]:
        """The verdicts on layers, without other sizes."""
        return [one for one in self.shapes if one.what != OTHER]

    @property
    def by_edition(self) -> Dict[str, List[ShapeVerdict]]:
        """The layers by edition; those of a network or of given sizes have the key GIVEN."""
        found: Dict[str, List[ShapeVerdict]] = {}
        for one in self.layers:
            name, layer, _ = one.what.partition(", layer ")
            found.setdefault(name if layer else GIVEN, []).append(one)
        return found

    @property
    def right_for(self) -> Tuple[str, ...]:
        """The editions with all layers correct."""
        return tuple(name for name, layers in self.by_edition.items() if all(one.right for one in layers))

    @property
    def right(self) -> bool:
        """Whether the kernel is correct for all layers of an edition of its format, or of the required edition."""
        return bool(self.right_for)

    @property
    def wrong(self) -> List[ShapeVerdict]:
        return [one for one in self.layers if not one.right]

    @property
    def precision(self) -> str:
        """The least precise class of the correct layers; "incorrect" if none is correct."""
        right = [one.precision for name in self.right_for for one in self.by_edition[name]]
        return worst(*right) if right else INCORRECT

    @property
    def causes(self) -> List[Cause]:
        """The causes of the incorrect layers, the most frequent first; each once by its code."""
        if self.together:
            return [self.together]
        causes = [one.cause for one in self.wrong if one.cause]
        codes = [cause.code for cause in causes]
        known = [cause for cause in causes if cause.code != INCORRECT] or causes
        first = {cause.code: cause for cause in reversed(known)}
        return sorted(first.values(), key=lambda cause: -codes.count(cause.code))

    @property
    def remedies(self) -> List[str]:
        """What to do about the causes, the most frequent one first."""
        found = (reasons.TABLE[cause.code].remedy for cause in self.causes)
        return [remedy for remedy in dict.fromkeys(found) if remedy]

    @property
    def sentence(self) -> str:
        name, wrong = self.file.name, self.wrong
        others = [one for one in self.shapes if one.what == OTHER and not one.right]
        if not wrong and self.layers:
            precision = "" if self.precision == bound.CLASSES[0] else f" in {self.precision}"
            other = f"; fails for other sizes, as {_size(others[0])}: {others[0].reason}" if others else ""
            return f"{name} is correct for {self._where(self.by_edition)}{precision}{self._changes()}{other}"
        why = reasons.sentence(self.causes[0]) if self.causes else "no layer was tried"
        if not self.right:
            return f"{name} is incorrect on {len(wrong)} of {_layers(self.layers)}: {why}"
        failed = [each for each in self.by_edition if each not in self.right_for]
        return f"{name} is correct for {self._where(self.right_for)}; fails for {_listed(failed)}: {why}"

    def _where(self, editions) -> str:
        layers = [one for name in editions for one in self.by_edition[name]]
        names = [name for name in editions if name != GIVEN]
        count = {1: "its layer", 2: "both layers"}.get(len(layers), f"all {len(layers)} layers")
        if not names:
            return count if len(layers) > 1 else GIVEN if layers[0].what == GIVEN else f"layer {layers[0].what}"
        return f"{_listed(names)}, {count}"

    def _changes(self) -> str:
        return f"; {self.changed:,} predictions changed by rounding" if self.changed else ""

    def as_dict(self) -> Dict[str, Any]:
        return {
            "file": str(self.file.path),
            "format": self.file.format.name,
            "backend": self.file.backend,
            "verdict": self.sentence,
            "correct": self.right,
            "correct_for": list(self.right_for),
            "precision": self.precision,
            "changed": self.changed,
            "leaked": self.leaked,
            "causes": [reasons.as_dict(cause) for cause in self.causes],
            "layers": [one.as_dict() for one in self.shapes],
        }


def _number(value: float) -> Optional[float]:
    return value if math.isfinite(value) else None


def _size(one: ShapeVerdict) -> str:
    _, channels, height, width, filters, side = one.shape
    return f"{filters} filter{'' if filters == 1 else 's'} of {side} x {side} over {channels} x {height} x {width}"


def _layers(layers: Sequence[ShapeVerdict]) -> str:
    return "1 layer" if len(layers) == 1 else f"{len(layers)} layers"


def _listed(names) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
