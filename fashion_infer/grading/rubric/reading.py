"""Reads rubrics from text, makes the default rubric of an edition, and converts rubrics for verdicts."""

from pathlib import Path
from typing import Any, Dict, Optional, Tuple

from ...checkpoints import editions
from ...errors import UsageError
from ...system import inputs, installation
from ...system.text import excerpt
from .model import BACKENDS, BETWEEN, KINDS, PRECISIONS, Rubric, RubricCheck, RubricLayer, RubricLimits, Show, Timing

_MOST_IMAGES = 100_000
_MOST_SIDE, _MOST_WEIGHTS = 4096, 1 << 24
_LARGEST = 1 << 20  # largest number of bytes of a rubric's file
_MOST = 100  # largest number of checks, of numbers of images in a check, of steps, of layers, and of characters
_MOST_NUMBER = 1e12
# Largest values in [timing] and [limits], by name; _MOST_LIMIT for all others.
_MOST_OF = {"seconds": 86_400, "build_seconds": 86_400, "calls": 10_000, "runs": 10_000, "spread": _MOST_NUMBER}
_MOST_LIMIT = 1e6
# Times in seconds per multiply-add: the time that earns all points, and the time from which on none are earned. Two
# simple kernels take longer than the second time: seven nested loops on any CPU, where each addition waits for the one
# before, and one thread per output on an H200.
_CPU, _GPU = (0.1e-9, 0.4e-9), (0.1e-12, 0.3e-12)
_TOP = ("edition", "layer", "backend", "precision", "check", "timing", "limits", "show")


def default_text(edition: str) -> str:
    work = sum(
        filters * channels * side**2 * (size - side + 1) ** 2
        for channels, size, filters, side in editions.convolution_shapes(editions.get(edition))
    )
    text = (Path(__file__).parent / "default.toml").read_text(encoding="utf-8")
    for name, rates in (("cpu", _CPU), ("gpu", _GPU)):
        for which, rate in zip(("full", "none"), rates):
            text = text.replace(f"{{{name}_{which}}}", f"{float(f'{1e7 * work * rate:.2g}'):g}")
    return text.replace("{edition}", edition)


def default(edition: str) -> Rubric:
    return parse(default_text(edition), f"the default rubric of {edition}")


def read(path: str, edition: Optional[str] = None) -> Rubric:
    """Read a rubric's file; an edition replaces the file's. UsageError if the file cannot be read, or contains an
    unknown name or a value out of range."""
    try:
        text = inputs.read(path, _LARGEST, UsageError, "the rubric ").decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read the rubric {path}: {error}") from None
    found = parse(text, path)
    if edition is not None and found.layers:
        raise UsageError(f"{path} lists layers: leave --edition out")
    return found if edition is None else found._replace(edition=editions.get(edition) and edition)


def parse(text: str, where: str) -> Rubric:
    try:
        import tomllib as toml
    except ImportError:  # Python 3.8 to 3.10
        try:
            import tomli as toml  # type: ignore[no-redef]
        except ImportError:
            raise UsageError(f"rubrics need tomli on this Python: {installation.extra('grade')}") from None
    try:
        return of_dict(toml.loads(text))
    except (ValueError, RecursionError) as error:  # not TOML, an integer that is too long; nested too deeply
        raise UsageError(f"{where} is not TOML: {error}") from None
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def of_dict(values: Dict[str, Any]) -> Rubric:
    _known(values, _TOP, "")
    layers = _layers(values)
    edition = "" if layers else _text(values, "edition", None)
    if layers and values.get("edition"):
        raise UsageError("a rubric has an edition or [[layer]] tables, not both")
    if edition:
        editions.get(edition)
    checks = values.get("check")
    if not isinstance(checks, list) or not 0 < len(checks) <= _MOST:
        raise UsageError(f"a rubric has 1 to {_MOST} [[check]]")
    limits, timing = _numbers(values, "limits", RubricLimits), _numbers(values, "timing", Timing)
    show = values.get("show", {})
    _known(show, Show._fields, "show.")
    if not all(isinstance(value, bool) for value in show.values()):
        raise UsageError("each value in [show] must be true or false")
    return Rubric(
        edition,
        _text(values, "backend", BACKENDS, "auto"),
        _text(values, "precision", PRECISIONS, "float32"),
        tuple(_check(check) for check in checks),
        timing._replace(calls=int(timing.calls), runs=int(timing.runs)),
        limits,
        Show(**show),
        layers,
    )


def as_dict(rubric: Rubric) -> Dict[str, Any]:
    return {
        **({"layer": [{name: value for name, value in layer._asdict().items() if value}
                      for layer in rubric.layers]} if rubric.layers else {"edition": rubric.edition}),
        "backend": rubric.backend, "precision": rubric.precision,
        "check": [{name: value for name, value in check._asdict().items() if value not in ((), "any")}
                  for check in rubric.checks],
        "timing": rubric.timing._asdict(), "limits": rubric.limits._asdict(), "show": rubric.show._asdict(),
    }  # fmt: skip


