"""The strip above the report: what one wants to know first."""

from ...bench.records import FILL
from ..bench import network
from ..content import Fact, Strip


def strip(measured) -> Strip:
    """Whether it is right, how it stands against the best peer and the limit, and what the modes disagree on."""
    return Strip([_verdict(measured), _against_peers(measured), _against_the_limit(measured), _differing(measured)])


def _verdict(measured) -> Fact:
    passed = sum(check.ok for check in measured.checks)
    checked = f"{passed} of {len(measured.checks)} checks of the models passed"
    if measured.wrong:
        return Fact("Verdict", "WRONG", f"{'; '.join(measured.wrong)}; {checked}", "wrong")
    bench = measured.convolutions
    kernels = len({row.name for case in bench.cases for row in case.rows if row.error is not None}) if bench else 0
    return Fact("Verdict", "right", f"{checked}; {kernels} kernels and peers compared with float64", "ok")


def _against_peers(measured) -> Fact:
    """The whole network with its largest batch, or the convolution that stands worst, beside the fastest peer."""
    said = "Against the best peer"
    result = measured.networks
    if result and result.cases:
        largest = network.places(result.cases)[-1][-1]
        ours, peer = network.fastest(largest, "ours"), network.fastest(largest, "peer")
        if ours and peer:
            what = f"the speed of {peer.title}: whole network, batches of {largest.batch:,}"
            return Fact(said, f"{peer.median_ms / ours.median_ms:.2f} x", what)
    found = []
    for case in measured.convolutions.cases if measured.convolutions else ():
        timed = {row.name: row.median_ms for row in case.rows if row.timed}
        peers = [(timed[peer], peer) for peer in case.peers if peer in timed]
        if peers and case.auto in timed:
            best, peer = min(peers)
            found.append((best / timed[case.auto], f"the speed of {peer}: {case.name}"))
    if found:
        ratio, what = min(found)
        return Fact(said, f"{ratio:.2f} x", what)
    return Fact(said, "--", "no peer was measured here")


def _against_the_limit(measured) -> Fact:
    """The convolution whose kernel is furthest from the time to write its output."""
    found = []
    for case in measured.convolutions.cases if measured.convolutions else ():
        timed = {row.name: row.median_ms for row in case.rows if row.timed}
        if FILL in timed and case.auto in timed:
            found.append((timed[case.auto] / timed[FILL], f"the time to write the output: {case.auto}, {case.name}"))
    if not found:
        return Fact("Distance to the limit", "--", "no convolution was timed here")
    ratio, what = max(found)
    what += "; why it is below 1 stands under the ladder" if ratio < 1 else ""
    return Fact("Distance to the limit", f"{ratio:.2f} x", what)


def _differing(measured) -> Fact:
    operator, fused = measured.runs
    changed = int((operator.predictions != fused.predictions).sum())
    state = "wrong" if changed else "ok"
    return Fact("Predictions that differ", f"{changed:,}", f"of {operator.n:,}, between the two modes", state)
