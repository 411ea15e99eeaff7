"""What one shape undergoes: calls on the same, fresh and constructed inputs, under other conditions, in one process.

Each call's outputs are compared with the exact ones (`bound`), all of them, always. Faults are told apart by
experiments: a reason is given only if a call under other conditions confirms it, or if the probes (`probes`) show it
output by output.
"""

import time
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..errors import UsageError
from ..graph.layers import ConvolutionShape
from ..kernel_files.loading import LoadedKernel
from ..library import kernels
from . import bound, diagnosis, probes
from .bound import ComparedOutputs, compare
from .callers.here import caller_for
from .calls import Called, Caller, Cause, Conditions, Failed
from .inputs import Inputs, KeyedStream, Seed, random_inputs
from .reasons import ADAPTER_FINDINGS
from .reference import convolve
from .tensors import NEVER_NUMBER, origins, same_bits
from .verdict import ShapeVerdict

_PROBED = 256  # images of a probe's call, at most
_FAR = 8.0  # times the float32 bound: no transform of a float32 kernel is so far off
_UNDERFLOW = 2.0**-12  # of the largest output; halving operands changes less, by underflow alone
_REPEATS = 3  # further calls on the same inputs that show whether results differ
_ALIKE = 1e-3  # of the largest number; results that are added to later ones change less by rounding
_FEW_REPEATS = 2  # of calls with many images
_SEVERAL = 64  # images of a call that leaves no rest in groups of images
_MOST_RACE_CALLS = 100
_THREADS = (1, 2, 3, 4, 8)
most_probed = probes.most_images  # the largest number of images of a probe's call


class Options(NamedTuple):
    images: int = 3  # images of most calls
    many: int = 0  # images of one larger call; 0 for none
    race_seconds: float = 0.0  # time for further calls of a kernel with threads
    thousand: bool = False  # whether each call has that many images, because the file may need multiples of 1,000
    one_first: bool = True  # whether the first call has one image, as a call that hangs is found sooner
    allowed: str = bound.CLASSES[2]  # least precise class that is correct
    examine: bool = True  # whether the adapter examines the first calls


def try_shape(
    kernel: LoadedKernel, what: str, shape: ConvolutionShape, seed: Seed, device: int, options: Options
) -> Optional[ShapeVerdict]:
    """Judge a loaded kernel on a shape in this process; None if the kernel does not support the shape."""
    trial = _trial(kernel, what, shape, seed, device, options)
    return trial.verdict() if trial else None


def try_many(
    kernel: LoadedKernel, what: str, shape: ConvolutionShape, seed: Seed, device: int, images: int, allowed: str
) -> List[ShapeVerdict]:
    """Make one call with many images, after one of one image, for which the kernel may allocate."""
    options = Options(many=images, one_first=False, examine=False, allowed=allowed)
    trial = _trial(kernel, what, shape, seed, device, options)
    if trial is None:
        return []
    one = trial.one_call(1)
    return [trial.one_call(images) if one.right else one]


def try_sequence(
    kernel: LoadedKernel, shapes: Sequence[Tuple[str, ConvolutionShape]], seed: Seed, device: int, images: int
) -> List[ShapeVerdict]:
    """Call a kernel on several shapes one after another, twice, as a network with several layers does.

    Memory, streams or results that the kernel keeps from a call of one shape must not be used for another. The result
    is the first incorrect shape; without one, it is empty.
    """
    options = Options(images, one_first=False, examine=False)
    trials = [_trial(kernel, what, shape, seed, device, options) for what, shape in shapes]
    for trial in (*trials, *trials):
        found = trial.one_call(images) if trial else None
        if found is not None and not found.right:
            return [found if found.code == "not_linear" else found._replace(cause=Cause("other_layers"))]
    return []


def _trial(
    kernel: LoadedKernel, what: str, shape: ConvolutionShape, seed: Seed, device: int, options: Options
) -> Optional["ShapeTrial"]:
    if not supported(kernel, shape):
        return None
    most = max(options.images, options.many, _PROBED)
    caller = caller_for(kernel, shape._replace(B=most), device, alone=True)
    return ShapeTrial(caller, what, shape, seed.stream(*shape[1:]), options)


