"""Verification that each model has its published correctness in each way of running it."""

import shlex
from typing import Callable, Iterator, List, NamedTuple, Sequence, Tuple

from . import devices, pipeline
from .checkpoints import editions, originals, zoo
from .data import dataset
from .errors import CheckFailed, UsageError
from .judging import judge
from .kernel_files import formats, loading
from .kernel_files.loading import LoadedKernel
from .library import kernels
from .request import Request


class Check(NamedTuple):
    """The correctness of one run of a model on the first n images of a data source, and the expected one."""

    model: str
    weights: str  # "shipped" or "original"
    mode: str
    operator: str
    backend: str
    source: str
    n: int
    expected: float
    got: float

    @property
    def ok(self) -> bool:
        """Whether the measured correctness is exactly equal to the expected one, not just close to it."""
        return self.got == self.expected


def verify(
    models: Sequence[str], asked: Request, tick: Callable[[float, List[Check]], None] = lambda share, checks: None
) -> List[Check]:
    """Check models in each way of running them, at each number n of images for which `zoo` has a correctness.

    The ways are both modes on the requested backend, and MXNet's own operators on the CPU; with a kernel in `asked`,
    the operator mode alone. Each network runs once per way, over its largest n. A wrong result is a `Check` that is not
    ok, but a kernel file that is incorrect on three images raises CheckFailed.
    """
    pipeline.check(asked)
    if asked.source == dataset.OWN:
        raise UsageError("your own dataset has no published figures: use `fashion-infer run`")
    chosen = [zoo.get(name) for name in models or zoo.MODELS]
    kernel = _checked_kernel(asked, chosen) if asked.kernel_file else None
    if kernel is not None:
        ways = [("operator", "custom", kernel.backend)]
    else:
        ways = list(_ways(asked) if asked.kernel == "auto" else _ways_of_kernel(asked))
    images = dataset.load(dataset.TEST_SIZE, asked.data_dir, asked.data)
    runs = [
        (model, weights, way) for model in chosen for weights in _weights(model.name, images.source) for way in ways
    ]
    checks: List[Check] = []
    for done, (model, weights, (mode, operator, backend)) in enumerate(runs, 1):
        figures = model.expected[images.source]
        largest = max(n for n, _ in figures)
        part = images._replace(images=images.images[:largest], labels=images.labels[:largest])
        request = asked.but(model=model.name, operator=operator, weights=weights, backend=backend, mode=mode)
        result = pipeline.run(request, images=part, kernel=kernel, judge=False)
        hits = result.predictions == result.labels
        name = (model.name, weights, mode, operator, result.backend, images.source)
        found = [Check(*name, n, expected, int(hits[:n].sum()) / n) for n, expected in figures]
        checks += found
        tick(done / len(runs), found)
    return checks


def _checked_kernel(asked: Request, chosen: Sequence[zoo.Model]) -> LoadedKernel:
    shapes = sorted({s for model in chosen for s in editions.convolution_shapes(editions.get(model.edition))})
    file = formats.recognise(asked.kernel, asked.kernel_format, asked.backend)
    found = judge.check(file, shapes=shapes, device=asked.device)
    wrong = len(found.wrong)
    if wrong:
        raise CheckFailed(
            f"{file.name} is incorrect on {wrong} of {len(found.shapes)} layers of these models, so no model was "
            f"run: `fashion-infer kernel check {shlex.quote(str(asked.kernel))}` says where"
        )
    return loading.load(file, device=asked.device)


def _ways_of_kernel(asked: Request) -> Iterator[Tuple[str, str, str]]:
    """Yield (mode, operator, backend) of each way to run a network with one of the library's kernels."""
    kernels.check_kernel(str(asked.kernel), asked.backend)
    for backend in ("cpu", "gpu") if asked.backend == "auto" else (asked.backend,):
        if asked.kernel in [kernel.name for kernel in kernels.table(backend)]:
            yield "operator", "custom", backend


def _ways(asked: Request) -> Iterator[Tuple[str, str, str]]:
    backends = [devices.choose(asked.backend, asked.device).backend]
    if asked.backend == "auto" and backends == ["gpu"]:
        backends = ["cpu", "gpu"]
    for where in backends:
        yield "fused", "custom", where
        yield "operator", "custom", where
    yield "operator", "builtin", "cpu"


def _weights(name: str, source: str) -> List[str]:
    """Return the weights to check: "shipped" and, if fetched, "original", which the built-in dataset cannot check."""
    fetched = source == dataset.REAL and originals.is_here(name)
    return ["shipped", "original"] if fetched else ["shipped"]
