"""The planted bugs in tests/submissions/wrong: the code of the judge's reason for each, and CUDA versions of them."""

from pathlib import Path

WRONG = Path(__file__).resolve().parent / "submissions" / "wrong"

PLANTED = {  # name of a .cpp file -> code of the judge's reason for the first failing shape
    "accumulates": "accumulates",
    "boundary": "border",
    "boundary-tile": "border",
    "cached-by-shape": "cached",
    "carries-over": "carries_over",
    "crashes": "crash",
    "exits": "exit",
    "few-filters": "filters_from",
    "few-images": "images_from",
    "first-channel": "first_channel",
    "first-column": "border",
    "first-row": "border",
    "fixed-batch": "images_from",
    "fixed-sizes": "incorrect",
    "flipped": "weights_flipped",
    "holes": "not_all_written",
    "input-changed": "inputs_changed",
    "input-without-channel": "input_without_channel",
    "integer-sum": "whole_numbers",
    "last-channel": "last_channel",
    "last-row": "border",
    "nothing": "not_written",
    "padded": "padded",
    "past-height": "writes_after_end",
    "past-width": "writes_after_end",
    "race-over-taps": "race",
    "reads-after-end": "reads_outside",
    "reads-before-start": "reads_outside",
    "row-stride": "row_stride",
    "shared-sum": "race",
    "sixteen-images": "images_from",
    "sum-not-reset": "sum_not_reset",
    "tap-missing": "taps_missing",
    "throws": "failed",
    "transposed-output": "output_transposed",
    "transposed-weights": "weights_transposed",
    "unrolled-order": "im2col_order",
    "weights-swapped": "weights_swapped",
    "weights-without-channel": "weights_without_channel",
    "writes-after-end": "writes_after_end",
    "writes-before-start": "writes_before_start",
    "zero": "all_zero",
}

_NEEDS_A_HOST = ("std::", "#pragma omp", "throw", "exit(", "abort(", "raise(")
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
    return (WRONG / f"{name}.cpp").read_text()
