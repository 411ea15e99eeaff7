"""Probes: constructed inputs for which every output of a convolution shows the pixel and the weight that it used.

A convolution is linear in the data and in the weights. With one pixel set to 1, each output is one weight or zero, and
the weights are distinct whole numbers; with one weight per filter, each output is one pixel. The numbers are secret and
lie between N + 1 and 2 N, so a product left out or added changes an output by half of the largest number at least, in
any precision; whole numbers up to 2,048 are exact in half precision.
"""

from typing import List, NamedTuple, Optional, Tuple

import numpy as np

from ..graph.layers import ConvolutionShape
from .inputs import Inputs, KeyedStream
from .reference import convolve

FLOAT32, TF32_OR_HALF, IMPRECISE = "float32", "tf32 or half", "imprecise"
ZERO, MISREAD = -1, -2  # what `Probe.read` returns for an output of zero, and for one that is no single number

_EXACT = 1024  # numbers up to twice this are exact in half precision
_IMAGES = 64  # limit of images per call where an interior pixel shows all weights of a channel
_TINY = 160  # and where it takes several pixels per channel
_SIZE = 1 << 22  # limit of the size of the data and of the output of a call, in numbers
# Tolerances relative to the largest number.
_STRICT, _LOOSE = 2.0**-12, 2.0**-6
# Largest root mean square errors of `precision_class`; the last is for fewer than _FEW products: all are truncated.
_FLOAT32_ERROR, _HALF_ERROR, _TRUNCATED, _FEW = 2.0**-20, 2.0**-9.3, 2.0**-8.4, 24
_SCATTER = 2.0**-10.9


class Probe(NamedTuple):
    """One call, its exact result, and what its numbers mean."""

    kind: str  # "dense", "zero", "taps", "filters", "rows", "columns" or "precision"
    inputs: Inputs  # later images than those of `wanted` are zero
    wanted: np.ndarray  # (n,M,H-K+1,W-K+1) float32
    numbers: np.ndarray  # (N,) the numbers N+1 to 2N, each at the index of what it stands for; (0,) for other kinds
    pixels: np.ndarray  # (n,3) channel, row and column of each image's pixel ("taps", "filters", "precision")
    taps: np.ndarray  # (M,3) channel, row and column of each filter's weight ("rows", "columns")

    @property
    def readable(self) -> bool:
        """Whether all numbers are exact in half precision."""
        return len(self.numbers) <= _EXACT

    def tolerance(self, precise: bool) -> float:
        """Return the largest difference that arithmetic of a precision can make, for float32 or for any precision."""
        if self.kind == "zero":
            return 0.0
        largest = float(np.abs(self.wanted).max())
        if self.kind == "dense":
            return 0.4 if precise else 0.4 + 2.0**-7 * largest
        if self.kind == "precision":
            return largest * (2.0**-16 if precise else _LOOSE)
        return max(0.25, _STRICT * largest) if precise else _LOOSE * largest

    def off(self, output: np.ndarray, precise: bool = False) -> np.ndarray:
        """Return a mask (B,M,H-K+1,W-K+1) of the outputs that no rounding explains; NaN is one of them.

        `precise` applies the tolerance of float32 kernels in place of the tolerance of any precision.
        """
        count = len(self.wanted)
        with np.errstate(invalid="ignore", over="ignore"):
            good = np.abs(output[:count] - self.wanted) <= self.tolerance(precise)
            return ~np.concatenate([good, output[count:] == 0]) if len(output) > count else ~good

    def read(self, output: np.ndarray) -> np.ndarray:
        """Return the index that each output's number stands for, or ZERO, or MISREAD; shape of `wanted`."""
        count = len(self.numbers)
        values = np.nan_to_num(output[: len(self.wanted)].astype(np.float64), nan=-1e9, posinf=-1e9, neginf=-1e9)
        whole = np.rint(values)
        near = np.abs(values - whole) <= 0.3
        number = near & (whole > count) & (whole <= 2 * count)
        index = np.full(2 * count + 1, MISREAD)
        index[self.numbers] = np.arange(count)
        found = index[np.where(number, whole, 0).astype(np.int64)]
        return np.where(number, found, np.where(near & (whole == 0), ZERO, MISREAD))


def probes_of(stream: KeyedStream, shape: ConvolutionShape, images: Optional[int] = None) -> List[Probe]:
    """Return the probes of a shape, whose B is ignored: a call chooses its own number of images.

    With `images`, each call has that many images; the probe fills the first ones, and the others are zero.
    """
    pixels = _pixels(stream, shape, images)
    shape = shape._replace(B=len(pixels))
    batch = images or len(pixels)
    return [
        _dense(stream, shape, batch),
        _zero(stream, shape, batch),
        _one_pixel("taps", stream, shape, batch, pixels),
        _one_pixel("filters", stream, shape, batch, pixels),
        *_one_weight(stream, shape, batch),
        _precision(stream, shape, batch, pixels),
    ]


