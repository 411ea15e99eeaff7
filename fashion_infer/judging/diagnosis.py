"""Diagnosis of a kernel's output: how much differs from the reference, where, and the likely reason."""

from typing import NamedTuple, Optional, Tuple

import numpy as np

from . import reasons, reference
from .buffers import GUARD_BITS

# Largest error relative to the largest output. float32 sums of these sizes stay below 2e-6 in any order; operands
# rounded to tf32 or half give 1e-4 to 1e-3. FLOAT32 is between these two ranges. HALF is the largest
# error that counts as rounding of the operands.
FLOAT32, HALF = 2e-5, 1e-2
# Rounding the operands changes nearly every output by more than _CHANGED, which is twice the error of float32 sums. If
# less than the fraction _EVERYWHERE of the outputs differ by that much, only some places are incorrect. FLOAT32 is too
# large for _CHANGED: some correct half-precision outputs have too few errors above it, such as 1 of 4, or 13 of 72.
_CHANGED, _EVERYWHERE = 4e-6, 0.3
_IMPRECISE = 5e-2  # largest error, relative to the largest output, of sums that are only imprecise
# Numbers below _FRACTIONAL have a fractional part in bfloat16 too; _ENOUGH of them are not whole by chance.
_FRACTIONAL, _ENOUGH = 64, 8
_LIKE = 5e-4  # largest error, relative to the largest value, of an output that matches another computation
_FITTED = 1e-2  # tolerance of a fitted share around 1, and of a running sum relative to the largest value


class Diagnosis(NamedTuple):
    """Comparison of a kernel's output with the reference."""

    precision: str  # "float32", "tf32 or half", or "wrong"
    wrong: int  # number of outputs with an error above FLOAT32; 0 unless the precision is "wrong"
    total: int
    largest: float  # the largest absolute error; infinity if an output is NaN
    scale: float  # the largest magnitude of the reference
    first: Optional[Tuple[int, ...]]  # indices (image, filter, row, column) of the first output that differs
    got: Optional[float]
    wanted: Optional[float]
    code: str  # the likely reason, a code in `reasons`; "" for a correct output
    reason: str  # the reason in words; "" if unknown

    @property
    def right(self) -> bool:
        """Whether the output is correct, in float32 or in a lower precision."""
        return self.precision != "wrong"

    def line(self, reason: str = "") -> str:
        """Summarise the diagnosis in one line; `reason` replaces the likely reason."""
        if self.right:
            return f"right ({self.precision}; largest error {self.largest:.2g} of {self.scale:.4g})"
        where = ",".join(map(str, self.first or ()))
        text = (
            f"{self.wrong:,} of {self.total:,} outputs differ, by up to {self.largest:.4g}; "
            f"the first is y[{where}]: {self.got:.6g} instead of {self.wanted:.6g}"
        )
        why = reason or self.reason
        return f"{text}: {why}" if why else text


def diagnose(output: np.ndarray, x: np.ndarray, weight: np.ndarray, wanted: Optional[np.ndarray] = None) -> Diagnosis:
    """Compare a kernel's output with the reference, and look for a reason if they differ.

    Parameters
    ----------
    output
        (B,M,H-K+1,W-K+1) float32, which was NaN or zero before the call.
    x, weight
        (B,C,H,W) and (M,C,K,K): the kernel's inputs.
    wanted
        The reference; None computes it in float64.
    """
    if wanted is None:
        wanted = reference.convolve(x, weight)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(output.astype(np.float64) - wanted)
    error = np.where(np.isnan(error), np.inf, error)
    scale = float(np.abs(wanted).max()) or 1.0
    largest = float(error.max())
    off = error > FLOAT32 * scale
    if not off.any():
        return Diagnosis("float32", 0, error.size, largest, scale, None, None, None, "", "")
    everywhere = bool((error > _CHANGED * scale).mean() >= _EVERYWHERE)
    near = largest <= _IMPRECISE * scale
    whole = near and _whole_numbers(output, wanted)
    if largest <= HALF * scale and everywhere and not whole:
        return Diagnosis("tf32 or half", 0, error.size, largest, scale, None, None, None, "", "")
    why = _why("whole_numbers") if whole else _reason(output, off, x, weight, wanted)
    if why.code == reasons.INCORRECT and near and everywhere:
        why = _why("imprecise", largest / scale)
    first = tuple(int(i) for i in np.unravel_index(int(off.argmax()), off.shape))
    return Diagnosis(
        "wrong",
        int(off.sum()),
        error.size,
        largest,
        scale,
        first,
        float(output[first]),
        float(wanted[first]),
        why.code,
        "" if why.code == reasons.INCORRECT else why.text,
    )


