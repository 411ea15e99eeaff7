"""Does every shipped model show the correctness that it must?"""

from typing import List, NamedTuple, Optional, Sequence

from . import dataset, pipeline, zoo


class Check(NamedTuple):
    """One model on the first n images of one data source."""

    model: str
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
    models: Sequence[str] = (),
    backend: str = "auto",
    device: int = 0,
    threads: Optional[int] = None,
    data_dir: Optional[str] = None,
    data: Optional[str] = None,
) -> List[Check]:
    """Check the models (all when none is named) at every n that `zoo` has a figure for, with both operators.

    Each network runs once, over its largest n: a prediction does not depend on the images that follow it.

    Raises
    ------
    FashionInferError
        When something can't be run at all. A wrong result is a `Check` that is not ok.
    """
    checks = []
    chosen = [zoo.get(name) for name in models or zoo.MODELS]
    images = dataset.load(dataset.TEST_SIZE, data_dir, data)
    for model in chosen:
        for operator in ("custom", "builtin"):
            net = pipeline.load_model(model.name, operator=operator)
            largest = max(n for n, _ in model.expected[images.source])
            part = images._replace(images=images.images[:largest], labels=images.labels[:largest])
            result = pipeline.run(net, part, backend if operator == "custom" else "cpu", device=device, threads=threads)
            hits = result.predictions == result.labels
            for n, expected in model.expected[images.source]:
                got = int(hits[:n].sum()) / n
                checks.append(Check(model.name, operator, result.backend, images.source, n, expected, got))
    return checks