def supported(kernel: LoadedKernel, shape: ConvolutionShape) -> bool:
    """Whether a kernel supports a shape. LeetGPU's files, for example, support only one input channel."""
    try:
        kernels.chosen_kernel(shape.data, shape.weights, kernel.backend, kernel.name)
    except UsageError:
        return False
    return True


class ShapeTrial:
    def __init__(self, caller: Caller, what: str, shape: ConvolutionShape, stream: KeyedStream, options: Options):
        self._caller, self._what, self._shape, self._stream = caller, what, shape, stream
        self._options = options
        self._precision = bound.CLASSES[0]
        self._allowed = options.allowed  # of the next calls
        self._last: Optional[ComparedOutputs] = None
        self._output = np.empty(0, np.float32)  # of the first correct call
        self._weights: List[np.ndarray] = []  # of the first two calls and of the last ones
        self._calls = self._most = self._unwritten = 0
        self._seconds = self._layer_seconds = 0.0
        self._notes: Dict[str, Cause] = {}

    def verdict(self) -> ShapeVerdict:
        return self._made(self._judged)

    def one_call(self, images: int) -> ShapeVerdict:
        return self._made(lambda: self._fresh(images))

    def _made(self, work) -> ShapeVerdict:
        try:
            with np.errstate(invalid="ignore", over="ignore"):  # outputs may be any bits
                cause = self._or_race(work())
        except Failed as error:
            cause, self._last = Cause(error.code, error.details), None
        return ShapeVerdict(
            self._what,
            self._shape._replace(B=self._most or self._options.images),
            cause,
            bound.INCORRECT if cause else self._precision,
            self._last,
            self._seconds,
            self._layer_seconds,
            tuple(self._notes.values()),
            self._calls,
        )

    def _judged(self) -> Optional[Cause]:
        """Make the calls of the whole plan; return why the kernel is incorrect, or None."""
        images = self._options.images
        if self._options.one_first and images > 1:
            cause = self._first(self._inputs(1))
            if cause:
                return cause
        same = self._inputs(images)
        cause = self._first(same) or self._laws(images)
        if cause:
            return cause
        cause = self._states(same, self._output) or self._races(same, self._output)
        if cause is None and self._options.one_first and "moved" in self._caller.can:
            cause = self._fresh(1, Conditions(moved=True))
        if cause:
            return cause
        if self._options.many > images:
            return self._fresh(self._options.many)
        return None

    # ---- calls

    def _inputs(self, images: int) -> Inputs:
        return random_inputs(self._stream, self._shape._replace(B=images))

    def _call(self, inputs: Inputs, conditions: Optional[Conditions] = None) -> Called:
        if conditions is None:  # the first two calls are examined
            conditions = Conditions(examine=self._options.examine and self._calls < 2)
        inputs = Inputs(*map(np.ascontiguousarray, inputs))  # probes repeat numbers by strides of 0
        called = self._caller.call(inputs, conditions)
        self._calls += 1
        self._weights = [*self._weights[:2], *self._weights[2:][-4:], inputs.k]
        if called.stray or called.inputs_changed:
            raise Failed(called.stray or "inputs_changed")
        self._most = max(self._most, len(inputs.x))
        self._seconds = self._seconds or called.seconds
        self._layer_seconds = self._layer_seconds or called.layer_seconds
        for bit, code in ADAPTER_FINDINGS.items():
            if called.findings & bit:
                self._notes.setdefault(code, Cause(code))
        return called

    def _compared(self, called: Called, inputs: Inputs) -> ComparedOutputs:
        """Compare a call's outputs, and remember the comparison."""
        self._last = compare(called.output, inputs, KeyedStream.fresh(), allowed=self._allowed)
        if self._last.right:
            self._precision = bound.worst(self._precision, self._last.precision)
        return self._last

    def _right(self, inputs: Inputs, conditions: Optional[Conditions] = None) -> bool:
        """Whether another call on some inputs is correct."""
        return self._compared(self._call(inputs, conditions), inputs).right

    def _fresh(self, images: int, conditions: Optional[Conditions] = None) -> Optional[Cause]:
        """Make one call on fresh inputs; return why it is incorrect."""
        inputs = self._inputs(images)
        called = self._call(inputs, conditions)
        found = self._compared(called, inputs)
        if found.right:
            return None
        if images <= self._options.images:
            return self._blaming(found, self._nonlinear(inputs) or Cause("later_call"))
        if not np.isnan(found.y).any() and self._differs(inputs, called.output.copy(), _FEW_REPEATS):
            return self._unsteady(inputs)
        fresh = self._inputs(self._options.images)
        if not self._right(fresh):
            return self._blaming(found, self._nonlinear(fresh) or Cause("later_call"))
        few = Inputs(inputs.x[found.images[found.off.any(axis=(1, 2, 3))][: self._options.images]], inputs.k)
        if len(few.x) and not self._right(few):  # it is not the number of images
            return self._blaming(found, self._nonlinear(few) or Cause(bound.INCORRECT))
        usual = Cause("many_images", {"right": self._options.images, "wrong": images})
        return self._blaming(found, diagnosis.of_many_images(found) or usual)

    # ---- a first call, and its reasons

    def _first(self, inputs: Inputs) -> Optional[Cause]:
        """Call the kernel for the first time, and look for the reason if the outputs are incorrect."""
        called = self._call(inputs)
        found, output = self._compared(called, inputs), called.output.copy()
        if found.right:
            self._output = output
            return None
        cause = self._of_nan(inputs, output) if np.isnan(output).any() else self._of_earlier(inputs, output)
        if cause is None and self._differs(inputs, output):
            cause = self._unsteady(inputs)
        if cause is None:
            made, outputs = self._probed(len(inputs.x))
            cause = diagnosis.diagnose(self._shape, found, outputs, made)
        if cause is None and self._unwritten:
            cause = Cause("not_all_written", {"count": self._unwritten})
        if cause is None or not np.nan_to_num(output).any():
            counted = self._by_threads(inputs)
            if counted is None and self._right(self._inputs(_SEVERAL)) and not self._right(self._inputs(len(inputs.x))):
                counted = Cause("few_images", {"right": _SEVERAL, "wrong": len(inputs.x)})
            cause = counted or cause
        cause = cause or self._nonlinear(inputs)
        kept = cause is None or cause.code in ("not_written", "all_zero")
        if kept and self._output.size and not self._right(self._inputs(1)):
            cause = Cause("later_call")  # the first call, also of one image, was correct
        return self._blaming(found, cause or Cause(bound.INCORRECT))

    def _nonlinear(self, inputs: Inputs) -> Optional[Cause]:
        """Return the cause that other weights, or data, change nothing, or that half of them does not give half."""
        output, other = self._call(inputs).output.copy(), self._inputs(len(inputs.x))
        changed = {"weights": Inputs(inputs.x, other.k), "data": Inputs(other.x, inputs.k)}
        ignored = [tensor for tensor, call in changed.items() if same_bits(self._call(call).output, output)]
        if ignored:
            return Cause("ignores", {"tensors": " and ".join(ignored)})
        for tensor, half in (("weights", Inputs(inputs.x, inputs.k / 2)), ("data", Inputs(inputs.x / 2, inputs.k))):
            error = np.abs(2 * self._call(half).output - output).max()
            if np.isfinite(error) and error > _UNDERFLOW * np.abs(output).max():
                return Cause("not_linear", {"tensor": tensor})
        return None

    def _blaming(self, found: ComparedOutputs, cause: Cause) -> Cause:
        """Return the cause, after making its comparison the one that the verdict shows."""
        self._last = found
        return cause

    def _probed(self, images: int) -> Tuple[List[probes.Probe], Dict[str, np.ndarray]]:
        made = probes.probes_of(self._stream, self._shape, self._options.thousand and images)
        return made, {each.kind: self._call(each.inputs).output.copy() for each in made}

    def _laws(self, images: int) -> Optional[Cause]:
        """Check what holds for every linear kernel nearly without a tolerance: the probes, and half of the data."""
        random = self._last
        made, outputs = self._probed(images)
        off = next((each for each in made if each.off(outputs[each.kind]).any()), None)
        if off is not None and self._differs(off.inputs, outputs[off.kind]):
            return self._unsteady(off.inputs)
        cause = diagnosis.diagnose(self._shape, random, outputs, made)
        if cause:
            return cause
        found = probes.precision_class(made[-1], outputs["precision"])
        precise = found == bound.CLASSES[0]
        if np.isnan(outputs["zero"]).any():
            if not self._right(self._inputs(images)):  # no output is written any more, of any data
                return Cause("later_call")
            computed = sum(origins(outputs["zero"]).values()) > origins(outputs["zero"])["never"]
            return Cause("nan_of_zeros" if computed else "zeros_not_written")
        if found not in bound.CLASSES or any(each.off(outputs[each.kind], precise).any() for each in made):
            return self._unexplained(images)
        if precise and random is not None and random.precision != found and random.of_bound > _FAR:
            cause = self._nonlinear(self._inputs(images)) or Cause(bound.INCORRECT)
            return self._blaming(random._replace(off=random.error == random.largest), cause)
        self._precision = bound.worst(self._precision, found)
        if self._precision == bound.CLASSES[0]:  # a float32 kernel has no reason to be less precise later
            self._allowed = self._precision
        whole = self._inputs(images)
        called = self._call(whole)
        y = called.output.copy()
        if not self._compared(called, whole).right:
            return self._state(whole, y, [self._output], Conditions())
        half = Inputs(whole.x / 2, whole.k)
        halved = self._call(half).output.copy()
        if same_bits(halved * 2, y):
            return None
        right = self._compared(Called(halved), half).right
        # Half of a number is exact except for underflow, which is possible in half precision alone.
        if right and self._precision != bound.CLASSES[0]:
            return None
        if self._differs(whole, y) or self._differs(half, halved):  # sums in an order that varies
            return None if right else self._unsteady(whole)
        return Cause("not_linear", {"tensor": "data"})

    def _unexplained(self, images: int) -> Cause:
        """Return why probes are incorrect after a correct call, though they show no other computation."""
        earlier = [self._call(self._inputs(images)).output.copy()]
        fresh = self._inputs(images)
        called = self._call(fresh)
        if self._compared(called, fresh).right:
            return Cause(bound.INCORRECT)
        return self._state(fresh, called.output.copy(), earlier, Conditions())

    # ---- repeated calls

    def _states(self, same: Inputs, first: np.ndarray) -> Optional[Cause]:
        """Call on the same and on fresh inputs in turns, with other threads, at other addresses, before guard pages."""
        can = self._caller.can
        earlier = [first]
        counts = (1, None, 3, 1) if self._caller.parallel else (None, None)
        turns = [Conditions(threads=count) for count in counts]
        if "moved" in can:
            turns.append(Conditions(moved=True))
        if "guarded" in can:
            turns.append(Conditions(guarded=True, threads=1))
        for conditions in turns:
            fresh = self._inputs(len(same.x))
            for values, known in zip(fresh, same):  # a kernel may take a few equal numbers for equal inputs
                values.flat[[0, -1]] = known.flat[[0, -1]]
            called = self._call(fresh, conditions)
            if not self._compared(called, fresh).right:
                return self._state(fresh, called.output.copy(), earlier, conditions)
            earlier = [*earlier[-4:], called.output.copy()]
            cause = self._again(same, first, conditions)
            if cause:
                return cause
        self._other = fresh, earlier[-1]
        return None

    def _state(self, inputs: Inputs, output: np.ndarray, earlier, conditions: Conditions) -> Cause:
        """Return why a call on fresh inputs is incorrect after correct calls on other inputs."""
        found = self._last
        assert found is not None
        finite = np.isfinite(output).all()
        if finite and any(same_bits(output, one) for one in earlier):
            return self._blaming(found, Cause("cached"))
        if finite and any(compare(output - one, inputs, KeyedStream.fresh()).right for one in earlier[-1:]):
            return self._blaming(found, Cause("carries_over"))
        kept = self._of_earlier(inputs, output)
        if kept:
            return self._blaming(found, kept)
        if conditions.moved and self._right(inputs, conditions._replace(moved=False)):
            return self._blaming(found, Cause("kept_pointer"))
        counted = self._by_threads(inputs)
        if counted is None and self._differs(inputs, output):
            return self._blaming(found, self._unsteady(inputs))
        return self._blaming(found, counted or self._nonlinear(inputs) or Cause("later_call"))

    def _of_earlier(self, inputs: Inputs, output: np.ndarray) -> Optional[Cause]:
        """Return the cause that the last call used the weights of an earlier one, if its outputs show it."""
        others = (Inputs(inputs.x, k) for k in self._weights[:-1] if not same_bits(k, inputs.k))
        kept = any(compare(output, other, KeyedStream.fresh()).right for other in others)
        return Cause("kept_weights") if kept else None

    def _again(self, same: Inputs, first: np.ndarray, conditions: Conditions) -> Optional[Cause]:
        """Repeat the first call; other bits are correct if their errors are, as sums by atomics are."""
        called = self._call(same, conditions)
        if same_bits(called.output, first):
            return None
        found = self._compared(called, same)
        if found.right:
            return None
        kept = self._of_earlier(same, called.output)
        if kept:
            return self._blaming(found, kept)
        if conditions.moved and self._right(same, conditions._replace(moved=False)):
            return self._blaming(found, Cause("kept_pointer"))
        return self._blaming(found, self._unsteady(same))

    def _races(self, same: Inputs, first: np.ndarray) -> Optional[Cause]:
        """Repeat two calls in turns under other schedules, if the kernel has threads: what a race leaves from the call
        before would be right in a repetition of the same call."""
        calls, start = ((same, first), self._other), time.monotonic()
        for number in range(_MOST_RACE_CALLS if self._caller.parallel else _REPEATS):
            if number >= _REPEATS and time.monotonic() - start > self._options.race_seconds:
                break
            cause = self._again(*calls[number % 2], _schedule(number, self._caller))
            if cause:
                return cause
        return None

    def _differs(self, inputs: Inputs, output: np.ndarray, calls: int = 2 * _REPEATS) -> bool:
        """Whether further calls on the same inputs give other bits."""
        return any(
            not same_bits(self._call(inputs, _schedule(number, self._caller)).output, output) for number in range(calls)
        )

    def _unsteady(self, inputs: Inputs) -> Cause:
        """Return why calls on the same inputs differ."""
        one = Conditions(threads=1)
        if "own" in self._caller.can:
            owns = ("nan", "number", "nan", "number", "nan")
            contents = [self._call(inputs, one._replace(own=own)).output.copy() for own in owns]
            alike = all(same_bits(contents[at], contents[at + 2]) for at in range(3))
            if alike and not same_bits(contents[0], contents[1]):
                return Cause("uninitialised")
        added = np.diff([self._call(inputs, one).output.copy() for _ in range(3)], axis=0)
        exact = np.concatenate([convolve(image[None], inputs.k) for image in inputs.x])
        for earlier in (exact, exact.sum()):  # each output's own, or one sum that goes on
            if np.abs(added - earlier).max() <= _ALIKE * np.abs(earlier).max():
                return Cause("carries_over")
        if not self._caller.parallel:
            return Cause("unstable")
        counted = self._by_threads(inputs)
        if counted:
            return counted
        if "threads" in self._caller.can and all(self._right(inputs, one) for _ in range(_REPEATS)):
            return Cause("race", {"with_one_thread": "right"})
        return Cause("race")

    def _by_threads(self, inputs: Inputs) -> Optional[Cause]:
        """Return the cause that the number of threads alone decides whether a call is correct, or None."""
        found: Dict[bool, int] = {}
        for count in _THREADS if self._caller.parallel and "threads" in self._caller.can else ():
            conditions = Conditions(threads=count, interrupted=True)
            first, *more = [self._call(inputs, conditions).output.copy() for _ in range(_REPEATS)]
            if not all(same_bits(one, first) for one in more):
                return None
            found.setdefault(compare(first, inputs, KeyedStream.fresh()).right, count)
        return Cause("thread_count", {"right": found[True], "wrong": found[False]}) if len(found) == 2 else None

    def _or_race(self, cause: Optional[Cause]) -> Optional[Cause]:
        """Return a race in place of what it looks like: equal calls are right or wrong, and right with one thread."""
        known = cause is None or cause.code == "race"
        if known or not self._caller.parallel or "threads" not in self._caller.can:
            return cause
        blamed, inputs, start = self._last, self._inputs(self._options.images), time.monotonic()
        seen = {self._right(inputs) for _ in range(2 * _REPEATS)}
        while len(seen) < 2 and time.monotonic() - start < self._options.race_seconds:
            seen.add(self._right(inputs))
        if len(seen) == 2 and all(self._right(inputs, Conditions(threads=1)) for _ in range(_REPEATS)):
            cause = Cause("race", {"with_one_thread": "right"})
        self._last = blamed
        return cause

    # ---- NaN

    def _of_nan(self, inputs: Inputs, output: np.ndarray) -> Optional[Cause]:
        """Return where the NaN of an incorrect output come from, each origin confirmed by numbers in its place."""
        missing = np.isnan(output)
        # A GPU file with host pointers computes its outputs in memory that it allocates itself.
        for memory, conditions in (("output", Conditions(output="number")), ("own", Conditions(own="number"))):
            if memory not in self._caller.can or (memory == "own" and self._caller.backend == "cpu"):
                continue
            numbers = self._call(inputs, conditions).output.copy()
            unwritten = missing & (numbers == NEVER_NUMBER)
            added = missing & np.isfinite(numbers) & ~unwritten
            if added.any() and np.isnan(self._call(inputs).output[added]).all():
                sums = np.where(added, numbers - NEVER_NUMBER, numbers)
                if compare(sums, inputs, KeyedStream.fresh()).right:
                    return Cause("accumulates")
                return Cause("reads_output" if memory == "output" else "uninitialised")
            if unwritten.all():
                return Cause("not_written")
            if unwritten.any() and (unwritten == missing).all():
                self._unwritten = int(missing.sum())
                return None  # the probes show where
        if "moved" in self._caller.can and origins(self._call(inputs, Conditions(moved=True)).output)["stale"]:
            return Cause("kept_pointer")
        if "guard" in self._caller.can and self._vanishes(inputs, missing, Conditions(guard="number")):
            return Cause("reads_outside")
        if "own" in self._caller.can and self._vanishes(inputs, missing, Conditions(own="number")):
            return Cause("uninitialised")
        told_apart = {"output", "guard"} <= set(self._caller.can) or origins(output)["computed"]
        steady = (np.isnan(self._call(inputs, Conditions(own="nan")).output) == missing).all()
        return Cause("computes_nan", {"count": int(missing.sum())}) if told_apart and steady else None

    def _vanishes(self, inputs: Inputs, missing: np.ndarray, conditions: Conditions) -> bool:
        """Whether NaN become numbers under other conditions, and are back without them."""
        healed = missing & np.isfinite(self._call(inputs, conditions).output)
        return bool(healed.any() and np.isnan(self._call(inputs, Conditions(own="nan")).output[healed]).all())


def _schedule(number: int, caller: Caller) -> Conditions:
    """Return the conditions of a repeated call: other numbers of threads, and interrupted ones."""
    if not caller.parallel:
        return Conditions()
    return Conditions(threads=(2, None, 8)[number % 3], interrupted=True)