def _layers(values: Dict[str, Any]) -> Tuple[RubricLayer, ...]:
    given = values.get("layer", [])
    if not isinstance(given, list) or len(given) > _MOST:
        raise UsageError(f"layers must be at most {_MOST} tables [[layer]]")
    return tuple(_layer(number, each) for number, each in enumerate(given, start=1))


def _layer(number: int, values: Any) -> RubricLayer:
    _known(values, RubricLayer._fields, f"layer {number}.")
    layer = RubricLayer(*(values.get(name, 0) for name in RubricLayer._fields))
    for name, value in zip(RubricLayer._fields, layer):
        most = _MOST_IMAGES if name == "images" else _MOST_SIDE
        if (name in values or name != "images") and not _whole(value, most):
            raise UsageError(f"layer {number}: {name} must be a whole number from 1 to {most:,}")
    if layer.kernel_size > layer.input_size:
        raise UsageError(f"layer {number}: kernel_size is larger than input_size")
    if (
        layer.filters * layer.channels * layer.kernel_size**2 > _MOST_WEIGHTS
        or max(layer.channels, layer.filters) * layer.input_size**2 > _MOST_WEIGHTS
    ):
        raise UsageError(f"layer {number}: it has more than {_MOST_WEIGHTS:,} weights, or values per image")
    return layer


def _check(values: Any) -> RubricCheck:
    if not isinstance(values, dict):
        raise UsageError("each check must be a table [[check]]")
    name = _text(values, "name", None)
    _known(values, RubricCheck._fields, f"check {name}: ")
    kind = _text(values, "kind", KINDS)
    points = values.get("points", 0)
    n = values.get("n", [])
    counts = tuple(n) if isinstance(n, (list, tuple)) else (n,)
    if not _number(points) or points < 0:
        raise UsageError(f"check {name}: points must be a number of at least 0")
    if not all(_whole(count, _MOST_IMAGES) for count in counts) or len(counts) > _MOST:
        raise UsageError(f"check {name}: n must be a whole number from 1 to {_MOST_IMAGES:,}, or a list")
    if (kind == "right" and not counts) or (kind == "time" and len(counts) != 1):
        raise UsageError(f"check {name}: kind {kind} needs n" + (", a single number" if kind == "time" else ""))
    steps = values.get("steps", ())
    if kind == "time" and not _falling(steps):
        raise UsageError(f"check {name}: steps must be pairs [ms, share]: times rise, shares from 0 to 1 fall")
    return RubricCheck(
        name,
        kind,
        points,
        _text(values, "backend", ("any", "cpu", "gpu"), "any"),
        counts,
        tuple((float(ms), float(share)) for ms, share in steps),
        _text(values, "between", BETWEEN, "linear"),
    )


def _falling(steps: Any) -> bool:
    try:
        pairs = [(float(ms), float(share)) for ms, share in steps]
    except (TypeError, ValueError, OverflowError):
        return False
    times, shares = [ms for ms, _ in pairs], [share for _, share in pairs]
    return (
        0 < len(pairs) <= _MOST
        and all(map(_number, times))
        and times[0] >= 0
        and all(0 <= s <= 1 for s in shares)
        and all(a < b for a, b in zip(times, times[1:]))
        and all(a >= b for a, b in zip(shares, shares[1:]))
    )


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _MOST_NUMBER


def _whole(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def _numbers(values: Dict[str, Any], table: str, record) -> Any:
    found = values.get(table, {})
    _known(found, record._fields, f"{table}.")
    for name, value in found.items():
        most = _MOST_OF.get(name, _MOST_LIMIT)
        if not _number(value) or not 0 < value <= most:
            raise UsageError(f"{table}.{name} must be a number above 0, and at most {most:,.0f}")
    return record(**found)


def _text(values: Dict[str, Any], name: str, known, default: Optional[str] = None) -> str:
    value = values.get(name, default)
    if not isinstance(value, str) or not value or (known and value not in known):
        raise UsageError(f"{name} must be one of {', '.join(known)}" if known else f"{name} is missing")
    if len(value) > _MOST or not value.isprintable():
        raise UsageError(f"{name} must be one printable line of at most {_MOST} characters")
    return value


def _known(values: Any, known, where: str) -> None:
    if not isinstance(values, dict):
        raise UsageError(f"{where.rstrip('.')} must be a table")
    unknown = [name for name in values if name not in known]
    if unknown:
        raise UsageError(f"{where}{excerpt(unknown[0])} is not known; known: {', '.join(known)}")
