"""How thorough a run is: `default` tries small fresh samples, `all` (`make test-all`) sweeps exhaustively.

Chosen by HYPOTHESIS_PROFILE=all or by pytest's --hypothesis-profile=all. Neither profile has a fixed seed: each run
draws anew, and a failure prints the line that repeats its example.
"""

import os
import random

NAMES = ("default", "all")
MORE = 25  # examples under `all` for each one that a test names
FEWER = 3  # of those, what `default` divides them by

_chosen = "default"


def load(option=None):
    """Make a profile the one that counts: `option` of the command line, else HYPOTHESIS_PROFILE, else `default`."""
    global _chosen
    _chosen = option or os.environ.get("HYPOTHESIS_PROFILE") or "default"
    if _chosen not in NAMES:
        raise ValueError(f"no hypothesis profile {_chosen!r}; known: {', '.join(NAMES)}")
    try:
        import hypothesis
    except ImportError:  # the GPU tests do without it
        return
    for name in NAMES:
        hypothesis.settings.register_profile(name, deadline=None, derandomize=False, print_blob=True)
    hypothesis.settings.load_profile(_chosen)


def examples(count):
    """How many examples a property is tried on: a third of `count`, and 25 times `count` under `all`."""
    return pick(-(-count // FEWER), count * MORE)


def on_device(count):
    """`hypothesis.settings` of that many examples for a test on a GPU: all health checks are off.

    It is a decorator of the property.
    """
    import hypothesis

    every = list(hypothesis.HealthCheck)
    return hypothesis.settings(max_examples=examples(count), suppress_health_check=every, deadline=None)


def pick(sample, everything):
    """`sample` under `default`, `everything` under `all`."""
    return everything if _chosen == "all" else sample


def drawn(everything, count):
    """`count` of several things under `default`, others in every run, in their order; all of them under `all`.

    The processes of one run must agree: pytest-xdist gives them a common name, which is the seed.
    """
    seed = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    chosen = set(random.Random(seed).sample(range(len(everything)), pick(count, len(everything))))
    return [thing for index, thing in enumerate(everything) if index in chosen]
