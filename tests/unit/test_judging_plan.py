"""What a shape undergoes: kernels that NumPy simulates, without a compiler or another process."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples, pick
from test_judging_bound import CORRECT, exact, rounded, shapes
from test_probes import CODES, FACTS, WRONG

from fashion_infer.graph.layers import ConvolutionShape
from fashion_infer.judging import bound, reasons
from fashion_infer.judging.calls import USUAL, Called, Caller, Failed
from fashion_infer.judging.inputs import KeyedStream
from fashion_infer.judging.plan import Options, ShapeTrial

SHAPE = ConvolutionShape(1, 3, 11, 13, 4, 3)


class ArrayCaller(Caller):
    """Calls a function of data, weights and conditions that returns the output, or a `Called`."""

    def __init__(self, kernel, can=(), parallel=False, backend="cpu"):
        self._kernel, self.can, self.parallel, self.backend = kernel, can, parallel, backend

    def call(self, inputs, conditions=USUAL):
        with np.errstate(all="ignore"):
            y = self._kernel(*inputs, conditions)
        return y if isinstance(y, Called) else Called(np.ascontiguousarray(y, np.float32))


def plain(kernel):
    return lambda x, k, conditions: kernel(x, k)


def verdict(caller, shape=SHAPE, **options):
    caller = caller if isinstance(caller, Caller) else ArrayCaller(caller)
    return ShapeTrial(caller, "a layer", shape, KeyedStream.fresh(), Options(**options)).verdict()


@given(shapes(1), st.sampled_from(sorted(CORRECT)))
@settings(max_examples=pick(60, 2_000))
def test_correct_kernels_are_correct(shape, name):
    kernel = CORRECT[name]
    found = verdict(plain(kernel.run), shape)
    assert found.right and found.calls >= 10, (found.code, found.cause)
    assert bound.CLASSES.index(found.precision) <= bound.CLASSES.index(kernel.expected)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_kernels_have_their_reason(name):
    found = verdict(plain(WRONG[name]), one_first=False)
    assert found.code in (CODES[name], *FACTS, bound.INCORRECT) and found.reason and found.precision == bound.INCORRECT


@given(shapes(1), st.sampled_from([1, 0.01, 1e-4]), st.booleans())
@settings(max_examples=examples(60))
def test_a_constant_is_refused(shape, share, rounds):
    """A constant of 1, or a share of the largest output, is refused, though rounding to tf32 may be larger."""
    largest = 1 if share == 1 else None

    def kernel(x, k, _):
        y = exact(rounded(x, 11), rounded(k, 11)) if rounds else exact(x, k)
        nonlocal largest
        largest = largest or share * abs(y).max()
        return y + largest

    found = verdict(kernel, shape)
    assert found.code in ("constant_added", "zero_data") or shape[1:] == (1, 1, 1, 1, 1)
    assert not found.right


@given(shapes(1), st.data())
@settings(max_examples=examples(60))
def test_one_weight_left_out_or_doubled_is_refused(shape, data):
    at = tuple(data.draw(st.integers(0, size - 1)) for size in shape.weights)
    factor, small = data.draw(st.sampled_from([0, 2])), data.draw(st.booleans())

    def kernel(x, k, _):
        k = k.copy()
        # The smallest weight is less than the rounding of the others.
        place = np.unravel_index(abs(k).argmin(), k.shape) if small else at
        k[place] *= factor
        return exact(rounded(x, 11), rounded(k, 11))

    assert not verdict(kernel, shape).right


@pytest.mark.parametrize("bits", [8, 14, 16])
@pytest.mark.parametrize("shape", [(1, 1, 20, 20, 6, 5), (1, 4, 12, 15, 4, 5), (1, 12, 11, 11, 2, 7)])
def test_other_significands_are_no_class(shape, bits):
    """8 bits, as in bfloat16, are too few for tf32, and 14 or 16 are not float32."""
    found = verdict(lambda x, k, _: exact(rounded(x, bits), rounded(k, bits)), ConvolutionShape(*shape))
    assert not found.right if bits < 11 else found.precision != "float32"


class Stateful:
    """A kernel that counts its calls; `earlier` holds the outputs of its calls."""

    def __init__(self, change):
        self._change, self.calls, self.earlier, self.held = change, 0, [], []

    def __call__(self, x, k, conditions):
        self.calls += 1
        y = exact(x, k).astype(np.float32)
        self.held.append((x.copy(), k.copy()))
        y = self._change(self, y, conditions)
        self.earlier.append(y.copy())
        return y


def put(y, place, value=0):
    y[place] = value
    return y


def of_first_pointers(kernel, y, conditions):
    """Read the tensors of the first calls, which the judge overwrites with NaN once it has moved them."""
    kernel.moved = getattr(kernel, "moved", 0) or conditions.moved
    return np.full_like(y, np.nan) if conditions.moved else y


def of_equal_numbers(kernel, y, conditions):
    """Return the output of the call before, if its data and weights begin with the same numbers."""
    (before, its_k), (x, k) = [*kernel.held, *kernel.held][-2:]
    equal = before.shape == x.shape and before.flat[0] == x.flat[0] and its_k.flat[0] == k.flat[0]
    return kernel.earlier[-1] if equal and kernel.earlier else y


STATEFUL = {
    "cached by a few numbers": (of_equal_numbers, {"unstable", "cached"}),
    "weights of the first call": (lambda it, y, _: exact(it.held[-1][0], it.held[0][1]), {"kept_weights"}),
    "wrong in one call": (lambda it, y, _: put(y, (0, 0, 0, 0), 7) if it.calls == 7 else y, {"unstable"}),
    "number of calls": (lambda it, y, _: y + it.calls, {"unstable"}),
    "memory that varies": (lambda it, y, at: y + it.calls * (it.calls == 7 or at.own == "number"), {"unstable"}),
    "cached": (lambda it, y, _: next((one for one in it.earlier if one.shape == y.shape), y), {"cached"}),
    "carries over": (
        lambda it, y, _: y + next((one for one in it.earlier[::-1] if one.shape == y.shape), 0 * y),
        {"carries_over", "unstable", "zero_data"},
    ),
    "sum that goes on": (
        lambda it, y, _: y.cumsum(dtype=float).reshape(y.shape) + (it.earlier[-1].flat[-1] if it.earlier else 0),
        {"carries_over"},
    ),
    "wrong from call 20 on": (lambda it, y, _: 2 * y if it.calls > 20 else y, {"later_call", "unstable"}),
    "random": (
        lambda it, y, _: put(y, np.unravel_index(np.random.default_rng().integers(y.size), y.shape)),
        {"unstable"},
    ),
    "kept pointer": (of_first_pointers, {"kept_pointer"}),
    "pointer kept for one image": (
        lambda it, y, conditions: np.full_like(y, np.nan) if conditions.moved and len(y) == 1 else y,
        {"later_call"},
    ),
    "one output of many": (lambda it, y, _: put(y, (250, 1, 2, 3)) if len(y) > 255 else y, {"many_images"}),
    "last of many": (lambda it, y, _: put(y, -1) if len(y) > 255 else y, {"last_image"}),
    "images from 200": (lambda it, y, _: put(y, np.s_[200:], y[: len(y[200:])]), {"images_from"}),
    "threads that leave a rest": (
        lambda it, y, conditions: put(y, np.s_[-1, -1]) if conditions.threads == 3 else y,
        {"thread_count"},
    ),
    "threads that are four": (
        lambda it, y, conditions: put(y, np.s_[1:]) if (conditions.threads or 2) < 4 else y,
        {"thread_count"},
    ),
    "race for what is kept": (
        lambda it, y, conditions: (
            put(y, 0, it.earlier[-1][0]) if conditions.interrupted and it.earlier[-1].shape == y.shape else y
        ),
        {"race"},
    ),
    "groups of four images": (lambda it, y, _: put(y, np.s_[len(y) // 4 * 4 :], 0), {"few_images"}),
    "nothing written later": (lambda it, y, _: y if it.calls == 1 else 0 * y, {"later_call"}),
    "no data": (lambda it, y, _: exact(np.ones_like(it.held[-1][0]), it.held[-1][1]), {"ignores"}),
    "no weights": (lambda it, y, _: exact(it.held[-1][0], np.ones_like(it.held[-1][1])), {"ignores"}),
    "places alone": (lambda it, y, _: np.arange(y.size).reshape(y.shape) % y[0].size, {"ignores"}),
    "not linear": (lambda it, y, _: y * (1 + 2.0**-23 * (abs(y) > 1)), {"not_linear"}),
}


@pytest.mark.parametrize("name", STATEFUL)
def test_state_is_found(name):
    change, codes = STATEFUL[name]
    caller = ArrayCaller(Stateful(change), ("moved", "own", "threads"), parallel=name.startswith(("race", "threads")))
    found = verdict(caller, many=300)
    assert found.code in codes and not found.right


@pytest.mark.parametrize("often", [0.3, 0.98])
def test_a_race_is_not_taken_for_another_fault(often):
    def change(it, y, conditions):
        return put(y, (0, 0, 0, 1), 3) if conditions.threads != 1 and random.random() < often else y

    random, caller = np.random.default_rng(), ArrayCaller(Stateful(change), ("moved", "own", "threads"), parallel=True)
    assert verdict(caller, many=300, race_seconds=0.1).code == "race"


def test_half_of_the_data_gives_half_of_the_output():
    """Sums of half precision lose bits of small numbers, which is correct; a threshold in float32 is not."""
    assert verdict(plain(CORRECT["half sums"].run)).right
    assert not verdict(lambda x, k, _: exact(np.where(abs(x) < 1e-2, 0, x), k)).right
    for weights in (lambda k: np.clip(k, -0.1, 0.1), lambda k: np.where(abs(k) < 0.1, 0, k)):
        assert verdict(lambda x, k, _, weights=weights: exact(x, weights(k))).code == "not_linear"


@pytest.mark.parametrize("many, low", [(0, 8), (300, 11)])
def test_rare_numbers_are_no_state(many, low):
    """Few calls have such an output, so that the first incorrect one is often a later one, or one of many images."""
    found = verdict(lambda x, k, _: (lambda y: np.where((y > low) & (y < low + 0.3), y / 2, y))(exact(x, k)), many=many)
    assert found.right or found.code in ("not_linear", bound.INCORRECT), found.cause


def test_failed_calls_and_harm():
    def fails(x, k, _):
        raise Failed("failed", text="no such tile")

    found = verdict(fails)
    assert (found.code, found.comparison, found.calls) == ("failed", None, 0) and "no such tile" in found.reason
    for called in ({"stray": "writes_after_end"}, {"inputs_changed": True}):
        found = verdict(lambda x, k, _, called=called: Called(exact(x, k).astype(np.float32), **called))
        assert found.code == called.get("stray", "inputs_changed") and found.code in reasons.TABLE


def test_notes_do_not_make_a_kernel_incorrect():
    caller = ArrayCaller(
        lambda x, k, _: Called(exact(x, k).astype(np.float32), findings=3), ("moved", "guarded"), backend="gpu"
    )

    found = verdict(caller)
    assert found.right and {note.code for note in found.notes} == {"work_before", "work_after"}


def origins_of(kernel, backend="cpu"):
    """Return a caller whose tensors, guard zones and own memory hold NaN or numbers, as the conditions say."""

    def call(x, k, conditions):
        names = ("output", "guard", "own")
        held = {name: 1000.0 if getattr(conditions, name) == "number" else np.nan for name in names}
        return kernel(exact(x, k).astype(np.float32), held)

    return ArrayCaller(call, ("output", "guard", "own"), backend=backend)


@pytest.mark.parametrize(
    "kernel, code",
    [
        (lambda y, held: y * 0 + held["output"], "not_written"),
        (lambda y, held: y + held["output"], "accumulates"),
        (
            lambda y, held: y + held["output"] * (y > 0) if held["output"] == 1000 else np.where(y > 0, np.nan, y),
            "accumulates",
        ),
        (lambda y, held: y * (1 + 0 * held["output"]) + 2 * held["output"], "reads_output"),
        (lambda y, held: y + held["guard"], "reads_outside"),
        (lambda y, held: y + held["own"], "uninitialised"),
        (lambda y, held: put(y, (0, 0, 0, 1), np.nan), "computes_nan"),
        (lambda y, held: y * np.nan, "computes_nan"),
    ],
)
def test_nan_tells_its_origin(kernel, code):
    assert verdict(origins_of(kernel)).code == code


def test_a_signalling_nan_is_incorrect():
    """NumPy warns of its conversion, in a call on data that are mostly zeros."""

    def kernel(x, k, _):
        y = np.float32(exact(x, k))
        if np.mean(x == 0) > 0.5:
            put(y.view("u4"), (0, 0, 0, 0), 0x7F800001)
        return y

    assert not verdict(kernel).right


@pytest.mark.parametrize(
    "kernel, code",
    [
        (lambda y, held: y * 0 + held["own"], "not_written"),
        (lambda y, held: y + held["own"], "accumulates"),
        (lambda y, held: y + 2 * held["own"], "uninitialised"),
        (lambda y, held: np.concatenate([y[:, :1], y[:, 1:] * 0 + held["own"]], axis=1), "filters_from"),
        (lambda y, held: np.concatenate([y[:, :1], y[:, 1:] * np.nan], axis=1), "computes_nan"),
    ],
)
def test_nan_of_a_gpu_tells_its_origin_in_own_memory(kernel, code):
    """A GPU file with host pointers has its outputs in memory that it allocates itself."""
    assert verdict(origins_of(kernel, "gpu")).code == code