def _whole_numbers(output, wanted) -> bool:
    """Whether all outputs are whole numbers, although the correct ones are not."""
    small = np.abs(wanted) < _FRACTIONAL
    return bool(small.sum() >= _ENOUGH and (output == np.rint(output)).all())


class Reason(NamedTuple):
    """A likely reason: its code in `reasons`, and its sentence."""

    code: str
    text: str


def _why(code: str, *details: object) -> Reason:
    return Reason(code, reasons.sentence(code, *details))


def _reason(output, off, x, weight, wanted) -> Reason:
    """Return the likely reason of an incorrect output.

    It is derived from the pattern of the errors, or from another computation that gives the same output.
    """
    if np.isnan(output).all() and not computed_of_nan(output).any():
        return _why("not_written")
    if not output.any():
        return _why("all_zero")
    for found in (
        _from(off.any(axis=(1, 2, 3)), off.mean(axis=(1, 2, 3)), "images_from"),
        _from(off.any(axis=(0, 2, 3)), off.mean(axis=(0, 2, 3)), "filters_from"),
        _border(output, off),
        _outside(output),
        _other_sum(output, off, x, weight, wanted),
        _running_sum(output, wanted),
    ):
        if found is not None:
            return found
    return _why("not_all_written" if np.isnan(output).any() else reasons.INCORRECT)


def computed_of_nan(output: np.ndarray) -> np.ndarray:
    """Return a mask of the outputs that were computed from memory outside the tensors.

    These are NaN with the bits of the guard zones, or of a GPU's arithmetic on them.
    """
    return np.isnan(output) & ((output.view(np.uint32) & 0x3FFFFF) == GUARD_BITS & 0x3FFFFF)


def _outside(output) -> Optional[Reason]:
    return _why("reads_outside") if computed_of_nan(output).any() else None


def _from(wrong, share, code: str) -> Optional[Reason]:
    """Return a reason if all outputs from some image or filter on are incorrect.

    A single incorrect image or filter at the end is not enough.
    """
    first = int(wrong.argmax())
    return _why(code, first) if first > 0 and wrong[first:].all() and share[first:].min() > 0.5 else None


def _border(output, off) -> Optional[Reason]:
    """Return a reason if only rows or columns at an edge are incorrect."""
    places = off.any(axis=(0, 1))
    height, width = places.shape
    rows, columns = places.all(axis=1), places.all(axis=0)
    top, left = _run(rows), _run(columns)
    bottom, right = (_run(rows[::-1]), _run(columns[::-1])) if not places.all() else (0, 0)
    inside = places[top : height - bottom, left : width - right]
    if inside.any() or not inside.size or 2 * inside.size < places.size:
        return None
    if computed_of_nan(output)[off].any():  # a window that begins outside the data
        return _why("reads_outside")
    sides = [("first", "row", top), ("last", "row", bottom), ("first", "column", left), ("last", "column", right)]
    parts = [f"{where} {what}" if n == 1 else f"{where} {n} {what}s" for where, what, n in sides if n]
    one = len(parts) == 1 and not parts[0].endswith("s")
    unwritten = np.isnan(output)[off].all() or not output[off].any()
    verb = f"{'is' if one else 'are'} {'not written' if unwritten else 'wrong'}"
    return _why("border", f"the {' and the '.join(parts)} {verb}")


def _run(flags) -> int:
    """Count the flags that are set before the first unset one."""
    return len(flags) if flags.all() else int((~flags).argmax())


