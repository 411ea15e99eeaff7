"""Tests of the probes and of the diagnosis: simulated kernels, correct and wrong ones, on several shapes."""

from typing import Callable, Dict, NamedTuple, Optional

import numpy as np
import pytest
from test_judging_bound import CORRECT, half, rounded

from fashion_infer.graph.layers import ConvolutionShape
from fashion_infer.judging import bound, probes, reference
from fashion_infer.judging.calls import Cause
from fashion_infer.judging.diagnosis import diagnose
from fashion_infer.judging.inputs import KeyedStream, random_inputs

SHAPES = {
    "one channel": ConvolutionShape(3, 1, 14, 14, 10, 5),
    "course": ConvolutionShape(3, 12, 33, 33, 24, 7),
    "odd": ConvolutionShape(3, 3, 11, 13, 4, 3),
    "one": ConvolutionShape(3, 1, 1, 1, 1, 1),
    "one output": ConvolutionShape(3, 2, 6, 6, 3, 6),
    "second": ConvolutionShape(3, 4, 18, 18, 8, 7),
}
FACTS = ("uses_weight", "uses_outside", "lacks_weight", "uses_pixel", "zero_data")
Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]


def convolve(x, k, dtype=np.float32):
    return np.ascontiguousarray(reference.convolve(x, k, dtype).astype(np.float32))


class Sizes(NamedTuple):
    """Sizes as a wrong kernel's index uses them."""

    B: int
    C: int
    H: int
    W: int
    M: int
    K: int

    @property
    def Ho(self):
        return self.H - self.K + 1

    @property
    def Wo(self):
        return self.W - self.K + 1


def flat(data=None, weights=None, terms=None, beyond=np.nan) -> Kernel:
    """Return a kernel with flat indices: data(s,b,c,h,w,p,q), weights(s,m,c,p,q), terms(s,c,p,q)."""

    def call(x, k):
        s = Sizes(*x.shape, k.shape[0], k.shape[2])
        y = np.zeros((s.B, s.M, s.Ho, s.Wo))
        m, c, p, q = np.ogrid[: s.M, : s.C, : s.K, : s.K]
        right = ((m * s.C + c) * s.K + p) * s.K + q
        kk = _at(k, weights(s, m, c, p, q) if weights else right, (s.M, s.C, s.K, s.K), beyond)
        if terms:
            kk = kk * np.broadcast_to(terms(s, c, p, q), kk.shape)
        h, w, c, p, q = np.ogrid[: s.Ho, : s.Wo, : s.C, : s.K, : s.K]
        for b in range(s.B):
            right = ((b * s.C + c) * s.H + h + p) * s.W + w + q
            at = data(s, b, c, h, w, p, q) if data else right
            windows = _at(x, at, (s.Ho, s.Wo, s.C, s.K, s.K), beyond).reshape(s.Ho * s.Wo, -1)
            y[b] = (windows @ kk.reshape(s.M, -1).T).T.reshape(s.M, s.Ho, s.Wo)
        return y.astype(np.float32)

    return call


def _at(tensor, index, shape, beyond):
    index = np.broadcast_to(index, shape)
    inside = (index >= 0) & (index < tensor.size)
    return np.where(inside, tensor.ravel().astype(np.float64)[np.where(inside, index, 0)], beyond)


def stored(place, fill=np.nan) -> Kernel:
    """Return a kernel that stores y[b,m,h,w] at the flat index place(s,b,m,h,w), in ascending order."""

    def call(x, k):
        s = Sizes(*x.shape, k.shape[0], k.shape[2])
        right = convolve(x, k)
        y = np.full(right.size, fill, np.float32)
        b, m, h, w = np.ogrid[: s.B, : s.M, : s.Ho, : s.Wo]
        at = np.broadcast_to(place(s, b, m, h, w), right.shape).ravel()
        inside = (at >= 0) & (at < y.size)
        y[at[inside]] = right.ravel()[inside]
        return y.reshape(right.shape)

    return call


def output(change) -> Kernel:
    """Return a kernel that changes the right output: change(y, s) returns the wrong one."""

    def call(x, k):
        y = convolve(x, k).copy()
        changed = change(y, Sizes(*x.shape, k.shape[0], k.shape[2]))
        return (y if changed is None else changed).astype(np.float32)

    return call


