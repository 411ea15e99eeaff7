"""The table of the shipped models: their names, editions, operators, weights and expected correctness."""

import difflib
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

from ..data import dataset
from ..errors import CheckpointError, UsageError
from ..system.installation import resource_dir
from . import editions, hdf5
from .checkpoint import Checkpoint

DEFAULT_EDITION = "fa2017"


class Model(NamedTuple):
    name: str  # the course's name of the model; except for fa2017, with the edition as a prefix
    edition: str
    operator: str  # operator of the convolution layers, "custom" or "builtin"
    summary: str
    expected: Dict[str, List[Tuple[int, float]]]  # by source of images: (n, correctness on the first n test images)

    @property
    def short_name(self) -> str:
        prefix = f"{self.edition}-"
        return self.name[len(prefix) :] if self.name.startswith(prefix) else self.name

    @property
    def path(self) -> Path:
        return resource_dir("models") / f"{self.name}.h5"

    def load(self) -> Checkpoint:
        if not self.path.is_file():
            raise CheckpointError(f"the weights of {self.name} are missing ({self.path}): install the package again")
        return hdf5.load(self.path)


def _model(
    name: str, operator: str, summary: str, real: List[Tuple[int, float]], synthetic: List[Tuple[int, float]]
) -> Model:
    edition = next((edition for edition in editions.EDITIONS if name.startswith(edition)), DEFAULT_EDITION)
    return Model(name, edition, operator, summary, {dataset.REAL: real, dataset.SYNTHETIC: synthetic})


_CUSTOM, _BUILTIN = "the course's network, custom operator, two layers", "MXNet's own Convolution, two layers"
_MINI_DNN = "mini-dnn's network of fa2020 to fa2025, custom operator, two layers, ReLU"
# The correctness on Fashion-MNIST is what the course published for its own weights; the shipped weights were selected
# to have the same correctness. The correctness on the built-in set was computed in float64 (see
# tests/unit/test_shipped_models.py).
_TABLE = (
    ("ece408-high", "custom", "the course's accurate network, custom operator",
     [(10000, 0.8562), (2000, 0.8625)], [(10000, 0.9027), (2000, 0.904)]),
    ("ece408-low", "custom", "the course's inaccurate network, custom operator",
     [(10000, 0.629), (2000, 0.6275)], [(10000, 0.7031), (2000, 0.7115)]),
    ("baseline", "builtin", "MXNet's own Convolution",
     [(10000, 0.8673)], [(10000, 0.9044), (2000, 0.9015)]),
    ("sp2018-ece408", "custom", _CUSTOM,
     [(10000, 0.8451), (100, 0.88), (10, 1.0)], [(10000, 0.8845), (2000, 0.8855)]),
    ("sp2018-baseline", "builtin", _BUILTIN,
     [(10000, 0.8444)], [(10000, 0.8827), (2000, 0.879)]),
    ("fa2018-ece408", "custom", _CUSTOM,
     [(10000, 0.8171), (1000, 0.827), (100, 0.85)], [(10000, 0.8597), (2000, 0.8635)]),
    ("fa2018-baseline", "builtin", _BUILTIN,
     [(10000, 0.8177)], [(10000, 0.859), (2000, 0.8505)]),
    ("sp2019-ece408", "custom", _CUSTOM,
     [(10000, 0.8397), (1000, 0.852), (100, 0.84)], [(10000, 0.886), (2000, 0.8835)]),
    ("sp2019-baseline", "builtin", _BUILTIN,
     [(10000, 0.8236)], [(10000, 0.8541), (2000, 0.8565)]),
    ("fa2019-ece408", "custom", _CUSTOM,
     [(10000, 0.7653), (1000, 0.767), (100, 0.76)], [(10000, 0.8073), (2000, 0.8065)]),
    ("fa2019-baseline", "builtin", _BUILTIN,
     [(10000, 0.8154)], [(10000, 0.8632), (2000, 0.8625)]),
    ("fa2020", "custom", _MINI_DNN,
     [(10000, 0.8714), (5000, 0.871), (1000, 0.886), (100, 0.86)], [(10000, 0.9302), (2000, 0.9245)]),
)  # fmt: skip
MODELS: Dict[str, Model] = {row[0]: _model(*row) for row in _TABLE}


def get(name: str, edition: Optional[str] = None) -> Model:
    name = editions.ALIASES.get(name, name)
    if edition:
        shipped = of_edition(edition)
        for model in shipped:
            if name in (model.name, model.short_name):
                return model
        names = ", ".join(model.short_name for model in shipped)
        raise UsageError(f"unknown model '{name}' of edition {edition}; its models: {names or 'none'}")
    if name in MODELS:
        return MODELS[name]
    near = [model.name for model in MODELS.values() if model.short_name == name]
    near = near or difflib.get_close_matches(name, MODELS, n=3)
    suggestion = f"; did you mean {' or '.join(near)}?" if near else ""
    raise UsageError(f"unknown model '{name}'{suggestion} (`fashion-infer models list`)")


def of_edition(edition: str) -> List[Model]:
    wanted = editions.get(edition).name
    return [model for model in MODELS.values() if model.edition == wanted]


def default(edition: Optional[str] = None) -> Model:
    shipped = of_edition(edition or DEFAULT_EDITION)
    if not shipped:
        raise UsageError(f"no model of edition {edition} is shipped: give a checkpoint instead")
    return next((model for model in shipped if model.operator == "custom"), shipped[0])


def chosen(name: Optional[str] = None, edition: Optional[str] = None) -> Model:
    return get(name, edition) if name else default(edition)
