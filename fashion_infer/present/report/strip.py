"""The strip of main results at the top of the report. If the report has a kernel file, the results are about it."""

from typing import Optional

from ...bench.conclusions import Conclusion, conclusions
from ..bench import convolutions, networks
from ..content import Fact, Strip

_PEER, _FLOOR = "Against the best peer", "Distance to the write floor"


def strip(measured) -> Strip:
    """Make the headline facts: verdict, ratio to the best peer, distance to the write floor, changed predictions."""
    known = conclusions(measured.convolutions) if measured.convolutions else []
    one = known[0] if known else None
    kernel = measured.kernel
    facts = [_verdict(measured), _against_peers(measured, one), _against_the_floor(one), _differing(measured)]
    if kernel is not None and kernel.wrong:  # the speed of an incorrect kernel is meaningless
        facts = [facts[0], *(Fact(fact.name, "WRONG", kernel.wrong, "wrong") for fact in facts[1:])]
    return Strip(facts)


def _verdict(measured) -> Fact:
    passed = sum(check.ok for check in measured.checks)
    checked = f"{passed} of {len(measured.checks)} checks of the models passed"
    if measured.wrong:
        return Fact("Verdict", "WRONG", f"{'; '.join(measured.wrong)}; {checked}", "wrong")
    kernel = measured.kernel
    if kernel is not None:
        return Fact("Verdict", "correct", f"{kernel.name}, {kernel.precision}; {checked}", "ok")
    bench = measured.convolutions
    kernels = len({row.name for case in bench.cases for row in case.rows if row.error is not None}) if bench else 0
    return Fact("Verdict", "correct", f"{checked}; {kernels} kernels and peers compared with float64", "ok")


def _against_peers(measured, one: Optional[Conclusion]) -> Fact:
    """Compare a kernel file's convolutions, or the whole network at the largest batch size, with the fastest peer."""
    result = measured.networks
    if result and result.cases and (one is None or one.auto):
        largest = networks.places(result.cases)[-1][-1]
        ours, peer = networks.fastest(largest, "ours"), networks.fastest(largest, "peer")
        if ours and peer:
            what = f"the speed of {peer.title}: whole network, batches of {largest.batch:,}"
            return Fact(_PEER, f"{peer.median_ms / ours.median_ms:.2f} x", what)  # type: ignore[operator]
    if one is not None and one.peer:
        return Fact(
            _PEER,
            f"{one.peer[1]:.2f} x",
            f"the speed of {convolutions.peer_title(one.peer[0])}: {one.name}, convolutions",
        )
    return Fact(_PEER, "--", "no peer was measured here")


def _against_the_floor(one: Optional[Conclusion]) -> Fact:
    if one is None or one.percent_of_floor is None:
        return Fact(_FLOOR, "--", "the write floor does not apply, or nothing was timed")
    return Fact(_FLOOR, f"{100 / one.percent_of_floor:.2f} x", f"the time to write the output: {one.name}")


def _differing(measured) -> Fact:
    operator, fused = measured.runs
    changed = int((operator.predictions != fused.predictions).sum())
    kernel = measured.kernel
    state = "wrong" if changed else "ok"
    between = "between the two modes" if kernel is None else f"between {kernel.name} and our kernels"
    return Fact("Predictions that differ", f"{changed:,}", f"of {operator.n:,}, {between}", state)
