"""The one table of reasons: for each code its sentence, remedy, section of docs/why.md, and consequence for a grade."""

from typing import Any, Callable, Dict, NamedTuple, Union

from .calls import Cause

REFUSED, MARKED = "refused", "marked"  # no points for the affected checks; reported only

Details = Dict[str, Any]


class Reason(NamedTuple):
    sentence: Union[str, Callable[[Details], str]]  # a format of the details, or a function of them
    remedy: str = ""
    section: str = ""  # of docs/why.md
    follows: str = REFUSED


def sentence(cause: Cause) -> str:
    made = TABLE[cause.code].sentence
    return made(dict(cause.details)) if callable(made) else made.format(**cause.details)


def as_dict(cause: Cause) -> Dict[str, Any]:
    reason = TABLE[cause.code]
    return {
        "code": cause.code,
        "sentence": sentence(cause),
        "remedy": reason.remedy,
        "section": reason.section,
        "details": dict(cause.details),
    }


def _call(details: Details) -> str:
    """Return in which call a process ended."""
    if details.get("during") == "load":
        return " while it was loaded"
    if "images" not in details:
        return ""
    images, threads = details["images"], details.get("threads")
    said = f"{images:,} image{'s' if images != 1 else ''}"
    said += f" and {threads} threads" if threads and threads > 1 else ""
    return f" {'after' if details.get('during') == 'after' else 'in'} a call with {said}"


