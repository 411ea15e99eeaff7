"""The request for a report, and the command lines that measure the report's parts again."""

import shlex
from dataclasses import dataclass
from typing import List

from ..request import Request, option


@dataclass(frozen=True)
class ReportRequest(Request):
    """The options of a report. Its operator mode runs the kernel, and its ladder times it."""

    device: int = option(0, "Index of the GPU.")
    quick: bool = option(False, "Measure with fewer repeats and smaller batches, and check at most two models.")

    def command(self, out: str) -> str:
        words = ["fashion-infer", "report", "--out", out, "--backend", self.backend]
        words += ["--model", self.model] if self.model else []
        words += ["--n", str(self.n)] if self.n is not None else []
        words += self.kernel_options()
        return shlex.join([*words, *self._device(), *(["--quick"] if self.quick else []), *self._where()])

    def run_command(self, model: str, n: int, backend: str, mode: str, repeat: int, *more: str) -> str:
        words = ["fashion-infer", "run", "--model", model, "--n", str(n), "--backend", backend, "--mode", mode]
        device = self._device() if backend == "gpu" else []
        return shlex.join([*words, *device, *(["--repeat", str(repeat)] if repeat > 1 else []), *self._where(), *more])

    def verify_command(self, models: List[str]) -> str:
        """Return the command line that repeats the checks of these models; of all models if the list is empty."""
        words = ["fashion-infer", "verify", *(word for name in models for word in ("--model", name))]
        return shlex.join([*words, "--backend", self.backend, *self._device(), *self._where()])

    def explain_command(self, edition: str) -> str:
        words = ["fashion-infer", "kernel", "explain", str(self.kernel), *self.kernel_options()[2:]]
        return shlex.join([*words, "--edition", edition, *self._device()])

    def kernel_options(self) -> List[str]:
        words = [] if self.kernel == "auto" else ["--kernel", str(self.kernel)]
        return [*words, *(["--format", self.kernel_format] if self.kernel_format else [])]

    def _where(self) -> List[str]:
        words = ["--data", self.data] if self.data else []
        return [*words, *(["--data-dir", str(self.data_dir)] if self.data_dir else [])]

    def _device(self) -> List[str]:
        return ["--device", str(self.device)] if self.device else []
