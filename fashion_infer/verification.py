"""Does every model show the correctness that it must, whatever runs it?"""

import shlex
from typing import Iterator, List, NamedTuple, Sequence, Tuple, cast

from . import devices, pipeline
from .checkpoints import editions, originals, zoo
from .data import dataset
from .errors import CheckFailed, UsageError
from .kernel_files import paths
from .library import kernels
from .request import Request


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


def verify(models: Sequence[str], asked: Request) -> List[Check]:
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

    Raises
    ------
    FashionInferError
        When something can't be run at all. A wrong result is a `Check` that is not ok.
    CheckFailed
        When the kernel is a file that is wrong on three images already: 10,000 of every model may take an hour.
    """
    asked.check()
    if asked.source == dataset.OWN:
        raise UsageError("there are no published figures of a dataset of one's own: use `fashion-infer run`")
    chosen = [zoo.get(name) for name in models or zoo.MODELS]
    ways = list(_ways(asked) if asked.kernel == "auto" else _ways_of_kernel(asked))
    if paths.is_path(asked.kernel):
        _try_file(asked, chosen)
    images = dataset.load(dataset.TEST_SIZE, asked.data_dir, asked.data)
    checks = []
    for model in chosen:
        figures = model.expected[images.source]
        largest = max(n for n, _ in figures)
        part = images._replace(images=images.images[:largest], labels=images.labels[:largest])
        for weights in _weights(model.name, images.source):
            for mode, operator, where in ways:
                request = asked.but(model=model.name, operator=operator, weights=weights, backend=where, mode=mode)
                result = pipeline.run(request, images=part, judge=False)
                hits = result.predictions == result.labels
                way = (model.name, weights, mode, operator, result.backend, images.source)
                checks += [Check(*way, n, expected, int(hits[:n].sum()) / n) for n, expected in figures]
    return checks


def _try_file(asked: Request, chosen: Sequence[zoo.Model]) -> None:
    from .judging import trials
    from .kernel_files import loading

    shapes = sorted({s for model in chosen for s in editions.convolution_shapes(editions.get(model.edition))})
    backend = loading.backend_of(asked.kernel, asked.kernel_format, asked.backend)
    device = cast(int, asked.device)  # `asked.check` refuses `all` beside a file
    found = trials.check(asked.kernel, asked.kernel_format, backend, shapes=shapes, device=device)
    wrong = sum(not one.right for one in found.tried)
    if wrong:
        raise CheckFailed(
            f"{found.kernel.name} is wrong for {wrong} of {len(found.tried)} layers of these models, and no model was "
            f"run: `fashion-infer kernel check {shlex.quote(str(asked.kernel))}` says where"
        )


def _ways_of_kernel(asked: Request) -> Iterator[Tuple[str, str, str]]:
    """The same for one kernel."""
    if paths.is_path(asked.kernel):
        from .kernel_files import loading

        yield "operator", "custom", loading.backend_of(asked.kernel, asked.kernel_format, asked.backend)
        return
    kernels.check_kernel(asked.kernel, asked.backend)
    for where in ("cpu", "gpu") if asked.backend == "auto" else (asked.backend,):
        if asked.kernel in [line.name for line in kernels.table(where)]:
            yield "operator", "custom", where


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
