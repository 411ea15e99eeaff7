"""What is wrong with a kernel's output: how much differs from the reference, where, and what that looks like."""

from typing import NamedTuple, Optional, Tuple

import numpy as np

from . import reference

# Largest error over the largest output. float32 sums of these sizes stay below 2e-6 in any order; operands rounded to
# tf32 or half give 1e-4 to 1e-3. Between the two there is a gap, and the bound lies in it.
FLOAT32, HALF = 2e-5, 1e-2
# Rounded operands change nearly every output by more than float32 sums do: by _CHANGED, twice what those leave. Where
# less than a share of _EVERYWHERE has changed, some places went wrong. FLOAT32 is too much for _CHANGED: of outputs
# that were right in half precision 1 of 4, or 13 of 72, were beyond it, and they were called wrong.
_CHANGED, _EVERYWHERE = 4e-6, 0.3


class Diagnosis(NamedTuple):
    """A kernel's output beside the reference."""

    precision: str  # "float32", "tf32 or half", or "wrong"
    wrong: int  # outputs that differ by more than the class allows; of a wrong one, by more than float32
    total: int
    largest: float  # the largest absolute error; infinity where NaN was left
    scale: float  # the largest magnitude of the reference
    first: Optional[Tuple[int, ...]]  # image, filter, row, column of the first output that differs
    got: Optional[float]
    wanted: Optional[float]
    reason: str  # likely, in words; "" when none shows

    @property
    def right(self) -> bool:
        """Whether the output is that of a correct kernel, in one precision or the other."""
        return self.precision != "wrong"

    def line(self) -> str:
        """Everything in one line."""
        if self.right:
            return f"right ({self.precision}; largest error {self.largest:.2g} of {self.scale:.4g})"
        where = ",".join(map(str, self.first or ()))
        text = (
            f"{self.wrong:,} of {self.total:,} outputs differ, by up to {self.largest:.4g}; "
            f"the first is y[{where}]: {self.got:.6g} instead of {self.wanted:.6g}"
        )
        return f"{text}; likely {self.reason}" if self.reason else text


def diagnose(output: np.ndarray, x: np.ndarray, weight: np.ndarray, wanted: Optional[np.ndarray] = None) -> Diagnosis:
    """Compare a kernel's output with the reference, and look for a reason where they differ.

    Parameters
    ----------
    output
        (B,M,H-K+1,W-K+1) float32, which was NaN or zero before the call.
    x, weight
        (B,C,H,W) and (M,C,K,K): what the kernel was given.
    wanted
        The reference; computed in float64 when None.
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
        return Diagnosis("float32", 0, error.size, largest, scale, None, None, None, "")
    if largest <= HALF * scale and (error > _CHANGED * scale).mean() >= _EVERYWHERE:
        return Diagnosis("tf32 or half", 0, error.size, largest, scale, None, None, None, "")
    first = tuple(int(i) for i in np.unravel_index(int(off.argmax()), off.shape))
    return Diagnosis(
        "wrong", int(off.sum()), error.size, largest, scale, first, float(output[first]), float(wanted[first]),
        _reason(output, off, x, weight, wanted, scale),
    )  # fmt: skip


def _reason(output, off, x, weight, wanted, scale) -> str:
    for look in (_untouched, _images, _filters, _boundary):
        found = look(output, off)
        if found:
            left = int(np.isnan(output).sum())
            unwritten = f" ({left:,} outputs were not written: NaN left)" if left and look is not _untouched else ""
            return found + unwritten
    found = _other_sum(output, x, weight, wanted, scale)
    left = int(np.isnan(output).sum())
    if not found and left:
        return f"not all of the output is written: {left:,} NaN left"
    return found


def _untouched(output, off) -> str:
    if np.isnan(output).all():
        return "nothing is written, or it is added to an output that nobody zeroed"
    if not output.any():
        return "the output is all zero: a launch that failed, or nothing added up"
    return ""


def _images(output, off) -> str:
    """Wrong from some image on."""
    return _from(off.any(axis=(1, 2, 3)), off.mean(axis=(1, 2, 3)), "image",
                 "a grid limit, or memory for fewer images")  # fmt: skip


def _filters(output, off) -> str:
    """Wrong from some filter on."""
    return _from(off.any(axis=(0, 2, 3)), off.mean(axis=(0, 2, 3)), "filter", "a grid or a tile for fewer filters")


def _from(wrong, share, what: str, why: str) -> str:
    first = int(wrong.argmax())
    # From there on everything: a single wrong image at the end would also be "from there on".
    if first > 0 and wrong[first:].all() and share[first:].min() > 0.5:
        return f"wrong from {what} {first} on: {why}"
    return ""


def _boundary(output, off) -> str:
    """Wrong only in the last rows or columns."""
    places = off.any(axis=(0, 1))
    height, width = places.shape
    row = height - _run(places.all(axis=1)[::-1])
    column = width - _run(places.all(axis=0)[::-1])
    inside = places.copy()
    inside[row:, :] = inside[:, column:] = False
    if inside.any() or (row == height and column == width) or row * column * 2 < height * width:
        return ""
    parts = []
    if row < height:
        parts.append("row" if row == height - 1 else f"{height - row} rows")
    if column < width:
        parts.append("column" if column == width - 1 else f"{width - column} columns")
    verb = "is" if parts in (["row"], ["column"]) else "are"
    return f"only the last {' and the last '.join(parts)} {verb} wrong: a boundary"


def _run(flags) -> int:
    """How many of the first flags are set."""
    return len(flags) if flags.all() else int((~flags).argmax())


def _other_sum(output, x, weight, wanted, scale) -> str:
    """Another computation, done right."""
    rows = slice(0, 2)  # two images tell
    got, x, wanted = output[rows], x[rows], wanted[rows]

    def like(values) -> bool:
        if values.shape != got.shape or np.isnan(got).any():
            return False
        return bool(np.abs(got - values).max() <= HALF * scale)

    if like(wanted.swapaxes(2, 3)):
        return "transposed: rows and columns of the output are exchanged"
    if like(reference.convolve(x, weight.swapaxes(2, 3))):
        return "transposed: rows and columns of the weights are exchanged"
    if like(reference.convolve(x, weight[:, :, ::-1, ::-1])):
        return "the weights are flipped: this layer is a cross-correlation"
    channels = x.shape[1]
    if channels > 1 and like(reference.convolve(x[:, :1], weight[:, :1])):
        return "only the first input channel is summed"
    if channels > 1 and like(reference.convolve(x[:, -1:], weight[:, -1:])):
        return "only the last input channel is left: the sum starts anew for each"
    if like(2 * wanted):
        return "twice the right values: added to an earlier result"
    return ""
