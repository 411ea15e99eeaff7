"""The model of a request: its network and weights, loaded and ready for a predictor."""

import json
from typing import NamedTuple, Optional, Tuple

from ..checkpoints import editions, originals, zoo
from ..checkpoints.checkpoint import Checkpoint
from ..checkpoints.load import load as load_checkpoint
from ..data import dataset
from ..errors import CheckpointError
from ..graph import input_size, rewrite, symbol
from ..graph.rewrite import Normalisation
from ..request import NORMALISATION, Request, is_normalising
from ..system.text import excerpt


class LoadedModel(NamedTuple):
    label: str  # its name in the output
    checkpoint: Checkpoint
    operator: str  # "custom" or "builtin"
    input_size: int  # pixels per side
    network: str  # the checkpoint's network as MXNet's JSON, but without nodes that normalise pixels
    normalisation: Optional[Normalisation] = None  # of pixels; the checkpoint's network contains it

    @property
    def class_names(self) -> Tuple[str, ...]:
        return editions.get(self.checkpoint.attributes.get("edition", "fa2017")).class_names


def check(request: Request) -> None:
    if request.edition:
        editions.get(request.edition)
    if not request.checkpoint:
        zoo.chosen(request.model, request.edition)


def load(request: Request) -> LoadedModel:
    """Load a shipped model or a checkpoint, for the requested operator and an input size that fits."""
    label, checkpoint = _checkpoint(request)
    graph = symbol.parse(checkpoint.symbol, "the network")
    normalisation = _normalisation(request, checkpoint)
    operator = request.operator
    if operator is None:
        operator = "custom" if symbol.convolutions(graph, symbol.CUSTOM_OPERATOR) else "builtin"
    else:
        graph = rewrite.with_operator(graph, operator)
        checkpoint = checkpoint._replace(symbol=json.dumps(graph))
    network = checkpoint.symbol
    if normalisation is not None:
        graph = rewrite.with_normalisation(graph, normalisation)
        checkpoint = checkpoint._replace(symbol=json.dumps(graph))
    size = request.input_size
    if size is None and "edition" in checkpoint.attributes:
        size = editions.get(checkpoint.attributes["edition"]).input_size
    if not size:
        known = [edition.input_size for edition in editions.EDITIONS.values()]
        size = input_size.infer(graph, checkpoint.weights, known)
    return LoadedModel(label, checkpoint, operator, size, network, normalisation)


def _normalisation(request: Request, checkpoint: Checkpoint) -> Optional[Normalisation]:
    """Return the normalisation of pixels from the request, else from the checkpoint; None for pixels of 0 to 255."""
    facts = {name: checkpoint.attributes[name] for name in NORMALISATION if name in checkpoint.attributes}
    for name, value in facts.items():
        if type(value) not in (int, float) or not is_normalising(name, value):
            raise CheckpointError(
                f"{request.checkpoint}: its {name} is {excerpt(value)}, which cannot normalise pixels"
            )
    asked = {name: getattr(request, name) for name in NORMALISATION if getattr(request, name) is not None}
    found = Normalisation(**{name: float(value) for name, value in {**facts, **asked}.items()})
    return found if found != Normalisation() else None


def expected(request: Request, source: str, n: int) -> Optional[float]:
    """Return the known correctness on the first n images of a data source; None if unknown."""
    if request.checkpoint or (request.weights == "original" and source != dataset.REAL):
        return None
    chosen = zoo.chosen(request.model, request.edition)
    if request.input_size not in (None, editions.get(chosen.edition).input_size):
        return None
    return dict(chosen.expected.get(source, ())).get(n)


def _checkpoint(request: Request) -> Tuple[str, Checkpoint]:
    if request.checkpoint:
        return str(request.checkpoint), load_checkpoint(request.checkpoint, request.epoch, request.trust_symbol)
    chosen = zoo.chosen(request.model, request.edition)
    label = chosen.short_name if request.edition else chosen.name  # the course's scripts use the short names
    return label, originals.load(chosen.name) if request.weights == "original" else chosen.load()