def put(index, value=np.nan) -> Kernel:
    """Return a kernel that leaves `value` in the outputs index(s)."""

    def change(y, s):
        y[index(s)] = value

    return output(change)


def padded(x, k):
    s = Sizes(*x.shape, k.shape[0], k.shape[2])
    half = s.K // 2
    return convolve(np.pad(x, [(0, 0), (0, 0), (half, s.K), (half, s.K)])[:, :, : s.H, : s.W], k)


# Name: kernel, expected code where the shape can show it.
WRONG: Dict[str, Kernel] = {}
CODES: Dict[str, str] = {}


def _add(code: str, name: str, kernel: Kernel) -> None:
    WRONG[name], CODES[name] = kernel, code


_add("weights_transposed", "k[m,c,q,p]", flat(weights=lambda s, m, c, p, q: ((m * s.C + c) * s.K + q) * s.K + p))
_add("weights_transposed", "x[h+q,w+p]", flat(lambda s, b, c, h, w, p, q: ((b * s.C + c) * s.H + h + q) * s.W + w + p))
_add(
    "weights_flipped",
    "convolution",
    flat(weights=lambda s, m, c, p, q: ((m * s.C + c) * s.K + s.K - 1 - p) * s.K + s.K - 1 - q),
)
_add(
    "weights_flipped", "rows flipped", flat(weights=lambda s, m, c, p, q: ((m * s.C + c) * s.K + s.K - 1 - p) * s.K + q)
)
_add("weights_swapped", "k[c,m,p,q]", flat(weights=lambda s, m, c, p, q: ((c * s.M + m) * s.K + p) * s.K + q))
_add("weights_swapped", "k[c,m] by C", flat(weights=lambda s, m, c, p, q: ((c * s.C + m) * s.K + p) * s.K + q))
_add("weights_order", "k[m,p,q,c]", flat(weights=lambda s, m, c, p, q: ((m * s.K + p) * s.K + q) * s.C + c))
_add("weights_order", "k[p,q,c,m]", flat(weights=lambda s, m, c, p, q: ((p * s.K + q) * s.C + c) * s.M + m))
_add("weights_channel", "k[m,0,p,q]", flat(weights=lambda s, m, c, p, q: (m * s.C * s.K + p) * s.K + q))
_add("weights_channel", "k[m,p,q]", flat(weights=lambda s, m, c, p, q: (m * s.K + p) * s.K + q))
_add("one_filter", "k[0,c,p,q]", flat(weights=lambda s, m, c, p, q: (c * s.K + p) * s.K + q))
_add("k_strides", "filters M K K apart", flat(weights=lambda s, m, c, p, q: ((m * s.M + c) * s.K + p) * s.K + q))
_add("k_strides", "channels K apart", flat(weights=lambda s, m, c, p, q: (m * s.C * s.K + c + p) * s.K + q))
_add("k_strides", "one weight further", flat(weights=lambda s, m, c, p, q: ((m * s.C + c) * s.K + p) * s.K + q + 1))
_add("k_strides", "rows K + 1 apart", flat(weights=lambda s, m, c, p, q: (m * s.C + c) * s.K * s.K + p * (s.K + 1) + q))
_add("data_channel", "x[b,0]", flat(lambda s, b, c, h, w, p, q: (b * s.C * s.H + h + p) * s.W + w + q))
_add("data_channel", "x[b]", flat(lambda s, b, c, h, w, p, q: (b * s.H + h + p) * s.W + w + q))
_add("one_image", "x[0]", flat(lambda s, b, c, h, w, p, q: (c * s.H + h + p) * s.W + w + q))
_add(
    "data_rows",
    "rows W-K+1 apart",
    flat(lambda s, b, c, h, w, p, q: (b * s.C + c) * s.H * s.W + (h + p) * s.Wo + w + q),
)
_add("data_rows", "rows H apart", flat(lambda s, b, c, h, w, p, q: (b * s.C + c) * s.H * s.W + (h + p) * s.H + w + q))
_add("data_rows", "rows W-1 apart", flat(lambda s, b, c, h, w, p, q: ((b * s.C + c) * s.H + h + p) * (s.W - 1) + w + q))
_add(
    "data_planes",
    "planes Ho W apart",
    flat(lambda s, b, c, h, w, p, q: b * s.C * s.H * s.W + (c * s.Ho + h + p) * s.W + w + q),
)
_add("data_images", "images H W apart", flat(lambda s, b, c, h, w, p, q: ((b + c) * s.H + h + p) * s.W + w + q))
_add(
    "data_transposed",
    "x[w+q,h+p]",
    flat(lambda s, b, c, h, w, p, q: ((b * s.C + c) * s.H + w + q) * s.W + h + p, beyond=0.0),
)
_add("data_order", "x[b,h,w,c]", flat(lambda s, b, c, h, w, p, q: ((b * s.H + h + p) * s.W + w + q) * s.C + c))
_add("data_order", "x[c,b,h,w]", flat(lambda s, b, c, h, w, p, q: ((c * s.B + b) * s.H + h + p) * s.W + w + q))
_add(
    "windows_shifted",
    "x[h+p-1]",
    flat(lambda s, b, c, h, w, p, q: ((b * s.C + c) * s.H + h + p - 1) * s.W + w + q, beyond=0.0),
)
_add(
    "windows_shifted",
    "x[w+q+1]",
    flat(lambda s, b, c, h, w, p, q: ((b * s.C + c) * s.H + h + p) * s.W + w + q + 1, beyond=0.0),
)
_add("padded", "padded", padded)
_add("stride", "stride of 2", flat(lambda s, b, c, h, w, p, q: ((b * s.C + c) * s.H + 2 * h + p) * s.W + 2 * w + q))
_add("first_channel", "first channel", flat(terms=lambda s, c, p, q: c == 0))
_add("last_channel", "last channel", flat(terms=lambda s, c, p, q: c == s.C - 1))
_add("channels_missing", "all but the last channel", flat(terms=lambda s, c, p, q: c < s.C - 1))
_add("channels_doubled", "channel 0 twice", flat(terms=lambda s, c, p, q: 1 + (c == 0)))
_add("taps_missing", "p < K - 1", flat(terms=lambda s, c, p, q: p < s.K - 1))
_add("taps_missing", "q < K - 1", flat(terms=lambda s, c, p, q: q < s.K - 1))
_add("taps_missing", "p, q < K - 1", flat(terms=lambda s, c, p, q: (p < s.K - 1) & (q < s.K - 1)))
_add("taps_missing", "p from 1", flat(terms=lambda s, c, p, q: p > 0))
_add("taps_missing", "the middle tap", flat(terms=lambda s, c, p, q: (p != s.K // 2) | (q != s.K // 2)))
_add("taps_doubled", "tap 0 twice", flat(terms=lambda s, c, p, q: 1 + ((p == 0) & (q == 0))))
_add("weights_missing", "one small tap", flat(terms=lambda s, c, p, q: (p + q > 0) | (c != s.C - 1)))
_add("weights_missing", "last product", flat(terms=lambda s, c, p, q: (c < s.C - 1) | (p < s.K - 1) | (q < s.K - 1)))
_add("taps_missing", "last row of the last sum only", flat(terms=lambda s, c, p, q: p == s.K - 1))
_add("output_transposed", "y[w,h]", output(lambda y, s: y.swapaxes(2, 3).reshape(y.shape)))
_add("output_transposed", "y[w Wo + h]", stored(lambda s, b, m, h, w: ((b * s.M + m) * s.Ho + w) * s.Wo + h))
_add("output_order", "y[b,h,w,m]", stored(lambda s, b, m, h, w: ((b * s.Ho + h) * s.Wo + w) * s.M + m))
_add("output_order", "y[m,b,h,w]", stored(lambda s, b, m, h, w: ((m * s.B + b) * s.Ho + h) * s.Wo + w))
_add("output_rows", "rows of y W apart", stored(lambda s, b, m, h, w: (b * s.M + m) * s.Ho * s.Wo + h * s.W + w, 0.0))
_add("output_images", "images of y C apart", stored(lambda s, b, m, h, w: ((b * s.C + m) * s.Ho + h) * s.Wo + w, 0.0))
_add("filters_from", "filters from 2 on", put(lambda s: np.s_[:, 2:]))
_add("filters_from", "last filter is zero", put(lambda s: np.s_[:, s.M - 1 :], 0.0))
_add("other_filter", "m % 3", output(lambda y, s: y[:, np.arange(s.M) % 3]))
_add("other_image", "two images exchanged", output(lambda y, s: y[[1, 0, *range(2, s.B)]]))
_add("one_filter", "y of filter 0", output(lambda y, s: np.repeat(y[:, :1], s.M, 1)))
_add("border", "last row not written", put(lambda s: np.s_[:, :, -1]))
_add("border", "last column zero", put(lambda s: np.s_[..., -1], 0.0))
_add("border", "row 0 and column 0", output(lambda y, s: (y[:, :, 0].fill(np.nan), y[..., 0].fill(np.nan))[2:] or None))
_add("border", "only 8 x 8", output(lambda y, s: (y[:, :, 8:].fill(0), y[..., 8:].fill(0))[2:] or None))
_add("border", "last row wrong", output(lambda y, s: y * (1 + 2 * (np.arange(s.Ho) == s.Ho - 1))[:, None]))
_add("places", "one output", output(lambda y, s: y + 3 * (np.arange(y.size) == s.Wo).reshape(y.shape)))
_add("images_from", "two images", put(lambda s: np.s_[2:], 0.0))
_add("constant_added", "1 is added", output(lambda y, s: y + 1))
_add("constant_added", "0.01 is added", output(lambda y, s: y + np.float32(0.01)))
_add("constant_added", "1e-4 is added", output(lambda y, s: y + np.float32(1e-4)))
_add("constant_per_filter", "a bias", output(lambda y, s: y + np.arange(s.M).reshape(1, -1, 1, 1) * np.float32(0.5)))
_add("filters_scaled", "m + 1 times", output(lambda y, s: y * np.arange(1, s.M + 1).reshape(1, -1, 1, 1)))
_add(
    "filters_scaled",
    "odd filters negated",
    output(lambda y, s: y * (1 - 2 * (np.arange(s.M) % 2)).reshape(1, -1, 1, 1)),
)
_add("doubled", "doubled", output(lambda y, s: 2 * y))
_add("factor", "mean", output(lambda y, s: y / (s.C * s.K * s.K)))
_add("factor", "negative", output(lambda y, s: -y))
_add("clipped", "limited to 2", output(lambda y, s: np.minimum(y, 2)))
_add("relu", "relu", output(lambda y, s: np.maximum(y, 0)))
_add("negative_scaled", "leaky relu", output(lambda y, s: np.where(y < 0, 0.1 * y, y)))
_add("absolute", "abs", output(lambda y, s: np.abs(y)))
_add("sum_not_reset", "sum of all", output(lambda y, s: y.astype(np.float64).ravel().cumsum().reshape(y.shape)))
_add("sum_not_reset", "sum of a row", output(lambda y, s: y.cumsum(axis=3)))
_add("sum_not_reset", "sum of a plane", output(lambda y, s: y.reshape(s.B, s.M, -1).cumsum(axis=2).reshape(y.shape)))
_add("sum_not_reset", "sum of all filters", output(lambda y, s: y.cumsum(axis=1)))
_add("sum_not_reset", "sum of columns", output(lambda y, s: y.cumsum(axis=2)))
_add("whole_numbers", "int sum", output(lambda y, s: np.trunc(y)))
_add("changed_operand", "int weights", lambda x, k: convolve(x, np.rint(k)))
_add("changed_operand", "int data", lambda x, k: convolve(np.trunc(x), k))
_add("changed_operand", "data without its sign", lambda x, k: convolve(np.abs(x), k))
_add("changed_operand", "negative data is 0", lambda x, k: convolve(np.maximum(x, 0), k))
_add("changed_operand", "data in bytes", lambda x, k: convolve(np.trunc(x) % 256, k))
_add("changed_operand", "data in bytes, on a GPU", lambda x, k: convolve(np.trunc(np.maximum(x, 0)) % 256, k))
_add("changed_operand", "weights without their sign", lambda x, k: convolve(x, np.abs(k)))
_add("all_zero", "all zero", output(lambda y, s: 0 * y))
_add("all_equal", "all one", output(lambda y, s: np.ones_like(y)))
_add("not_written", "nothing", output(lambda y, s: np.full_like(y, np.nan)))


def winograd(change=lambda a: a) -> Kernel:
    """Return F(2x2,3x3) in float32 for K = 3, and a plain sum otherwise; `change` rounds the transformed tiles."""
    G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], np.float32)
    D = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], np.float32)
    A = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], np.float32)

    def call(x, k):
        s = Sizes(*x.shape, k.shape[0], k.shape[2])
        if s.K != 3:
            return convolve(x, k)
        rows, columns = -(-s.Ho // 2), -(-s.Wo // 2)
        x = np.pad(x, [(0, 0), (0, 0), (0, 2 * rows + 2 - s.H), (0, 2 * columns + 2 - s.W)])
        tiles = np.lib.stride_tricks.sliding_window_view(x, (4, 4), axis=(2, 3))[:, :, ::2, ::2]
        u = change(np.einsum("ip,mcpq,jq->mcij", G, k, G))
        v = change(np.einsum("ip,bchwpq,jq->bchwij", D, tiles, D))
        y = np.einsum("ri,bmhwij,sj->bmhrws", A, np.einsum("mcij,bchwij->bmhwij", u, v), A)
        return np.ascontiguousarray(y.reshape(s.B, s.M, 2 * rows, 2 * columns)[:, :, : s.Ho, : s.Wo], np.float32)

    return call


def fourier(dtype=np.complex64) -> Kernel:
    def call(x, k):
        s = Sizes(*x.shape, k.shape[0], k.shape[2])
        fx = np.fft.rfft2(x.astype(np.float64)).astype(dtype)
        fk = np.fft.rfft2(k.astype(np.float64), s=(s.H, s.W)).astype(dtype)
        y = np.fft.irfft2(np.einsum("bchw,mchw->bmhw", fx, fk.conj()).astype(dtype), s=(s.H, s.W))
        return np.ascontiguousarray(y[:, :, : s.Ho, : s.Wo], np.float32)

    return call


RIGHT: Dict[str, Kernel] = {
    **{name: kernel.run for name, kernel in CORRECT.items()},
    "float32": convolve,
    "winograd": winograd(),
    "winograd in half": winograd(half),
    "fourier": fourier(),
}
FLOAT32 = ("float32", "winograd", "fourier", *(name for name, one in CORRECT.items() if one.expected == "float32"))


def judged(kernel: Kernel, shape: ConvolutionShape, key: bytes = b"a"):
    """Return whether a kernel is found correct by the probes, its cause, and the class of its products."""
    stream = KeyedStream(key * 32)
    inputs = random_inputs(stream, shape)
    with np.errstate(all="ignore"):
        comparison = bound.compare(kernel(*inputs).astype(np.float32), inputs, stream)
        asked = probes.probes_of(stream, shape)
        outputs = {probe.kind: kernel(*probe.inputs).astype(np.float32) for probe in asked}
    precision = probes.precision_class(asked[-1], outputs["precision"])
    off = any(probe.off(outputs[probe.kind], precision == probes.FLOAT32).any() for probe in asked)
    right = not off and precision != probes.IMPRECISE
    cause: Optional[Cause] = diagnose(shape, comparison, outputs, asked)
    return right, cause, precision, comparison


_RIGHT_CASES = [(name, shape) for name in RIGHT for shape in SHAPES if shape != "course" or name not in CORRECT]


@pytest.mark.parametrize(("name", "shape"), _RIGHT_CASES)
def test_correct_kernels_are_not_flagged(name, shape):
    right, cause, precision, _ = judged(RIGHT[name], SHAPES[shape])
    assert right and cause is None
    assert precision == probes.FLOAT32 or (precision == probes.TF32_OR_HALF and name not in FLOAT32)


@pytest.mark.parametrize("shape", SHAPES)
def test_bfloat16_is_imprecise(shape):
    right, cause, precision, _ = judged(lambda x, k: convolve(rounded(x, 8), rounded(k, 8)), SHAPES[shape])
    if shape != "one":  # too few products
        assert not right and precision == probes.IMPRECISE and cause.code == "imprecise"


# What the causes of some faults say on the shape "odd", beyond their code.
DETAILS = {
    "convolution": "k[m,c,K-1-p,K-1-q]",
    "rows flipped": "k[m,c,K-1-p,q]",
    "k[c,m] by C": "k[c,m,p,q]",
    "k[m,p,q]": "k[m,p,q] in filters K*K apart",
    "filters M K K apart": "filters: 36 (M*K*K) for 27",
    "channels K apart": "channels: 3 (K = C) for 9",
    "one weight further": "first: 1",
    "rows K + 1 apart": "rows: 4 (K+1 = M) for 3",
    "x[b]": "x[b,h+p,w+q] in planes H*W apart",
    "rows W-1 apart": "12 W-1 13",
    "planes Ho W apart": "117 (H-K+1)*W 143",
    "images H W apart": "143 H*W 429",
    "x[h+p-1]": "x[b,c,h+p-1,w+q]",
    "x[w+q+1]": "x[b,c,h+p,w+q+1]",
    "padded": "x[b,c,h+p-1,w+q-1]",
    "stride of 2": "2 2",
    "all but the last channel": "c = 2",
    "p, q < K - 1": "p = 2 or q = 2",
    "the middle tap": "(1,1)",
    "one small tap": "k[m,2,0,0]",
    "last row of the last sum only": "p < 2",
    "rows of y W apart": "13 W 11",
    "filters from 2 on": "2 not written",
    "m % 3": "3 0",
    "two images exchanged": "0 1",
    "row 0 and column 0": "h = 0 or w = 0 not written",
    "only 8 x 8": "h = 8 or w >= 8 zero",
    "two images": "2 zero",
    "a bias": "1 0.5",
    "sum of a row": "w",
    "sum of a plane": "h, w",
}


@pytest.mark.parametrize("name", WRONG)
def test_faults_are_named(name):
    right, cause, _, _ = judged(WRONG[name], SHAPES["odd"])
    assert not right and cause is not None and cause.code == CODES[name]
    assert " ".join(map(str, cause.details.values())).startswith(DETAILS.get(name, ""))


@pytest.mark.parametrize("shape", SHAPES)
def test_probes_show_every_weight(shape):
    for key in range(20):
        taps = next(one for one in probes.probes_of(KeyedStream(bytes([key])), SHAPES[shape]) if one.kind == "taps")
        assert set(taps.numbers) <= set(taps.wanted.ravel())


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("shape", ["one channel", "one", "one output"])
def test_no_fault_is_named_falsely_where_sizes_are_one(name, shape):
    right, cause, _, comparison = judged(WRONG[name], SHAPES[shape])
    if cause is None:
        return
    assert not (right and comparison.right)
    # Several faults are one computation where an axis has the size 1.
    alike = {
        "channels_missing": {"first_channel", "all_zero"},
        "channels_doubled": {"doubled"},
        "taps_missing": {"all_zero"},
        "taps_doubled": {"doubled"},
        "weights_missing": {"all_zero", "taps_missing"},
        "filters_from": {"all_zero"},
        "last_channel": {"all_zero"},
        "border": {"not_written", "all_zero", "factor"},
        "k_strides": {"not_written", "filters_from"},
        "places": {"images"},
        "data_rows": {"one_image"},
        "data_transposed": {"weights_transposed"},
    }
    assert cause.code in {CODES[name], *FACTS, *alike.get(CODES[name], ())}


@pytest.mark.parametrize("name", ["k[m,c,q,p]", "x[b,h,w,c]", "last row not written", "1 is added"])
def test_faults_are_named_among_many_images_of_zeros(name):
    stream, shape = KeyedStream(b"b" * 32), SHAPES["odd"]
    asked = probes.probes_of(stream, shape, images=1000)
    assert all(len(probe.inputs.x) == 1000 for probe in asked)
    outputs = {probe.kind: WRONG[name](*probe.inputs) for probe in asked}
    cause = diagnose(shape, None, outputs, asked)
    assert cause is not None and cause.code == CODES[name]


@pytest.mark.parametrize("change", [lambda a: rounded(a, 4), lambda a: a * np.float32(1.05)])
def test_inexact_products_are_no_index_fault(change):
    _, cause, _, _ = judged(lambda x, k: convolve(change(x), change(k)), SHAPES["odd"])
    assert cause is not None and cause.code in ("imprecise", "factor")


def test_an_error_without_a_product_is_not_imprecise():
    kept = output(lambda y, s: y + 2.0**-10 * np.append(0, y.ravel()[:-1]).reshape(y.shape))
    right, cause, _, _ = judged(kept, SHAPES["odd"])
    assert not right and (cause is None or cause.code != "imprecise")
