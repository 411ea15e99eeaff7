"""Reasons why a kernel is incorrect: each has a code for JSON and tests, and a sentence for users."""

import signal
from typing import Dict

INCORRECT = "incorrect"  # unknown reason
# Codes of faults that can harm the process that calls the kernel.
HARMFUL = ("writes_after_end", "writes_before_start", "writes_outside", "returns_early", "crash", "exit", "time_limit")

SENTENCES: Dict[str, str] = {
    "not_written": "nothing is written to the output",
    "accumulates": "it adds to the output, which is not zeroed before a call",
    "not_all_written": "some outputs are never written",
    "all_zero": "the output is all zero: a launch that failed, or nothing is summed",
    "images_from": "wrong from image {0} on: a loop or grid that ends early, an overflow, or memory for fewer images",
    "filters_from": "wrong from filter {0} on: a grid or a tile for fewer filters",
    "border": "{0}: a boundary check",
    "reads_outside": "it reads outside of the data or the weights",
    "output_transposed": "rows and columns of the output are exchanged",
    "weights_transposed": "rows and columns of the weights are exchanged",
    "weights_flipped": "the weights are flipped: this layer is a cross-correlation",
    "weights_swapped": "filter and channel are exchanged in the index of the weights",
    "weights_without_channel": "the index of the weights lacks the channel",
    "input_without_channel": "the index of the data lacks the channel",
    "first_channel": "only the first input channel is summed",
    "last_channel": "only the last input channel is left: the sum starts again for each channel",
    "im2col_order": "the unrolled data has its rows in another order than the weights: tap before channel",
    "padded": "the data is padded with zeros at its borders, which this layer does not do",
    "whole_numbers": "all outputs are whole numbers: the sum is kept in an integer",
    "imprecise": "imprecise sums: errors of up to {0:.1%} of the largest output, more than half precision gives",
    "row_stride": "rows of the data are {0} apart in the index, the output's width, where they are {1} apart",
    "taps_missing": "taps of the kernel are missing from the sum: {0}",
    "doubled": "outputs are twice the correct values: added to an earlier result",
    "sum_not_reset": "the sum is not reset between outputs",
    "writes_after_end": "it writes past the end of the output",
    "writes_before_start": "it writes before the beginning of the output",
    "writes_outside": "it writes outside of its tensors",
    "returns_early": "it returns before its threads have ended",
    "inputs_changed": "it changes the data or the weights",
    "race": "differs between two calls: a race",
    "unstable": "differs between two calls on the same inputs: uninitialised memory, or state kept between calls",
    "cached": "it returns the result of an earlier call: results are kept by shape or by pointer",
    "carries_over": "results of earlier calls are added to later ones: state kept between calls",
    "later_call": "correct in the first call and wrong in a later one: state kept between calls",
    "several_channels": "correct for one input channel and wrong for more: the sum over the channels, or their index",
    "fixed_sizes": "sizes are fixed at compile time",
    "fixed_batch": "correct for {0} images and wrong for {1}: a fixed batch size",
    "crash": "it crashed: {0}",
    "exit": "it ended the process with exit code {0}",
    "time_limit": "it did not end within {0} s",
    "device_error": "{0}",
    "failed": "{0}",
    INCORRECT: "the output is wrong",
}


def sentence(code: str, *details: object) -> str:
    """Return the sentence of a code, with details filled in; "" for no code."""
    return SENTENCES[code].format(*details) if code else ""


def signal_name(number: int) -> str:
    """Return name and description of a signal, such as "SIGSEGV (Segmentation fault)"."""
    known = [signal.strsignal(number) or ""]
    try:
        known.insert(0, signal.Signals(number).name)
    except ValueError:
        known.insert(0, f"signal {number}")
    return f"{known[0]} ({known[1]})" if known[1] else known[0]