def relative_errors(probe: Probe, output: np.ndarray) -> np.ndarray:
    """Return the relative errors of the products in a "precision" output."""
    seen = probe.wanted != 0
    with np.errstate(invalid="ignore", over="ignore"):
        return output[: len(seen)][seen] / probe.wanted[seen].astype(np.float64) - 1


def relative_error(probe: Probe, output: np.ndarray) -> float:
    """Return the root mean square of the relative errors of a "precision" output; infinity for NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        square = np.square(relative_errors(probe, output)).sum() / max(1, np.count_nonzero(probe.wanted))
    return float(np.sqrt(square)) if np.isfinite(square) else float("inf")


def precision_class(probe: Probe, output: np.ndarray) -> str:
    """Return FLOAT32, TF32_OR_HALF or IMPRECISE, from the errors of products x k of random 24-bit significands.

    An operand in [1,2) rounded to 11 bits has a relative error of 2^-12.3 rms. Truncation shrinks it by 2^-11.5 on
    average, and scatters as much. So the errors of x k of two operands and a result with 11 bits scatter by 2^-11.5
    around 0 to -2^-9.9; those of bfloat16 by 2^-8.6, those of one bfloat16 operand or of 10-bit integers by 2^-10.3.
    """
    error, errors = relative_error(probe, output), relative_errors(probe, output)
    if error <= _FLOAT32_ERROR:
        return FLOAT32
    if len(errors) < _FEW:  # too few to tell their scatter
        return TF32_OR_HALF if error <= _TRUNCATED else IMPRECISE
    half = error <= _HALF_ERROR and errors.std() <= _SCATTER and errors.mean() <= _SCATTER
    return TF32_OR_HALF if half else IMPRECISE


def rows_have_channels(shape: ConvolutionShape) -> bool:
    """Whether the numbers of "rows" are those of c H + h, not of h alone."""
    return shape.C * shape.H <= _EXACT


def columns_have_images(shape: ConvolutionShape) -> int:
    """Return the number of images that the numbers of "columns" tell apart, those of (b mod that) W + w."""
    return max(1, min(shape.B, _EXACT // shape.W))


def most_images(shape: ConvolutionShape, images: Optional[int] = None) -> int:
    """Return the largest number of images that the probes of a shape fill; `images` is as in `probes_of`."""
    numbers = max(int(np.prod(shape.data[1:])), int(np.prod(shape.output[1:])))
    return max(2, min(_SIZE // numbers, images or _TINY))


def _pixels(stream: KeyedStream, shape: ConvolutionShape, images: Optional[int]) -> np.ndarray:
    """Choose one pixel per image: in each channel as many as show all its weights, then corners, edges and others."""
    _, C, H, W, _, K = shape
    height, width = H - K + 1, W - K + 1
    most = most_images(shape, images)
    shown: List[Tuple[int, int, int]] = []
    rows, columns = _covering(stream, height, K), _covering(stream, width, K)
    for h in rows:
        for w in columns:
            shown += [(c, h, w) for c in stream.shuffled(range(C))]
    extra = max(4, min(C, _IMAGES - len(shown)))
    places = [(0, 0), (H - 1, W - 1), (0, W - 1), (H - 1, 0)]
    for index in range(extra):
        c, h, w, edge = (int(stream.below(limit, 1)[0]) for limit in (C, H, W, 4))
        free = [(0, w), (H - 1, w), (h, 0), (h, W - 1)][edge] if index % 2 else (h, w)
        shown.append((c, *(places[index] if index < 4 else free)))
    return np.array(stream.shuffled(shown[:most] if len(shown) > most else shown))


def _covering(stream: KeyedStream, outputs: int, K: int) -> List[int]:
    """Return rows of pixels that together are used with every p: one where the output has K rows or more."""
    if outputs >= K:
        return [K - 1 + int(stream.below(outputs - K + 1, 1)[0])]
    return list(range(outputs - 1, K + outputs - 1, outputs))


def _batch(data: np.ndarray, batch: int) -> np.ndarray:
    """Append images of zeros."""
    if batch <= len(data):
        return data
    x = np.zeros((batch, *data.shape[1:]), np.float32)
    x[: len(data)] = data
    return x


def _numbers(stream: KeyedStream, count: int) -> np.ndarray:
    return count + 1 + np.argsort(stream.words(count), kind="stable")


_NONE = np.zeros(0, np.int64)


def _dense(stream: KeyedStream, shape: ConvolutionShape, batch: int) -> Probe:
    """Data of -2, -1, 1 and 2 in the first and the last image, weights of -1 and 1: sums that are exact everywhere."""
    x = np.zeros(shape.data, np.float32)
    ends = sorted({0, shape.B - 1})
    values = np.array([-2, -1, 1, 2], np.float32)
    x[ends] = values[stream.below(4, x[ends].size)].reshape(x[ends].shape)
    k = (2 * stream.below(2, int(np.prod(shape.weights))) - 1).astype(np.float32).reshape(shape.weights)
    wanted = np.zeros(shape.output, np.float32)
    wanted[ends] = convolve(x[ends], k, np.float32)
    return Probe("dense", Inputs(_batch(x, batch), k), wanted, _NONE, _NONE, _NONE)


def _zero(stream: KeyedStream, shape: ConvolutionShape, batch: int) -> Probe:
    """Data of zeros, random weights."""
    k = stream.normal(int(np.prod(shape.weights))).astype(np.float32).reshape(shape.weights)
    x = np.zeros((batch, *shape.data[1:]), np.float32)
    return Probe("zero", Inputs(x, k), np.zeros(shape.output, np.float32), _NONE, _NONE, _NONE)


def _one_pixel(kind: str, stream: KeyedStream, shape: ConvolutionShape, batch: int, pixels: np.ndarray) -> Probe:
    """One pixel of 1 per image. The weights are numbered by tap, alike for all filters, or by filter."""
    M, C, K, _ = shape.weights
    numbers = _numbers(stream, C * K * K if kind == "taps" else M)
    k = np.empty((M, C, K, K), np.float32)
    k[...] = numbers.reshape(C, K, K) if kind == "taps" else numbers[:, None, None, None]
    x, wanted = _set_pixels(shape, pixels, np.ones(shape.B, np.float32), k)
    return Probe(kind, Inputs(_batch(x, batch), k), wanted, numbers, pixels, _NONE)


def _set_pixels(shape: ConvolutionShape, pixels, values, k) -> Tuple[np.ndarray, np.ndarray]:
    """Return data with one pixel per image, and its exact convolution, rounded to float32."""
    K, (height, width) = shape.K, shape.output[2:]
    x, wanted = np.zeros(shape.data, np.float32), np.zeros(shape.output, np.float32)
    for b, ((c, h, w), value) in enumerate(zip(pixels.tolist(), values)):
        x[b, c, h, w] = value
        top, bottom = max(0, h - K + 1), min(height - 1, h)
        left, right = max(0, w - K + 1), min(width - 1, w)
        used = k[:, c, h - bottom : h - top + 1, w - right : w - left + 1][:, ::-1, ::-1]
        wanted[b, :, top : bottom + 1, left : right + 1] = used * np.float64(value)
    return x, wanted


def _one_weight(stream: KeyedStream, shape: ConvolutionShape, batch: int) -> List[Probe]:
    """One weight of 1 per filter. The data is numbered by channel and row, in the next call by image and column."""
    B, C, H, W, M, K = shape
    order = np.concatenate([np.argsort(stream.words(C * K * K), kind="stable") for _ in range(-(-M // (C * K * K)))])
    taps = np.stack(np.unravel_index(order[:M], (C, K, K)), axis=1)
    k = np.zeros(shape.weights, np.float32)
    k[(np.arange(M), *taps.T)] = 1
    rows = np.arange(C * H).reshape(1, C, H, 1) if rows_have_channels(shape) else np.arange(H).reshape(1, 1, H, 1)
    apart = columns_have_images(shape)
    columns = (np.arange(B) % apart).reshape(B, 1, 1, 1) * W + np.arange(W)
    probes = []
    for kind, index in (("rows", rows), ("columns", columns)):
        numbers = _numbers(stream, int(index.max()) + 1)
        x = np.broadcast_to(numbers[index], shape.data).astype(np.float32)
        wanted = np.empty(shape.output, np.float32)
        for m, (c, p, q) in enumerate(taps.tolist()):
            wanted[:, m] = x[:, c, p : p + H - K + 1, q : q + W - K + 1]
        probes.append(Probe(kind, Inputs(_batch(x, batch), k), wanted, numbers, _NONE, taps))
    return probes


def _precision(stream: KeyedStream, shape: ConvolutionShape, batch: int, pixels: np.ndarray) -> Probe:
    """One pixel per image; pixels and weights are random with all 24 bits of the significand, in [1,2)."""

    def significands(count):
        return (1 + (2 * stream.below(1 << 22, count) + 1) * 2.0**-23).astype(np.float32)

    k = significands(int(np.prod(shape.weights))).reshape(shape.weights)
    x, wanted = _set_pixels(shape, pixels, significands(shape.B), k)
    return Probe("precision", Inputs(_batch(x, batch), k), wanted, _NONE, pixels, _NONE)
