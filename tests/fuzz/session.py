"""Runs cases until the time is up, and reports failures."""

import re
import time
from collections import Counter

from . import convolutions, networks

RUNS = {"convolutions": convolutions.run, "networks": networks.run}
_SHOWN = 3  # number of failures that are printed per kind; further failures are only counted


def run(place, what, seconds, seed, kernels=None):
    """Run the cases seed, seed + 1, ... for `seconds`, but at least one case; return whether all were correct."""
    began, number, passes = time.monotonic(), 0, 0
    failed, worst = Counter(), Counter()
    print(f"{what} on the {place.backend.upper()}, seed {seed}, {seconds:g} s", flush=True)
    while number == 0 or time.monotonic() - began < seconds:
        passes += one(place, what, seed + number, failed, worst, kernels)
        number += 1
    took = time.monotonic() - began
    print(
        f"{what}: {number:,} cases, {passes:,} passes in {took:.0f} s ({60 * number / took:,.0f} cases a minute), "
        f"{sum(failed.values()):,} failures"
    )
    for kind, count in failed.most_common():
        print(f"  {count:,} x {', '.join(kind)}")
    print("  largest error over the bound: " + ", ".join(f"{name} {ratio:.3g}" for name, ratio in worst.items()))
    return not failed


def one(place, what, seed, failed, worst, kernels=None):
    """Run one case; count and print its failures, and update the largest errors. Return the number of passes."""
    try:
        found, errors, passes = RUNS[what](place, seed, kernels)
    except Exception:
        print(f"FAILED: --only {what} --case {seed}: it could not be run to its end", flush=True)
        raise
    for what_failed, text in found:
        kind = tuple(re.sub(r"\d+", "#", part) for part in what_failed)
        failed[kind] += 1
        if failed[kind] <= _SHOWN:
            print(f"FAILED: --only {what} --case {seed}: {text}", flush=True)
    for name, ratio in errors.items():
        worst[name] = max(worst[name], ratio)
    return passes
