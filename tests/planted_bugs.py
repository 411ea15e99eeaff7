"""The one table of samples: the code of the judge's reason for each planted bug, correct files, and CUDA versions."""

from pathlib import Path

SAMPLES = Path(__file__).resolve().parent / "submissions"
WRONG = SAMPLES / "wrong"

# Name of a file -> the code of the judge's reason for at least one of SHAPES, or several codes: what the judge may say,
# if that depends on schedules. A file without an ending is a .cpp file.
SHAPES = ((2, 13, 40, 4), (1, 28, 6, 5))
PLANTED = {
    "accumulates": "accumulates",
    "asserts.h": "failed",
    "boundary": "border",
    "boundary-tile": "border",
    "buffer-of-first-size": "other_layers heap",
    "cached-by-shape": "cached",
    "carries-over": "carries_over unstable",
    "copies-images-from-200-on": "images_from",
    "crashes": "crash null_pointer",
    "exits": "exit",
    "few-filters": "filters_from",
    "few-images": "images_from",
    "first-channel": "first_channel",
    "first-column": "border",
    "first-row": "border",
    "fixed-batch": "writes_after_end out_of_bounds_read out_of_bounds_write",
    "fixed-sizes": "incorrect",
    "flipped": "weights_flipped",
    "holes": "not_all_written",
    "input-changed": "inputs_changed",
    "input-without-channel": "data_channel",
    "integer-sum": "whole_numbers",
    "keeps-first-pointer": "kept_pointer",
    "last-channel": "last_channel",
    "last-row": "border",
    "nothing": "not_written",
    "one-nan": "computes_nan",
    "one-output-of-image-51": "many_images",
    "overlapping-memcpy": "memcpy_overlap",
    "padded": "padded",
    "past-height": "writes_after_end out_of_bounds_read out_of_bounds_write",
    "past-width": "writes_after_end out_of_bounds_read out_of_bounds_write",
    "race-over-taps": "race",
    "reads-after-end": "reads_outside out_of_bounds_read past_end",
    "reads-before-start": "reads_outside out_of_bounds_read wild_pointer",
    "row-stride": "data_rows",
    "shared-sum": "race unstable",
    "sixteen-images": "images_from",
    "sum-not-reset": "sum_not_reset carries_over unstable",
    "sum-starts-at-one": "constant_added",
    "tap-missing": "taps_missing",
    "threads-not-joined": "returns_early race",
    "throws": "failed",
    "transposed-output": "output_transposed",
    "transposed-weights": "weights_transposed",
    "unrolled-order": "weights_order",
    "used-after-free": "use_after_free",
    "vector-past-the-row": "writes_after_end out_of_bounds_read out_of_bounds_write",
    "weights-channels-last": "weights_order",
    "weights-swapped": "weights_swapped",
    "weights-without-channel": "weights_channel",
    "writes-after-end": "writes_after_end out_of_bounds_write",
    "writes-before-start": "writes_before_start out_of_bounds_write",
    "zero": "all_zero",
}
# Correct files beside the templates, and the classes of those that are not float32.
RIGHT = (
    "alternating-order.cpp", "plain.c", "cpu-stride.cc", "dynamic-schedule.cpp", "helper/conv.cpp", "leaks.cc",
    "mxnet-cpu-alloc.h", "mxnet-cpu-assignments.h", "mxnet-cpu-macros.h", "row-on-the-stack.cpp",
    "tests-every-pixel.cpp", "utf-16.cpp",
    "../wrong/prints.cpp", "../wrong/height-for-width.cpp", "../wrong/half.cpp",
)  # fmt: skip
CLASSES = {"../wrong/half.cpp": "tf32 or half"}


def path_of(name):
    """Return the path of a sample of PLANTED or RIGHT."""
    if name in RIGHT:
        return SAMPLES / "right" / name
    return WRONG / (name if name.endswith(".h") else f"{name}.cpp")


def codes_of(name):
    return PLANTED[name].split()


_NEEDS_A_HOST = (
    "std::",
    "#pragma omp",
    "throw",
    "exit(",
    "abort(",
    "raise(",
    "malloc(",
    "static const",
    "immintrin",
    "mxnet",
)
_CALL = """
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  one_thread<<<1, 1>>>(x, k, y, B, M, C, H, W, K);
}
"""


def on_gpu():
    """Return the names of the planted bugs whose loops can also be compiled for the GPU."""
    return [name for name in PLANTED if not any(word in _source(name) for word in _NEEDS_A_HOST)]


def cuda_form(name):
    """Return the text of a CUDA kernel file in which one GPU thread runs the loops of a bug."""
    loops = (WRONG / "loops.h").read_text().replace("#pragma once\n", "")
    for start in ("  Shape(int", "  size_t ", "inline float"):
        loops = loops.replace(start, start.replace(start.strip(), f"__device__ {start.strip()}"))
    text = _source(name).replace('extern "C" void conv_forward', "__global__ void one_thread")
    return text.replace('#include "loops.h"\n', loops) + _CALL


def _source(name):
    return path_of(name).read_text()
