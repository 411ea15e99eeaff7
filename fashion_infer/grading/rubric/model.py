"""A rubric: what is checked, for how many points, within which limits, and what the student sees of it."""

from typing import List, NamedTuple, Optional, Tuple

BACKENDS = ("auto", "cpu", "gpu")
PRECISIONS = ("float32", "half")
KINDS = ("build", "right", "time")
BETWEEN = ("linear", "stepped")
_MIB, _KIB = 1 << 20, 1 << 10


class RubricCheck(NamedTuple):
    """One line of the marks."""

    name: str
    kind: str
    points: float
    backend: str = "any"
    n: Tuple[int, ...] = ()  # images
    steps: Tuple[Tuple[float, float], ...] = ()  # (ms, share of the points), times rising, shares falling
    between: str = "linear"

    def share(self, ms: float) -> float:
        """The share of the points that a time earns; none beyond the last of the steps."""
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
    """How much a submission may take. Memory, disk and prints in bytes."""

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
    explain: bool = False  # the command that explains the file on the student's own machine


class RubricLayer(NamedTuple):
    """A convolution of a class's own network."""

    channels: int
    input_size: int  # pixels a side
    filters: int
    kernel_size: int
    images: int = 0  # at most so many of it in a call; 0 for as many as a check names


class Rubric(NamedTuple):
    """All of it."""

    edition: str  # "" where it lists layers
    backend: str
    precision: str
    checks: Tuple[RubricCheck, ...]
    timing: Timing = Timing()
    limits: RubricLimits = RubricLimits()
    show: Show = Show()
    layers: Tuple[RubricLayer, ...] = ()  # in place of the edition's

    @property
    def network(self) -> str:
        """The network in words: the edition, or the rubric's own layers."""
        return self.edition or "layers " + "; ".join(",".join(map(str, layer[:4])) for layer in self.layers)

    def checks_of(self, backend: str) -> List[RubricCheck]:
        """The checks for submissions of a backend."""
        return [check for check in self.checks if check.backend in ("any", backend)]


def changed(rubric: Rubric, backend: Optional[str], n: Optional[int]) -> Rubric:
    """A rubric for another backend, or with other numbers of images in its time checks; None leaves what it has.

    Times to reach grow and shrink with the images.
    """
    checks = tuple(_scaled(check, n) if n and check.kind == "time" else check for check in rubric.checks)
    return rubric._replace(backend=backend or rubric.backend, checks=checks)


def _scaled(check: RubricCheck, n: int) -> RubricCheck:
    steps = tuple((ms * n / check.n[0], share) for ms, share in check.steps)
    return check._replace(n=(n,), steps=steps)
