"""A network on several GPUs of one host: images are split between them, results are in the order of the images."""

from typing import Callable, List, Optional, Sequence, Tuple

import numpy as np

from .._mxnet import lock as mxnet_lock
from ..library import op_times
from ..system.sharing import share
from .layer_times import LayerTime, of_slowest_devices
from .predictor import Predictor

# Nodes of the network on device i are numbered from i * NODES, so that a record's number identifies the device.
NODES = 1 << 20


class SpreadPredictor:
    """The same network on several devices, as one predictor. Predictor i numbers its nodes from i * NODES.

    The batch size depends on `count`, the images per call of `predict`, so all devices have work even for few images.
    """

    def __init__(self, predictors: Sequence[Predictor], count: int):
        self._predictors = predictors
        self.custom_layers = predictors[0].custom_layers
        self.batch_size = min(predictors[0].batch_size, -(-count // len(predictors)))

    @property
    def classes(self) -> int:
        return self._predictors[0].classes

    def predict(
        self, images: np.ndarray, each: Optional[Callable[[int, int], None]] = None
    ) -> Tuple[np.ndarray, List[LayerTime]]:
        """Run the network, as `Predictor.predict`. A layer's time is that of its slowest device."""
        size = self.batch_size
        parts = [slice(first, min(first + size, len(images))) for first in range(0, len(images), size)]
        scores = [np.empty(0)] * len(parts)
        workers = [(predictor, predictor.stopwatch()) for predictor in self._predictors]

        def work(worker, index):
            predictor, watch = worker
            scores[index] = predictor.forward(images[parts[index]], watch)
            if each is not None:
                each(parts[index].start, len(scores[index]))

        with mxnet_lock:  # held for the threads of `share` too; `warm` has set everything up before
            for predictor in self._predictors:
                for count in {part.stop - part.start for part in parts}:
                    predictor.warm(images[:count])
            op_times.drain()
            share(workers, range(len(parts)), work)
            records = op_times.drain()
        times = of_slowest_devices([predictor.times(records, watch) for predictor, watch in workers])
        return np.concatenate(scores), times