def _size(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB" if count >= 1 << 20 else f"{count / 2**10:,.0f} KiB"


def _place(details: Details) -> str:
    return f"{details['file']}:{details['line']}: " if "line" in details else ""


def _apart(what: str, right: str) -> Callable[[Details], str]:
    """Return a function that says how far rows, planes or images lie apart in an index."""

    def made(details: Details) -> str:
        name = f" ({details['name']})" if details.get("name") else ""
        return f"{what} are {details['apart']} apart in the index{name}, not {right} = {details['right']}"

    return made


def _ends(text: str) -> Callable[[Details], str]:
    """Return a function that says where outputs end, if nothing is computed beyond."""

    def made(details: Details) -> str:
        why = "" if details["state"] == "wrong" else ": a loop, a grid or memory that ends there"
        return text.format(**details) + why

    return made


def _at(text: str) -> Callable[[Details], str]:
    """Return a function that fills a sentence in and puts file and line before it."""

    def made(details: Details) -> str:
        usual = {"words": "", "type": "number", "value": "a value"}
        loaded = "stored" if details.get("verb") == "writes" else "loaded"
        return _place(details) + text.format(**{**usual, "loaded": loaded, **details})

    return made


def _access(details: Details) -> str:
    """Say how far an access lies outside of a tensor or an array."""
    what = _TENSORS.get(details.get("tensor", "")) or (f"'{details['name']}'" if "name" in details else "an array")
    verb, count = details.get("verb", "reads"), details.get("bytes")
    if "index" in details and "tensor" not in details:
        return f"{_place(details)}index {details['index']} lies outside of an array of type {details['type']}"
    if "side" not in details or not count:
        return f"{_place(details)}it {verb} outside of {what}"
    side = "past the end" if details["side"] == "past" else "before the beginning"
    floats = f"{count // 4} float{'s' if count > 4 else ''}" if count % 4 == 0 else f"{count} bytes"
    part = f", {details['outside'] // 4} of them" if 0 < details["outside"] < count else ""
    index = f" at {details['tensor']}[{','.join(map(str, details['index']))}]" if details.get("index") else ""
    return f"{_place(details)}it {verb} {floats}{index}{part} {side} of {what}"


def _race(details: Details) -> str:
    if "line" in details:
        other = "" if details["other"] == details["line"] else f" in line {details['other']}"
        return f"{_place(details)}a thread writes what another one uses{other} at the same time: a race"
    if "with_one_thread" in details:
        return "calls on the same inputs differ, and with one thread they are right: a race"
    return "calls on the same inputs differ: a race, or memory that is used before it is written"


_TENSORS = {"x": "the data", "k": "the weights", "y": "the output"}
_STATE = "compute the output of each call from that call's inputs alone"
_OUTSIDE = "write nothing outside of the output: compare every index with the tensor's size"
# Codes of faults that can harm the process that calls the kernel.
HARMFUL = frozenset(
    """writes_after_end writes_before_start writes_outside returns_early past_end out_of_bounds_write array_too_small
    crash exit time_limit hangs stack memory heap stack_smashed assertion uncaught divides_by_zero illegal_instruction
    use_after_free double_free bad_free other_layers""".split()  # noqa: SIM905
)
# The adapter's findings (FOPS_FOUND_*) that are notes; the others show in the outputs.
ADAPTER_FINDINGS = {1: "work_before", 2: "work_after"}

TABLE: Dict[str, Reason] = {
    # ---- what is written
    "not_written": Reason("nothing is written to the output", "check that the kernel is launched and where it writes"),
    "not_all_written": Reason("{count:,} outputs are never written"),
    "accumulates": Reason("it adds to the output, which is not zeroed before a call", "start each sum at 0"),
    "reads_output": Reason("it reads the output before it writes it", "write each output before it is read"),
    "all_zero": Reason("every output is zero", "check that its loops run and, on a GPU, its launches and copies"),
    "all_equal": Reason("every output is {value:.6g}, whatever the inputs are"),
    # ---- state and schedules
    "later_call": Reason("correct in the first call and wrong in a later one on other inputs"),
    "cached": Reason("it returns the result of an earlier call on other inputs", _STATE),
    "carries_over": Reason("results of an earlier call are added to those of a later one", _STATE),
    "kept_pointer": Reason("it reads the tensors of an earlier call: a pointer is kept", _STATE),
    "kept_weights": Reason("it uses the weights of an earlier call: they are kept", _STATE),
    "network_data": Reason("correct on random inputs, and wrong on the network's own data from image {image}"),
    "other_layers": Reason(
        "correct on each layer alone, and wrong when they run one after another in one process: what it keeps from one "
        "size is used for another",
        "allocate for the sizes of each call, and keep nothing",
    ),
    "many_images": Reason("correct with {right} images and wrong with {wrong:,}"),
    "images_from": Reason(_ends("outputs from image {first} on are {state}")),
    "race": Reason(_race, "declare what a thread uses inside of the loop, or private", "race_on_output"),
    "thread_count": Reason(
        "correct with {right} and wrong with {wrong} OpenMP threads",
        "share the work so that no number of threads leaves a rest",
    ),
    "unstable": Reason("calls on the same inputs differ", _STATE),
    "uninitialised": Reason(
        "it uses memory of its own before it writes it", "write every element before it is read", "uninitialised_read"
    ),
    # ---- NaN
    "reads_outside": Reason("it reads outside of the data or the weights", section="out_of_bounds_read"),
    "computes_nan": Reason(
        lambda d: f"it computes NaN from finite numbers, in {d['count']:,} output{'' if d['count'] == 1 else 's'}"
    ),
    "nan_of_zeros": Reason("for data of zeros it computes NaN, such as 0 / 0", "do not divide by what may be 0"),
    "zeros_not_written": Reason("for data of zeros, outputs are not written", "write every output, a zero too"),
    # ---- arithmetic
    "less_precise": Reason("right in {precision}, not in {wanted}"),
    "ignores": Reason("the outputs are the same for other {tensors}", "multiply each pixel of a window by its weight"),
    "few_images": Reason("correct with {right} images and wrong with {wrong}", "compute the images that no group has"),
    "not_linear": Reason("half of the {tensor} does not give half of the output"),
    # ---- what the probes show (`diagnosis`)
    "zero_data": Reason("for data of zeros {output} is {value:.6g} instead of 0"),
    "constant_added": Reason("{value:.6g} is added to every output", "start each sum at 0"),
    "constant_per_filter": Reason(
        "a constant is added per filter, to filter {filter} {value:.6g}: these layers have no bias"
    ),
    "whole_numbers": Reason("outputs are whole numbers: a sum or a product is kept in an integer", "sum in a float"),
    "imprecise": Reason(
        "a single product is off by {error:.2g} of itself: more than half precision or TF32 rounds",
        "keep operands and sums in float32, TF32 or half",
    ),
    "images": Reason("outputs of {images} are {state}, those of the others are right"),
    "border": Reason("outputs with {where} are {state}", "compare h with H - K + 1 and w with W - K + 1"),
    "places": Reason("outputs with {where} are {state}"),
    "filters_from": Reason(_ends("outputs from filter {first} on are {state}")),
    "filters_scaled": Reason("outputs with {filters} are {factor:.6g} times the correct ones"),
    "doubled": Reason("every output is twice the correct one"),
    "factor": Reason("every output is {factor:.6g} times the correct one"),
    "relu": Reason("negative outputs are 0: the layer has no activation"),
    "negative_scaled": Reason("negative outputs are multiplied by {factor:.6g}: the layer has no activation"),
    "absolute": Reason("negative outputs are positive: an absolute value is taken"),
    "clipped": Reason(lambda d: "no output is " + " or ".join(f"{side} {limit:.6g}" for side, limit in d.items())),
    "changed_operand": Reason(
        lambda d: f"each number of {_TENSORS[d['tensor']]} is {d['how']}", "multiply data and weights as they are"
    ),
    "last_image": Reason("outputs of the last image are {state}"),
    "one_image": Reason("image {image} is used for every image"),
    "other_image": Reason("image {image} has the outputs of image {used}"),
    "one_filter": Reason("filter {filter} is used for every filter"),
    "other_filter": Reason("filter {filter} has the outputs of filter {used}"),
    "output_transposed": Reason("{used} is written where y[b,m,h,w] belongs: rows and columns are exchanged"),
    "output_order": Reason("outputs are stored in the order {order}, not b,m,h,w"),
    "output_rows": Reason(_apart("rows of the output", "W-K+1")),
    "output_planes": Reason(_apart("planes of the output", "(H-K+1) (W-K+1)")),
    "output_images": Reason(_apart("images of the output", "M (H-K+1) (W-K+1)")),
    "output_flipped": Reason("{used} is written where y[b,m,h,w] belongs"),
    "sum_not_reset": Reason(
        "a sum goes on from one output to the next, in loops over {loops}: it is not set to 0 in between"
    ),
    "first_channel": Reason("only channel 0 is summed"),
    "last_channel": Reason("only the last channel is left: the sum starts again for each channel"),
    "channels_missing": Reason("channels {channels} are not summed"),
    "channels_doubled": Reason("channels {channels} are summed twice"),
    "channels_scaled": Reason("channels {channels} count {factor:.6g} times"),
    "taps_missing": Reason("taps {taps} of the weights are missing from the sums"),
    "taps_doubled": Reason("taps {taps} of the weights are summed twice"),
    "taps_scaled": Reason("taps {taps} of the weights count {factor:.6g} times"),
    "weights_missing": Reason("the sums lack {weights}"),
    "weights_doubled": Reason("the sums have {weights} twice"),
    "weights_scaled": Reason("the sums have {weights} {factor:.6g} times"),
    "weights_transposed": Reason("y[b,m,h,w] uses {used} where {belongs} belongs: rows and columns are exchanged"),
    "weights_flipped": Reason("y[b,m,h,w] uses {used} where {belongs} belongs: this layer does not flip its weights"),
    "weights_swapped": Reason("y[b,m,h,w] uses {used} where {belongs} belongs: filter and channel are exchanged"),
    "weights_order": Reason("weights are read in the order {order}, not {right}"),
    "weights_channel": Reason("y[b,m,h,w] uses {used} for every channel c, where {belongs} belongs"),
    "k_strides": Reason("strides in the index of the weights: {strides}"),
    "x_strides": Reason("strides in the index of the data: {strides}"),
    "windows_shifted": Reason("y[b,m,h,w] uses {used} where {belongs} belongs: the windows are moved"),
    "padded": Reason("y[b,m,h,w] uses {used}, with zeros outside, where {belongs} belongs: these layers do not pad"),
    "data_channel": Reason("every channel c uses {used} where {belongs} belongs"),
    "data_rows": Reason(_apart("rows of the data", "W")),
    "data_transposed": Reason("y[b,m,h,w] uses {used} where {belongs} belongs: rows and columns are exchanged"),
    "stride": Reason("windows move by {rows} rows and {columns} columns: this layer's stride is 1"),
    "data_order": Reason("the data is read in the order {order}, not {right}"),
    "data_planes": Reason(_apart("planes of the data", "H W")),
    "data_images": Reason(_apart("images of the data", "C H W")),
    "data_flipped": Reason("y[b,m,h,w] uses {used} where {belongs} belongs"),
    "data_index": Reason("y[b,m,h,w] uses {used} where {belongs} belongs"),
    "weights_index": Reason("y[b,m,h,w] uses {used} where {belongs} belongs"),
    "uses_weight": Reason("{output} uses {used} where {belongs} belongs"),
    "uses_outside": Reason("{output} uses {used} of a pixel that is not in its window"),
    "lacks_weight": Reason("{output} lacks the product {pixel} * {belongs}"),
    "uses_pixel": Reason("{output} uses {used} where {belongs} belongs"),
    # ---- what the sanitizers show, with file and line
    "out_of_bounds_read": Reason(_access, section="out_of_bounds_read"),
    "out_of_bounds_write": Reason(_access, section="out_of_bounds_write"),
    "array_too_small": Reason(_access, section="array_too_small"),
    "int_overflow": Reason(_at("a {type} overflows: {words}"), "compute indices in size_t"),
    "shift": Reason(_at("a number is shifted by {value} bits")),
    "float_to_int": Reason(_at("{value} does not fit into {type}")),
    "null_pointer": Reason(_at("a null pointer is used")),
    "misaligned_access": Reason(
        _at("a vector is {loaded} at an address that is not aligned for it"),
        "load and store without alignment, as with _mm256_loadu_ps or memcpy",
        "misaligned_access",
    ),
    "no_return": Reason(_at("a function that returns a value ends without one")),
    "uninitialised_read": Reason(_at("memory is read that nothing has written"), section="uninitialised_read"),
    "undefined": Reason(_at("undefined behaviour: {words}"), section="undefined"),
    "use_after_free": Reason(_at("memory is used after it was freed"), section="use_after_free"),
    "use_after_scope": Reason(
        _at("a local variable is used after its function has returned"), section="use_after_free"
    ),
    "double_free": Reason(_at("memory is freed twice"), section="use_after_free"),
    "bad_free": Reason(_at("an address is freed that malloc did not return"), section="use_after_free"),
    "memcpy_overlap": Reason(_at("{function} copies between places that overlap"), "use memmove"),
    "negative_size": Reason(_at("a negative number of bytes is copied or filled")),
    "wild_pointer": Reason(_at("an address is used that belongs to no memory"), section="out_of_bounds_read"),
    "optimiser_hides": Reason(
        "built with -O1, its outputs are wrong: the optimiser hides a mistake, such as a variable without a value"
    ),
    # ---- memory
    "writes_after_end": Reason("it writes past the end of the output", _OUTSIDE, "out_of_bounds_write"),
    "writes_before_start": Reason("it writes before the beginning of the output", _OUTSIDE, "out_of_bounds_write"),
    "writes_outside": Reason("it writes outside of its tensors", _OUTSIDE, "out_of_bounds_write"),
    "returns_early": Reason("it returns before its threads have ended", "join every thread before the return"),
    "inputs_changed": Reason("it changes the data or the weights", "leave data and weights as they are"),
    "leak": Reason(_at("{bytes:,} bytes per call are not freed"), "free what each call allocates", follows=MARKED),
    # ---- how a process ended
    "crash": Reason(lambda d: f"it crashed{_call(d)}: {d['signal']}"),
    "time_limit": Reason(lambda d: f"it did not end within {d['seconds']:g} s{_call(d)}"),
    "hangs": Reason(lambda d: f"it did not end within {d['seconds']:g} s{_call(d)}: it hangs, or is far too slow"),
    "exit": Reason(lambda d: f"it ended the process with exit code {d['status']}{_call(d)}"),
    "divides_by_zero": Reason(lambda d: f"{_place(d)}it divides a whole number by zero{_call(d)}"),
    "illegal_instruction": Reason(lambda d: f"it crashed{_call(d)}: {d['signal']}"),
    "stack": Reason(
        lambda d: (
            f"{_place(d)}its stack overflows{_call(d)}: an array on the stack is too large, or a recursion too deep"
        ),
        "allocate large arrays with malloc or std::vector",
    ),
    "past_end": Reason(
        lambda d: f"it accesses memory {d['bytes']} bytes past the end of {_TENSORS[d['tensor']]}{_call(d)}",
        "compare every index with the tensor's size",
        "out_of_bounds_read",
    ),
    "memory": Reason(lambda d: f"memory ran out{_call(d)}: the process used {_size(d['bytes'])}"),
    "heap": Reason(
        lambda d: f"it damaged the memory that malloc manages{_call(d)}: {d['words']}", _OUTSIDE, "out_of_bounds_write"
    ),
    "stack_smashed": Reason(
        lambda d: f"it wrote past the end of an array on the stack{_call(d)}", _OUTSIDE, "array_too_small"
    ),
    "assertion": Reason(lambda d: f"an assertion failed{_call(d)}: {d['words']}"),
    "uncaught": Reason(lambda d: f"an exception was not caught{_call(d)}: {d['words']}"),
    "failed": Reason("{text}"),
    "device_error": Reason("{text}"),
    # ---- several layers together
    "several_channels": Reason("correct for one input channel and wrong for more"),
    "fixed_sizes": Reason("sizes are fixed at compile time: no layer of another edition is correct"),
    "incorrect": Reason("the output is wrong"),
    # ---- notes
    "work_before": Reason(
        "the output was complete before forward ran: work outside Op Time", "do the work in forward", follows=MARKED
    ),
    "work_after": Reason(
        "the output changed after Op Time was taken: work outside Op Time", "finish all work before forward returns"
    ),
    # ---- the grader
    "too_fast": Reason(
        "{ms:.3f} ms, less than {share:.0%} of the {fill:.3f} ms that it takes only to write the output",
        "compute and write the output within forward",
    ),
    "clocks": Reason(
        "its own clock says {own:.3f} ms, the grader's {ms:.3f} ms",
        "do nothing if the machine was busy: the grader's clock counts",
        follows=MARKED,
    ),
    "memory_limit": Reason(lambda d: f"it used more than {_size(d['limit'])} of memory"),
    "threads_limit": Reason("it started more than {limit:,} threads"),
    "printed_limit": Reason(lambda d: f"it printed more than {_size(d['limit'])}"),
    "not_loaded": Reason("it cannot be loaded: {text}"),
    "not_stopped": Reason("it could not be stopped", "finish all work before forward returns"),
    "ran_while_stopped": Reason("it ran while it was stopped", "finish all work before forward returns"),
    "not_measured": Reason("its use of memory and threads could not be measured"),
    "wrote_to_channel": Reason("it wrote to a descriptor that is not its own"),
    "closed_channel": Reason("it closed the grader's channel"),
}
