"""The named models: their edition, their weights, and the correctness that they must show."""

import difflib
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

from . import checkpoint, dataset, editions
from ._resources import resource_dir
from .errors import CheckpointError, UsageError


class Model(NamedTuple):
    """A shipped model. `expected` lists (n, correctness on the first n images) for each data source."""

    name: str
    edition: str
    summary: str
    expected: Dict[str, List[Tuple[int, float]]]

    @property
    def path(self) -> Path:
        """Where its weights lie."""
        return resource_dir("models") / f"{self.name}.h5"

    def load(self) -> checkpoint.Checkpoint:
        """Its network and weights; CheckpointError when the file is missing or damaged."""
        if not self.path.is_file():
            raise CheckpointError(f"the weights of {self.name} are missing ({self.path}): install the package again")
        return checkpoint.load_hdf5(self.path)


# The correctness on Fashion-MNIST is what the course published for its weights; the shipped ones were selected to show
# the same. That on the built-in set was computed in float64, as tests/unit/test_shipped_models.py does again.
MODELS: Dict[str, Model] = {
    model.name: model
    for model in (
        Model(
            "ece408-high",
            "fa2017",
            "the course's accurate network, custom operator",
            {dataset.REAL: [(10000, 0.8562), (2000, 0.8625)], dataset.SYNTHETIC: [(10000, 0.9026), (2000, 0.903)]},
        ),
        Model(
            "ece408-low",
            "fa2017",
            "the course's inaccurate network, custom operator",
            {dataset.REAL: [(10000, 0.629), (2000, 0.6275)], dataset.SYNTHETIC: [(10000, 0.6586), (2000, 0.6455)]},
        ),
        Model(
            "baseline",
            "fa2017",
            "MXNet's own Convolution",
            {dataset.REAL: [(10000, 0.8673)], dataset.SYNTHETIC: [(10000, 0.8954), (2000, 0.8915)]},
        ),
    )
}


def get(name: str, edition: Optional[str] = None) -> Model:
    """The model called `name`, or `EDITION-name` when an edition is given and there is none of the bare name in it.

    Raises
    ------
    UsageError
        With the nearest names, when there is no such model.
    """
    if edition:
        editions.get(edition)
        for candidate in (name, f"{edition}-{name}"):
            if candidate in MODELS and MODELS[candidate].edition == edition:
                return MODELS[candidate]
        shipped = [model.name for model in MODELS.values() if model.edition == edition]
        raise UsageError(f"unknown model '{name}' of edition {edition}; it has {', '.join(shipped) or 'none'}")
    if name in MODELS:
        return MODELS[name]
    near = difflib.get_close_matches(name, MODELS, n=3, cutoff=0.4) or list(MODELS)
    raise UsageError(f"unknown model '{name}'; did you mean {' or '.join(near)}? (`fashion-infer models list`)")
