"""How thorough a run is: `default` tests small random samples, `all` (`make test-all`) tests all cases and many
examples.

Select a profile with HYPOTHESIS_PROFILE=all or pytest's --hypothesis-profile=all. Neither profile has a fixed seed:
each run draws new examples, and a failure prints how to repeat the failing example.
"""

import os
import random

NAMES = ("default", "all")
MORE = 25  # under `all`, a test has this many times its number of examples
FEWER = 3  # under `default`, a test's number of examples is divided by this

_chosen = "default"


def load(option=None):
    """Activate a profile: `option` from the command line, else HYPOTHESIS_PROFILE, else `default`."""
    global _chosen
    _chosen = option or os.environ.get("HYPOTHESIS_PROFILE") or "default"
    if _chosen not in NAMES:
        raise ValueError(f"no hypothesis profile {_chosen!r}; known: {', '.join(NAMES)}")
    try:
        import hypothesis
    except ImportError:  # GPU tests also run without Hypothesis
        return
    for name in NAMES:
        hypothesis.settings.register_profile(name, deadline=None, derandomize=False, print_blob=True)
    hypothesis.settings.load_profile(_chosen)


def examples(count):
    """Return the number of examples for a property test: a third of `count`, or 25 times `count` under `all`."""
    return pick(-(-count // FEWER), count * MORE)


def on_device(count):
    """Return the Hypothesis settings of a property test on a GPU: `examples(count)` examples and no health checks."""
    import hypothesis

    every = list(hypothesis.HealthCheck)
    return hypothesis.settings(max_examples=examples(count), suppress_health_check=every, deadline=None)


def pick(sample, everything):
    """Return `sample` under `default`, `everything` under `all`."""
    return everything if _chosen == "all" else sample


def drawn(everything, count):
    """Return `count` randomly chosen members of `everything`, in their order; under `all`, return all of them.

    The processes of one run must draw the same members, so the seed is the run's identifier from pytest-xdist.
    """
    seed = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    chosen = set(random.Random(seed).sample(range(len(everything)), pick(count, len(everything))))
    return [thing for index, thing in enumerate(everything) if index in chosen]
