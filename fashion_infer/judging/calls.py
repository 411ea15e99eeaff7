"""What a judge asks of a call, and what the call returns; the callers are in `callers`."""

from typing import Any, Dict, NamedTuple, Optional, Tuple

import numpy as np

from ..library import plugin_abi
from .inputs import Inputs


class Conditions(NamedTuple):
    """The conditions of one call. A caller ignores those that it cannot set (see `Caller.can`)."""

    threads: Optional[int] = None  # number of OpenMP threads; None for one per processor
    interrupted: bool = False  # whether threads are interrupted at random, which makes lost updates likely
    moved: bool = False  # whether the tensors lie at other addresses than in the calls before
    guarded: bool = False  # whether each tensor ends at the end of its own allocation (CPU: at a page that faults)
    examine: bool = False  # whether the adapter looks for work outside of Op Time, which takes several times as long
    # What memory holds before the call: "nan" (told apart by payload) or "number" (finite), for the output, for the
    # guard zones, and for memory that the file allocates itself ("any": whatever it holds).
    output: str = "nan"
    guard: str = "nan"
    own: str = "any"

    @property
    def asked(self) -> int:
        """`examine` of fashion_ops_plugin.h. What a GPU file allocates is always filled: else it varies."""
        own = plugin_abi.OWN_NUMBER if self.own == "number" else plugin_abi.OWN_NAN
        output = plugin_abi.OUTPUT_NUMBER if self.output == "number" else 0
        return own | output | (plugin_abi.EXAMINE if self.examine else 0)


USUAL = Conditions()


class Called(NamedTuple):
    output: np.ndarray  # (B,M,H-K+1,W-K+1) float32; the next call may overwrite it
    stray: str = ""  # code of a write outside the tensors or after the return: a key of `reasons`
    inputs_changed: bool = False
    findings: int = 0  # FOPS_FOUND_* bits of the adapter
    seconds: float = 0.0  # Op Time
    layer_seconds: float = 0.0  # prolog, forward and epilog; 0 for a format without phases


class Failed(Exception):
    """A call that did not complete. `code` and `details` are as in `Cause`."""

    def __init__(self, code: str, **details: Any):
        super().__init__(code)
        self.code, self.details = code, details


class Caller:
    """Calls one kernel. It decides nothing.

    `can` names the fields of `Conditions` that this caller sets.
    """

    backend = "cpu"
    parallel = False  # whether the kernel may run threads: always on a GPU
    zeroed = False  # whether the format's output holds zeros, not NaN, before a call
    can: Tuple[str, ...] = ()

    def call(self, inputs: Inputs, conditions: Conditions = USUAL) -> Called:
        """Call the kernel once; raise `Failed` if the call does not complete."""
        raise NotImplementedError


class Cause(NamedTuple):
    """Why a shape is incorrect: a code of `reasons.TABLE`, and what its sentence is filled with."""

    code: str
    details: Dict[str, Any] = {}  # noqa: RUF012  # never changed