def _other_sum(output, off, x, weight, wanted) -> Optional[Reason]:
    """Return a reason if the output is the correct result of another computation."""
    images = slice(0, 2)  # two images suffice
    got, x, wanted = output[images].astype(np.float64), x[images], wanted[images]
    if np.isnan(got).any():
        return None
    scale = float(np.abs(wanted).max()) or 1.0

    def like(values) -> bool:
        return values.shape == got.shape and bool(np.abs(got - values).max() <= _LIKE * np.abs(values).max())

    B, C, H, W = x.shape
    M, _, K, _ = weight.shape
    flat = np.ascontiguousarray(weight).reshape(-1)
    padded = np.pad(x, [(0, 0), (0, 0), (K // 2, K), (K // 2, K)])
    candidates = [
        ("doubled", lambda: 2 * wanted),
        ("output_transposed", lambda: wanted.swapaxes(2, 3)),
        ("weights_transposed", lambda: reference.convolve(x, weight.swapaxes(2, 3))),
        ("weights_flipped", lambda: reference.convolve(x, weight[:, :, ::-1, ::-1])),
        ("padded", lambda: reference.convolve(padded, weight)[:, :, : H - K + 1, : W - K + 1]),
    ]
    if C > 1:
        one_plane = np.ascontiguousarray(x).reshape(-1)[: B * H * W].reshape(B, 1, H, W)
        candidates += [
            ("weights_swapped", lambda: reference.convolve(x, flat.reshape(C, M, K, K).swapaxes(0, 1))),
            ("im2col_order", lambda: reference.convolve(x, flat.reshape(M, K, K, C).transpose(0, 3, 1, 2))),
            ("weights_without_channel", lambda: reference.convolve(x, np.repeat(weight[:, :1], C, 1))),
            (
                "weights_without_channel",
                lambda: reference.convolve(x, np.repeat(flat[: M * K * K].reshape(M, 1, K, K), C, 1)),
            ),
            ("input_without_channel", lambda: reference.convolve(np.repeat(x[:, :1], C, 1), weight)),
            ("input_without_channel", lambda: reference.convolve(np.repeat(one_plane, C, 1), weight)),
            ("first_channel", lambda: reference.convolve(x[:, :1], weight[:, :1])),
            ("last_channel", lambda: reference.convolve(x[:, -1:], weight[:, -1:])),
        ]
    for code, computed in candidates:
        if like(computed()):
            return _why(code)
    if K > 1 and like(_with_row_stride(x, weight, W - K + 1)):
        return _why("row_stride", W - K + 1, W)
    return _missing_taps(got, x, weight, wanted, scale)


def _with_row_stride(x, weight, stride: int) -> np.ndarray:
    """Compute the output that results if rows of the data are read with the given stride, but planes correctly."""
    B, C, H, W = x.shape
    M, _, K, _ = weight.shape
    rows, columns = np.arange(H - K + 1), np.arange(W - K + 1)
    sums = np.zeros((B, M, H - K + 1, W - K + 1))
    planes = x.reshape(B, C, H * W).astype(np.float64)
    for p in range(K):
        for q in range(K):
            at = (rows[:, None] + p) * stride + columns[None, :] + q
            sums += np.einsum("bchw,mc->bmhw", planes[:, :, at], weight[:, :, p, q].astype(np.float64))
    return sums


def _missing_taps(got, x, weight, wanted, scale) -> Optional[Reason]:
    """Return a reason if products of some taps (p, q) of the kernel are missing from the sums.

    The missing taps are found by a fit of each tap's share in the errors.
    """
    K = weight.shape[2]
    if K == 1:
        return None
    height, width = got.shape[2:]
    image, filters = x[:1].astype(np.float64), weight[: min(4, len(weight))].astype(np.float64)
    shares = np.stack(
        [
            np.einsum("chw,mc->mhw", image[0, :, p : p + height, q : q + width], filters[:, :, p, q]).ravel()
            for p in range(K)
            for q in range(K)
        ],
        axis=1,
    )
    lacking = (wanted[0] - got[0])[: len(filters)].ravel()
    if len(lacking) < 2 * K * K:
        return None
    fitted = np.linalg.lstsq(shares, lacking, rcond=None)[0]
    missing = np.abs(fitted - 1) < _FITTED
    exact = np.abs(shares[:, missing].sum(axis=1) - lacking).max() <= _LIKE * scale
    if not exact or not missing.any() or missing.all():
        return None
    at = np.argwhere(missing.reshape(K, K))
    named = ", ".join(f"({p}, {q})" for p, q in at[:3])
    return _why("taps_missing", f"{named}{f' and {len(at) - 3} more' if len(at) > 3 else ''} of {K} x {K}")


def _running_sum(output, wanted) -> Optional[Reason]:
    """Return a reason if each output also includes the sum of all earlier outputs."""
    got, want = output[:1].astype(np.float64).ravel(), wanted[:1].ravel()
    if len(got) < 8 or not np.isfinite(got).all():
        return None
    steps = np.quantile(np.abs(np.diff(got) - want[1:]), 0.9)  # not the maximum, because large sums are rounded
    return _why("sum_not_reset") if steps <= _FITTED * np.abs(want).max() else None
