"""Whether every model has its published correctness, in every way to run it."""

import shlex
from typing import Callable, Iterator, List, NamedTuple, Sequence, Tuple, cast

from . import devices, pipeline
from .checkpoints import editions, originals, zoo
from .data import dataset
from .errors import CheckFailed, UsageError
from .judging import trials
from .kernel_files import formats, loading
from .kernel_files.loading import LoadedKernel
from .library import kernels
from .request import Request

_EVERY_MODEL = 4_000_000  # products that take about as long as everything but the convolutions


class Check(NamedTuple):
    """One model on the first n images of one data source."""

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
        """Whether every single prediction counted as it should: the figures are equal, not close."""
        return self.got == self.expected


def verify(
    models: Sequence[str], asked: Request, tick: Callable[[float, List[Check]], None] = lambda share, checks: None
) -> List[Check]:
    """Check the models (all when none is named) at every n that `zoo` has a figure for, in every way to run them.

    These are the fused mode and the operator mode with our operator, on the backend (with "auto" on the CPU and, where
    there is one, the GPU), and MXNet's own operators on the CPU. Original weights that were fetched are checked too.
    Each network runs once each way, over its largest n: a prediction does not depend on the images that follow it.

    Parameters
    ----------
    models
        Names of `zoo`; none for all.
    asked
        Backend, device, threads, and where the dataset is. With a kernel only the operator mode with our operator runs,
        and every convolution goes through that kernel: a name, or a file.
    tick
        Called after each run with the share of the work that is done, 0 to 1, and the run's checks.

    Raises
    ------
    FashionInferError
        When something can't be run at all. A wrong result is a `Check` that is not ok.
    CheckFailed
        When the kernel is a file that is wrong on three images already: 10,000 of every model may take an hour.
    """
    asked.check()
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
    total, done = sum(_work(model) for model, _, _ in runs), 0
    for model, weights, (mode, operator, backend) in runs:
        figures = model.expected[images.source]
        largest = max(n for n, _ in figures)
        part = images._replace(images=images.images[:largest], labels=images.labels[:largest])
        request = asked.but(model=model.name, operator=operator, weights=weights, backend=backend, mode=mode)
        result = pipeline.run(request, images=part, kernel=kernel, judge=False)
        hits = result.predictions == result.labels
        name = (model.name, weights, mode, operator, result.backend, images.source)
        found = [Check(*name, n, expected, int(hits[:n].sum()) / n) for n, expected in figures]
        checks += found
        done += _work(model)
        tick(done / total, found)
    return checks


def _work(model: zoo.Model) -> int:
    """About how long a model's runs take beside those of others: products of the convolutions for an image."""
    shapes = editions.convolution_shapes(editions.get(model.edition))
    return _EVERY_MODEL + sum(C * M * K * K * (S - K + 1) ** 2 for C, S, M, K in shapes)


def _checked_kernel(asked: Request, chosen: Sequence[zoo.Model]) -> LoadedKernel:
    """The kernel file, loaded; CheckFailed when it is incorrect on three images of a layer of these models."""
    shapes = sorted({s for model in chosen for s in editions.convolution_shapes(editions.get(model.edition))})
    device = cast(int, asked.device)  # `asked.check` refuses `all` beside a file
    file = formats.recognise(asked.kernel, asked.kernel_format, asked.backend)
    found = trials.check(file, shapes=shapes, device=device)
    wrong = len(found.wrong)
    if wrong:
        raise CheckFailed(
            f"{file.name} is incorrect on {wrong} of {len(found.tried)} layers of these models, and no model was "
            f"run: `fashion-infer kernel check {shlex.quote(str(asked.kernel))}` says where"
        )
    return loading.load(file, device=device)


def _ways_of_kernel(asked: Request) -> Iterator[Tuple[str, str, str]]:
    """(mode, operator, backend) of each way to run a network with one of the library's kernels."""
    kernels.check_kernel(str(asked.kernel), asked.backend)
    for backend in ("cpu", "gpu") if asked.backend == "auto" else (asked.backend,):
        if asked.kernel in [kernel.name for kernel in kernels.table(backend)]:
            yield "operator", "custom", backend


def _ways(asked: Request) -> Iterator[Tuple[str, str, str]]:
    """(mode, operator, backend) of each way to run a network."""
    backends = [devices.choose(asked.backend, asked.device).backend]
    if asked.backend == "auto" and backends == ["gpu"]:
        backends = ["cpu", "gpu"]
    for where in backends:
        yield "fused", "custom", where
        yield "operator", "custom", where
    yield "operator", "builtin", "cpu"


def _weights(name: str, source: str) -> List[str]:
    """Which weights of a model are here. The figures on the built-in set are those of the shipped ones."""
    fetched = source == dataset.REAL and originals.is_here(name)
    return ["shipped", "original"] if fetched else ["shipped"]
