"""`bench net`: checks our fused networks of the chosen editions, then times them and peers for each batch size."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional

import numpy as np

from ..checkpoints import editions
from ..errors import DeviceError, UsageError
from ..judging import networks
from ..library.fused import FusedNetwork
from . import peers, random_network
from .protocol import Benchmark, Trial
from .random_network import RandomNetwork
from .records import HOST, NETWORKS, OK, OURS, SKIPPED, STAGE, WRONG, BenchCase, LogitsCheck, Measurement
from .timing import Contender

BATCHES = (1, 16, 256, 10000)
NAME = "fashion-infer"
_CHECKED = 256  # number of images to check
_RUNS = {16: 300, 1000: 60}  # number of timed runs without --repeat; key: largest batch size to which it applies


class _Subject(NamedTuple):
    """A network, its float64 outputs for the checked images, and our networks of those precisions that are correct."""

    network: RandomNetwork
    images: np.ndarray
    picked: np.ndarray  # indices of the checked images
    want: np.ndarray  # outputs of the checked images: logarithms of scores
    ours: Dict[str, FusedNetwork]  # key: precision
    device: int

    def first_stage(self) -> "_Subject":
        part = self.network.first_stage()
        options: Dict[str, Any] = {"shape": part.shape, "backend": "gpu", "device": self.device}
        ours = {p: FusedNetwork(part.symbol, part.weights, precision=p, **options) for p in self.ours}
        want = networks.run(part.layers, part.weights, self.images[self.picked])
        return self._replace(network=part, want=want, ours=ours)


class Networks(Benchmark):
    """Benchmark of whole networks of editions with random weights, at every precision and memory location."""

    name = NETWORKS
    peers = peers.NETWORK

    def check(self) -> None:
        for name in self.request.editions:
            editions.get(name)
        self._batches = sorted(set(self.request.batches or BATCHES))
        self._subject: Optional[_Subject] = None

    def known_peers(self) -> Dict[str, Callable]:
        return self.machine.network_peers

    def cases(self) -> List[BenchCase]:
        places = self.machine.cases(self._batches)
        return [BenchCase(name, where, batch, 0) for name in self.request.editions for where, batch in places]

    def options(self) -> Dict[str, Any]:
        asked = self.request
        batch = ",".join(map(str, self._batches))
        return {"edition": asked.editions, "against": asked.against, "batch": batch, "repeat": asked.repeat}

    def prepare(self, case: BenchCase, index: int) -> Optional[Trial]:
        """Check our networks on the case's images; before the first case of an edition, also check its logits."""
        if self._subject is None or self._subject.network.edition != case.edition:
            network = random_network.build(case.edition)
            self.machine.check_network(network, max(self._batches), self._present)
            self._subject = self._checked_subject(network)
        subject = self._subject
        if not subject.ours:
            return None
        if case.where == STAGE:
            subject = subject.first_stage()
        work = self.machine.network(case.where, subject.network, subject.images[: case.batch])
        within = subject.picked < case.batch
        self._picked, self._want = subject.picked[within], subject.want[within]
        case.checked, timed = len(self._picked), []
        for precision, fused in subject.ours.items():
            row = Measurement(_name(precision), OURS, precision=precision)
            case.rows.append(row)
            timed += _contenders_if_correct(work, row, fused, case.where, self._picked, self._want)
        return Trial(work, timed, {})

    def judge_peer(self, case: BenchCase, row: Measurement, contender: Contender, output: Any) -> None:
        assert contender.sample is not None
        _compare(row, contender.sample(output, self._picked), self._want, case.where)

    def repeat(self, case: BenchCase, trial: Trial) -> int:
        usual = next((runs for most, runs in _RUNS.items() if case.batch <= most), self.machine.network_repeat)
        return self.request.repeat or usual

    def _checked_subject(self, network: RandomNetwork) -> _Subject:
        device, backend = self.request.device, self.machine.backend
        images = network.images(max(self._batches))
        picked = np.unique(np.concatenate([_spread(batch) for batch in self._batches]))
        logits, ours = network.logits(), {}
        want = networks.run(logits.layers, logits.weights, images[picked])
        for precision in self.machine.precisions:
            check = LogitsCheck(network.edition, _name(precision), precision, len(picked))
            options = {"shape": network.shape, "backend": backend, "device": device, "precision": precision}
            try:
                got = FusedNetwork(logits.symbol, network.weights, **options).forward(images[picked])
                _judge(check, got, want)
                if check.status == OK:
                    ours[precision] = FusedNetwork(network.symbol, network.weights, **options)
            except (DeviceError, UsageError) as error:
                check.status, check.reason = (WRONG if precision == "float32" else SKIPPED), str(error)
            self.record_check(check)
        return _Subject(network, images, picked, networks.log_softmax(want), ours, device)


def _contenders_if_correct(work, row, fused, where, picked, want) -> List[Contender]:
    """Return contenders for our network on the case's images if it is correct; else none, and `row` says why."""
    ways = work.ours(row.name, fused)
    try:
        for way in ways:
            _compare(row, way.sample(way.run(), picked), want, where, ours=True)
            if row.status == WRONG:
                return []
    except (DeviceError, UsageError) as error:
        row.status, row.reason = WRONG, str(error)
        return []
    return ways


def _compare(row, got, want, where, ours=False):
    """Record the difference from float64 in `row`. Of ours, also record whether the output is incorrect."""
    if where == HOST:
        row.changed = int((got != want.argmax(axis=1)).sum())
        if ours and row.precision == "float32" and row.changed:
            row.status, row.reason = WRONG, f"{row.changed} of {len(want)} predictions differ"
        return
    got = got.reshape(want.shape)
    if where != STAGE:
        with np.errstate(divide="ignore", invalid="ignore"):
            got = np.log(got.astype(np.float64))
    _judge(row, got, want, ours, classes=where != STAGE, scores=where != STAGE)


def _judge(row, got, want, ours=True, classes=True, scores=False):
    row.error, why = networks.judged(got, want, row.precision, scores)
    if classes:
        row.changed = int((got.argmax(axis=1) != want.argmax(axis=1)).sum())
    if ours and why:
        row.status, row.reason = WRONG, why
    elif ours and row.precision == "float32" and row.changed:
        row.status, row.reason = WRONG, f"{row.changed} of {len(want)} predictions differ"


def _name(precision):
    return NAME if precision == "float32" else f"{NAME} {precision}"


def _spread(batch):
    """Return the indices of the images to check: evenly spread over the batch, including the first and the last."""
    return np.unique(np.linspace(0, batch - 1, min(_CHECKED, batch)).astype(int))
