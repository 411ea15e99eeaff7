"""A rubric: the checks with their points, the limits, and the parts of the verdict that students see."""

from typing import List, NamedTuple, Optional, Tuple

BACKENDS = ("auto", "cpu", "gpu")
PRECISIONS = ("float32", "half")
KINDS = ("build", "right", "time")
BETWEEN = ("linear", "stepped")
_MIB, _KIB = 1 << 20, 1 << 10


class RubricCheck(NamedTuple):
    """A check of a submission, which gives one line of the marks."""

    name: str
    kind: str
    points: float
    backend: str = "any"
    n: Tuple[int, ...] = ()  # numbers of images
    steps: Tuple[Tuple[float, float], ...] = ()  # (ms, share of the points), times rising, shares falling
    between: str = "linear"

    def share(self, ms: float) -> float:
        """Return the share of the points that a time earns; 0 for a time beyond the last of the steps."""
        if ms <= self.steps[0][0]:
            return self.steps[0][1]
        for (before, high), (after, low) in zip(self.steps, self.steps[1:]):
            if ms <= after:
                return low if self.between == "stepped" else high + (low - high) * (ms - before) / (after - before)
        return 0.0


class Timing(NamedTuple):
    """How long times are measured."""

    spread: float = 0.01
    seconds: float = 8.0
    calls: int = 5
    runs: int = 2


class RubricLimits(NamedTuple):
    """Limits of a submission. Memory, disk and printed output are in bytes."""

    build_seconds: float = 120.0
    build_memory: int = 4096 * _MIB
    seconds: float = 120.0
    memory: int = 2048 * _MIB
    disk: int = 64 * _MIB
    printed: int = 1024 * _KIB
    threads: int = 1024


class Show(NamedTuple):
    """Parts of a verdict that the student may see."""

    diagnosis: bool = True
    times: bool = True
    printed: bool = True
    leaderboard: bool = True
    explain: bool = False  # what the compiler says about the file, and the command that explains it by a run


class RubricLayer(NamedTuple):
    """A convolution layer of a network that a class defined itself."""

    channels: int
    input_size: int  # pixels per side
    filters: int
    kernel_size: int
    images: int = 0  # largest number of images per call of this layer; 0 for the number that a check names


class Rubric(NamedTuple):
    """A whole rubric."""

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
        """Description of the network: the edition, or the rubric's own layers."""
        return self.edition or "layers " + "; ".join(",".join(map(str, layer[:4])) for layer in self.layers)

    def checks_of(self, backend: str) -> List[RubricCheck]:
        """Return the checks for submissions that run on a backend."""
        return [check for check in self.checks if check.backend in ("any", backend)]


def changed(rubric: Rubric, backend: Optional[str], n: Optional[int]) -> Rubric:
    """Return the rubric with another backend, or with another number of images in its time checks; None keeps a value.

    The times of the steps are scaled with the number of images.
    """
    checks = tuple(_scaled(check, n) if n and check.kind == "time" else check for check in rubric.checks)
    return rubric._replace(backend=backend or rubric.backend, checks=checks)


def _scaled(check: RubricCheck, n: int) -> RubricCheck:
    steps = tuple((ms * n / check.n[0], share) for ms, share in check.steps)
    return check._replace(n=(n,), steps=steps)
