"""A rubric: the checks with their points, the submission's limits, and the parts of the verdict that students see."""

from typing import List, NamedTuple, Optional, Tuple

BACKENDS = ("auto", "cpu", "gpu")
PRECISIONS = ("float32", "half")
KINDS = ("build", "right", "time")
BETWEEN = ("linear", "stepped")


class RubricCheck(NamedTuple):
    name: str
    kind: str  # one of KINDS
    points: float  # points that the check is worth
    backend: str = "any"  # backend of the submissions that are checked: "cpu", "gpu" or "any"
    n: Tuple[int, ...] = ()  # numbers of images
    # Pairs (time in ms, share of the points that it earns). Times rise, and shares fall.
    steps: Tuple[Tuple[float, float], ...] = ()
    between: str = "linear"  # how shares are determined between the steps: one of BETWEEN

    def share(self, ms: float) -> float:
        if ms <= self.steps[0][0]:
            return self.steps[0][1]
        for (before, high), (after, low) in zip(self.steps, self.steps[1:]):
            if ms <= after:
                return low if self.between == "stepped" else high + (low - high) * (ms - before) / (after - before)
        return 0.0


class Timing(NamedTuple):
    """How long times are measured: until their spread is below `spread`, or `seconds` have passed."""

    spread: float = 0.01  # see `system.noise`
    seconds: float = 8.0
    calls: int = 5  # timed samples of each layer in one process
    runs: int = 2  # least number of processes, if these take less than 2 * `seconds`


class RubricLimits(NamedTuple):
    """Limits of a submission."""

    build_seconds: float = 120.0
    build_memory_mib: float = 4096
    seconds: float = 120.0
    memory_mib: float = 2048
    disk_mib: float = 64
    printed_kib: float = 1024
    threads: float = 1024


class Show(NamedTuple):
    diagnosis: bool = True
    times: bool = True
    printed: bool = True
    leaderboard: bool = True
    # What the compiler says about a correct file, and the command with which students can explain their file.
    explain: bool = False


class RubricLayer(NamedTuple):
    channels: int
    input_size: int  # pixels per side
    filters: int
    kernel_size: int
    images: int = 0  # largest number of images per call of this layer; 0 for no limit


class Rubric(NamedTuple):
    edition: str  # "" if the rubric lists layers
    backend: str
    precision: str
    checks: Tuple[RubricCheck, ...]
    timing: Timing = Timing()
    limits: RubricLimits = RubricLimits()
    show: Show = Show()
    layers: Tuple[RubricLayer, ...] = ()  # the network's layers, if it is not an edition's

    @property
    def network(self) -> str:
        return self.edition or "layers " + "; ".join(",".join(map(str, layer[:4])) for layer in self.layers)

    def checks_of(self, backend: str) -> List[RubricCheck]:
        return [check for check in self.checks if check.backend in ("any", backend)]


def changed(rubric: Rubric, backend: Optional[str], n: Optional[int]) -> Rubric:
    """Return the rubric with this backend, and with this number of images in its time checks. None changes nothing. The
    times of the steps are scaled in proportion to the number of images."""
    checks = tuple(_scaled(check, n) if n and check.kind == "time" else check for check in rubric.checks)
    return rubric._replace(backend=backend or rubric.backend, checks=checks)


def once(rubric: Rubric) -> Rubric:
    timing = rubric.timing._replace(spread=1e9, runs=1)
    return rubric._replace(timing=timing, show=rubric.show._replace(explain=True))


def _scaled(check: RubricCheck, n: int) -> RubricCheck:
    steps = tuple((ms * n / check.n[0], share) for ms, share in check.steps)
    return check._replace(n=(n,), steps=steps)
