"""`bench conv`: checks every kernel on every convolution of the chosen editions, then times it along with peers."""

from typing import Any, Dict, List, Union

from ..errors import DeviceError
from ..graph.layers import ConvolutionShape
from ..judging.verdict import ShapeVerdict
from ..kernel_files import paths
from ..kernel_files.loading import LoadedKernel, load, names_of_loaded
from ..library import kernels as library
from . import checking, layers, peers, user_kernels
from .protocol import Benchmark, Trial
from .records import CONVOLUTIONS, COPY, DEVICE, FILL, LIMIT, MEMORY, OURS, BenchCase, Measurement
from .timing import Contender

_LIMITS = {FILL: "writing the output", COPY: "copying the output"}


class Convolutions(Benchmark):
    """Benchmark of library kernels and kernel files on the convolutions of editions or of a set of layers."""

    name = CONVOLUTIONS
    peers = peers.CONVOLUTION

    def check(self) -> None:
        request = self.request
        self._layers = layers.of_set(request.layers) if request.layers else layers.of_editions(request.editions)
        self._kernels = self._chosen()
        self._verdicts: Dict[str, Dict[ConvolutionShape, ShapeVerdict]] = {}

    def cases(self) -> List[BenchCase]:
        usual_batch, usual_repeat = self.machine.convolution_defaults
        self._batch = self.request.batches[0] if self.request.batches else None
        if self._batch is None and not self.request.layers:
            self._batch = usual_batch
        self.request = self.request._replace(repeat=self.request.repeat or usual_repeat)
        where = MEMORY if self.machine.backend == "cpu" else DEVICE
        shapes = [one.shape._replace(B=self._batch or one.batch(self.machine.backend)) for one in self._layers]
        return [
            BenchCase(layer.edition, where, shape.B, 0, [], layer.number, shape)
            for layer, shape in zip(self._layers, shapes)
        ]

    def options(self) -> Dict[str, Any]:
        request = self.request
        return {
            "edition": () if request.layers else request.editions,
            "layers": request.layers,
            "kernels": request.kernels,
            "format": request.formats,
            "against": request.against,
            "batch": self._batch,
            "repeat": request.repeat,
            "warmup": request.warmup if request.warmup > 1 else None,
        }

    def prepare(self, case: BenchCase, index: int) -> Trial:
        shape = case.shape
        assert shape is not None
        self.machine.check_convolution(shape)
        x, weight = checking.inputs(shape, first=shape.C in layers.IMAGE_CHANNELS)
        work = self.machine.convolution(x, weight, shape.output)
        self._x, self._weight = x, weight
        case.checked, case.auto = case.batch, library.chosen_kernel(x.shape, weight.shape, self.machine.backend)
        limits = work.limits()
        timed = [limit for limit, _ in limits]
        names = dict.fromkeys(limit.name for limit in timed)
        case.rows += [Measurement(name, LIMIT, summary=_LIMITS[name]) for name in names]
        table = {info.name: info for info in library.table(self.machine.backend)}
        steps = library.steps(self.machine.backend)
        for name in dict.fromkeys(case.auto if name == "auto" else name for name in self._kernels):
            if isinstance(name, LoadedKernel):
                row = user_kernels.row_of(name)
                if name.name not in self._verdicts:  # all layers at once, because this process runs them all
                    self._verdicts[name.name] = user_kernels.judged(name, [one.shape for one in self._layers])
                alone = self._verdicts[name.name].get(shape._replace(B=1))
                contender = user_kernels.contender_if_correct(self.machine.backend, work, row, name, alone, x, weight)
            else:
                row = Measurement(name, OURS, steps.get(name), table[name].summary, table[name].precision)
                contender = checking.contender_if_correct(self.machine.backend, work, row, x, weight)
            case.rows.append(row)
            timed += [contender] if contender else []
        return Trial(work, timed, {limit.name: moved for limit, moved in limits})

    def judge_peer(self, case: BenchCase, row: Measurement, contender: Contender, output: Any) -> None:
        assert contender.sample is not None
        checking.judged(row, contender, output, self._x, self._weight, "incorrect")

    def _chosen(self) -> List[Union[str, LoadedKernel]]:
        backend = self.request.backend
        words = [word.strip() for word in self.request.kernels.split(",")]
        files = iter(self.request.files)
        loaded = names_of_loaded()  # the library's table also contains the kernel files that were loaded earlier
        ladder = [
            kernel.name
            for kernel in library.table(backend)
            if kernel.precision and kernel.name not in loaded and not paths.is_variant(kernel.name)
        ]
        names: List[Union[str, LoadedKernel]] = []
        for name in words:
            if paths.is_path(name):
                names.append(load(next(files), device=self.request.device))
            elif name in ("all", "ladder"):
                if not ladder:
                    raise DeviceError(
                        "the operator library was built without CUDA: rebuild it with `make setup BACKEND=gpu`"
                    )
                names += ladder
            else:
                library.check_kernel(name, backend)
                names.append(name)
        return names
