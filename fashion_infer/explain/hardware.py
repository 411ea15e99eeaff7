"""Explains why a GPU kernel is slow, from ncu's tables, the launch configuration, and the work that the layer needs.

Every figure is a count: executed instructions, launched threads, moved bytes. The share of a finding is an estimate of
the fraction of the kernel's time that the finding costs. Findings are ordered by this share.
"""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..kernel_files import neighbours
from .findings import KernelFinding, at_line

WARP = 32
_RESTAGED = 0.45  # share for a kernel that stages each image for each filter, from the gain of step 5 of the ladder
_LOOPS = 0.5  # factor of the share for a missing unrolling: loop instructions partly overlap with others
_DIVISION = 18  # number of instructions of a 32-bit integer division; one of them is the reciprocal
REMEDIES: Dict[str, Tuple[str, str]] = {  # code: (remedy, step of the ladder)
    "sum_in_global_memory": ("add up in a register and store once", "register-accumulate"),
    "no_reuse": ("stage the tile of the image and the weights in shared memory", "shared-tile"),
    "idle_threads": ("map the block's threads in a line onto the outputs", "linear-block"),
    "restaged_input": ("stage an image once and compute all filters from it", "image-grid"),
    "loop_overhead": ("make K a template parameter and unroll the loops over the taps", "unrolled"),
    "two_reads_per_product": ("make the sizes constants, so that a window stays in registers", "compile-time"),
    "reads_per_product": ("give a thread several outputs and filters: a read serves them all", "register-tile"),
    "weights_in_shared": ("put the weights in constant memory, which a product reads at no cost", "constant-weights"),
    "unrolled_in_memory": ("gather the matrix's tiles from the image in place of storing it", "implicit-gemm"),
    "address_arithmetic": ("compute addresses once a row: several neighbouring outputs a thread", "register-tile"),
    "float32_pipes": ("use the tensor cores on split operands", "tensor-core"),
    "integer_division": ("take / and % out of the inner loop: count rows and columns along", "unrolled"),
    "uncoalesced_reads": ("let neighbouring threads read neighbouring columns", "linear-block"),
    "uncoalesced_writes": ("let neighbouring threads write neighbouring columns", "linear-block"),
    "bank_conflicts": ("pad the row in shared memory by one float, or index so that neighbours read neighbours", ""),
    "too_many_registers": ("compute fewer outputs a thread, or bound the registers with __launch_bounds__", ""),
    "spills": ("keep arrays' indices constants and fewer values alive, so that all stay in registers", ""),
    "small_grid": ("make more blocks: one an image, or an image and filter, or smaller tiles", "image-grid"),
    "tail": ("choose the blocks' size so that the last wave is full, or let resident blocks walk over the tasks", ""),
    "atomics": ("let one thread own an output and sum over the channels itself", "register-accumulate"),
    "allocation_in_call": ("allocate before the timed call", ""),
    "copies_in_call": ("keep the tensors on the device; copy before the timed call", ""),
    "synchronisation_in_call": ("queue the kernels and synchronise once at the end", ""),
}


class Layer(NamedTuple):
    """The sizes of a convolution that a kernel was called with."""

    images: int
    channels: int
    side: int
    filters: int
    taps: int

    @property
    def outputs(self) -> int:
        """Number of elements of the output."""
        return self.images * self.filters * (self.side - self.taps + 1) ** 2

    @property
    def products(self) -> int:
        """Number of multiply-adds in the definition of the convolution."""
        return self.outputs * self.channels * self.taps**2

    @property
    def inputs(self) -> int:
        """Number of elements of the input."""
        return self.images * self.channels * self.side**2

    @property
    def weights(self) -> int:
        """Number of elements of the weights."""
        return self.filters * self.channels * self.taps**2


class Instructions:
    """A kernel's instructions with their counters, which can be selected by operation and by source line."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], path: Path):
        self.rows, self._name = rows, path.name

    def of(self, pattern: str) -> List[Mapping[str, Any]]:
        """Return the instructions whose operation matches a pattern."""
        return [row for row in self.rows if re.search(rf"(?:^|\s){pattern}", _operation(row))]

    def warps(self, rows: Optional[Sequence[Mapping[str, Any]]] = None) -> float:
        """Count the executions of instructions by warps; without `rows`, of all instructions."""
        return sum(row.get("inst_executed", 0.0) for row in (self.rows if rows is None else rows))

    def threads(self, rows: Sequence[Mapping[str, Any]]) -> float:
        """Count the executions of instructions by threads."""
        return sum(row.get("thread_inst_executed", WARP * row.get("inst_executed", 0.0)) for row in rows)

    def total(self, rows: Sequence[Mapping[str, Any]], metric: str) -> float:
        """Return the sum of a metric over instructions."""
        return sum(row.get(metric, 0.0) for row in rows)

    def samples(self, rows: Optional[Sequence[Mapping[str, Any]]] = None, reasons: str = ".*") -> float:
        """Count the warp samples at instructions, by default at all; `reasons` is a pattern of stall reasons."""
        name = re.compile(rf"smsp__pcsamp_warps_issue_stalled_(?:{reasons})$")
        return sum(
            value
            for row in (self.rows if rows is None else rows)
            for key, value in row.items()
            if name.match(key) and isinstance(value, (int, float)) and not key.endswith("_not_issued")
        )

    def line(self, rows: Sequence[Mapping[str, Any]], weight: Callable[[Mapping[str, Any]], float]) -> Optional[int]:
        """Return the line of the user's file with the largest sum of weights."""
        lines: Dict[int, float] = {}
        for row in rows:
            if row.get("file") and Path(row["file"]).name == self._name and row.get("line"):
                lines[row["line"]] = lines.get(row["line"], 0.0) + weight(row)
        return max(lines, key=lambda line: lines[line]) if lines else None


def _operation(row: Mapping[str, Any]) -> str:
    return re.sub(r"^\s*@!?U?P\w+\s+", "", str(row.get("sass", "")))


def _executed(row: Mapping[str, Any]) -> float:
    return float(row.get("inst_executed", 0.0))


class _Found:
    """Collects findings on a user's file."""

    def __init__(self, path: Path, kernel: str = "", gains: Optional[Mapping[str, float]] = None):
        self._path, self._kernel, self._gains = path, kernel, gains or {}
        self.lines = neighbours.text_of(path).splitlines()
        self.all: List[KernelFinding] = []

    def add(self, code: str, share: float, what: str, line: Optional[int], **evidence: Any) -> None:
        """Add a finding. `share` is limited to 0 to 0.99."""
        remedy, step = REMEDIES[code]
        share, gain = max(0.0, min(0.99, share)), self._gains.get(step)
        evidence["kernel"] = self._kernel
        self.all.append(at_line(self._path, line, code, what, remedy, evidence, share, step or None, gain))

    def has(self, code: str) -> bool:
        """Return whether there is a finding with a code."""
        return any(one.code == code for one in self.all)


class _KernelCounts:
    """Counts of one kernel that several rules use."""

    def __init__(self, kernel: Mapping[str, Any], path: Path, layer: Layer):
        self.metrics, self.layer = kernel["metrics"], layer
        self.code = code = Instructions(kernel["instructions"], path)
        self.rules = {
            rule.get("rule_identifier", ""): rule.get("speedup_estimation") for rule in kernel.get("rules", ())
        }
        self.reads, self.writes, self.shared_reads = code.of(r"LDG"), code.of(r"STG"), code.of(r"LDS")
        self.divisions = code.of(r"MUFU\.RCP")
        # Executions by warps: of all instructions, and of multiply-adds.
        self.instructions = code.warps() or 1.0
        self.products = code.warps(code.of(r"(FFMA|FMUL|HMMA|HFMA2)")) or 1.0
        self.dividing = _DIVISION * code.warps(self.divisions) / self.instructions
        self.samples = code.samples() or 1.0
        # Fraction of the samples in which a warp waits for global memory or a barrier.
        self.waiting = self.waits_for("long_scoreboard|lg_throttle|drain|membar|barrier")

    def waits_for(self, reasons: str) -> float:
        """Return the fraction of the samples whose stall reason matches a pattern."""
        return self.code.samples(reasons=reasons) / self.samples


def findings(
    tables: Mapping[str, Any], path: Path, layer: Layer, gains: Optional[Mapping[str, float]] = None
) -> List[KernelFinding]:
    """Return findings from ncu's tables (`ncu_tables`) of the kernels of one call, largest share first."""
    kernels = [kernel for kernel in tables["kernels"] if kernel["metrics"].get("gpu__time_duration.sum")]
    whole = sum(kernel["metrics"]["gpu__time_duration.sum"] for kernel in kernels) or 1.0
    found: List[KernelFinding] = []
    for kernel in kernels:
        weight = kernel["metrics"]["gpu__time_duration.sum"] / whole
        if weight < 0.05:
            continue
        of_kernel, counts = _Found(path, kernel["name"], gains), _KernelCounts(kernel, path, layer)
        for rule in _LAUNCH_RULES + (_INSTRUCTION_RULES if kernel["instructions"] else ()):
            rule(of_kernel, counts)
        found += [replace(one, share=(one.share or 0.0) * weight) for one in of_kernel.all]
    best: Dict[str, KernelFinding] = {}
    for finding in sorted(found, key=lambda one: -(one.share or 0.0)):
        best.setdefault(finding.code, finding)
    return list(best.values())


def _idle_threads(found: _Found, counts: _KernelCounts) -> None:
    m, outputs = counts.metrics, counts.layer.outputs
    blocks, threads = m.get("launch__grid_size", 0.0), m.get("launch__block_size", 0.0)
    idle = 1 - outputs / (blocks * threads) if blocks * threads else 0.0
    lanes = m.get("smsp__thread_inst_executed_per_inst_executed.ratio", float(WARP)) / WARP
    if idle > 0.2 and lanes < 0.99:  # whole idle warps cost nothing
        found.add(
            "idle_threads",
            0.3 + idle / 2,
            f"{blocks:,.0f} blocks of {threads:,.0f} threads for {outputs:,} outputs: "
            f"{idle:.0%} of the threads compute nothing",
            _launch(found),
            threads=blocks * threads,
            outputs=outputs,
            lanes=lanes,
        )
    elif lanes < 0.6:
        what = f"{1 - lanes:.0%} of a warp's lanes are idle on average"
        found.add("idle_threads", 1 - lanes, what, _launch(found), lanes=lanes)


def _small_grid(found: _Found, counts: _KernelCounts) -> None:
    m = counts.metrics
    blocks = m.get("launch__grid_size", 0.0)
    sms = m.get("device__attribute_multiprocessor_count", 0.0) or m.get("launch__sm_count", 0.0)
    if sms and blocks and blocks < sms:
        found.add(
            "small_grid",
            0.6 + 0.4 * (1 - blocks / sms),
            f"{blocks:,.0f} blocks leave {sms - blocks:,.0f} of {sms:,.0f} SMs idle",
            _launch(found),
            blocks=blocks,
            multiprocessors=sms,
        )


def _tail(found: _Found, counts: _KernelCounts) -> None:
    waves = counts.metrics.get("launch__waves_per_multiprocessor", 0.0)
    last = math.ceil(waves) - waves
    if 1 < waves < 6 and last > 0.1:
        what = f"{waves:.2f} waves of blocks: the last one fills {1 - last:.0%} of the GPU"
        found.add("tail", last / math.ceil(waves), what, _launch(found), waves=waves)


def _launch(found: _Found) -> Optional[int]:
    """Return the line of the first launch of a kernel."""
    return next((number for number, line in enumerate(found.lines, 1) if "<<<" in line), None)


def _stores(found: _Found, counts: _KernelCounts) -> None:
    """Many more stores than outputs mean that sums are in global memory, up to a store per product, or a matrix."""
    code, layer = counts.code, counts.layer
    stores = code.threads(counts.writes)
    evidence = {"stores": stores, "outputs": layer.outputs, "rules": counts.rules}
    line = code.line(counts.writes, _executed)
    if stores > 4 * layer.outputs and layer.products >= 8 * layer.outputs:
        if code.threads(counts.reads) > 2 * stores:
            share = 0.9 * (1 - layer.outputs / stores)
            what = f"{stores:,.0f} stores for {layer.outputs:,} outputs: the sum is kept in global memory"
            found.add("sum_in_global_memory", share, what, line, **evidence)
        elif stores > 1.5 * layer.inputs:
            what = f"{4 * stores:,.0f} bytes are stored for {4 * layer.outputs:,} bytes of output"
            found.add("unrolled_in_memory", 0.85, what, line, **evidence)
    elif stores > 4 * layer.inputs and not code.of(r"(FFMA|HMMA)"):
        what = f"{stores:,.0f} stores and no product: the input is written out as a matrix"
        found.add("unrolled_in_memory", 0.99, what, line, **evidence)


def _atomics(found: _Found, counts: _KernelCounts) -> None:
    code, outputs = counts.code, counts.layer.outputs
    rows = code.of(r"(RED|ATOM(?!S))")
    additions = code.threads(rows)
    if additions > 0.5 * outputs:
        share = 0.3 + 0.7 * max(0.5, code.samples(rows) / counts.samples)
        what = f"{additions:,.0f} atomic additions for {outputs:,} outputs"
        found.add("atomics", share, what, code.line(rows, _executed), additions=additions, outputs=outputs)


def _uncoalesced(found: _Found, counts: _KernelCounts) -> None:
    """Uncoalesced accesses touch more memory sectors than the accessed bytes would fill."""
    code, metric = counts.code, "memory_l2_theoretical_sectors_global"
    moved = code.total([*counts.reads, *counts.writes], metric) or 1.0
    for name, rows, verb in (
        ("uncoalesced_reads", counts.reads, "reads"),
        ("uncoalesced_writes", counts.writes, "writes"),
    ):
        sectors = code.total(rows, metric)
        excess = sectors - code.total(rows, f"{metric}_ideal")
        if sectors and excess > 0.5 * sectors and excess > 0.2 * moved:
            found.add(
                name,
                (excess / moved) * max(counts.waiting, 0.6),
                f"{excess / sectors:.0%} of the 32-byte sectors that it {verb} hold nothing that the warp needs",
                code.line(rows, _excess(metric)),
                sectors=sectors,
                excess=excess,
                waiting=counts.waiting,
                rules=counts.rules,
            )


def _bank_conflicts(found: _Found, counts: _KernelCounts) -> None:
    code, metric = counts.code, "memory_l1_wavefronts_shared"
    rows = [*counts.shared_reads, *code.of(r"STS")]
    wavefronts = code.total(rows, metric)
    excess = wavefronts - code.total(rows, f"{metric}_ideal")
    if wavefronts and excess > 0.4 * wavefronts:
        waiting = counts.waits_for("mio_throttle|short_scoreboard|barrier")
        found.add(
            "bank_conflicts",
            excess / wavefronts * max(waiting, 0.5),
            f"{excess / wavefronts:.0%} of the passes through shared memory are bank conflicts",
            code.line(rows, _excess(metric)),
            wavefronts=wavefronts,
            excess=excess,
            waiting=waiting,
            rules=counts.rules,
        )


def _excess(metric: str) -> Callable[[Mapping[str, Any]], float]:
    """Return a function that gives an instruction's excess of a metric over its ideal value."""
    return lambda row: row.get(metric, 0.0) - row.get(f"{metric}_ideal", 0.0)


def _spills(found: _Found, counts: _KernelCounts) -> None:
    code = counts.code
    rows = [*code.of(r"LDL"), *code.of(r"STL")]
    local = code.warps(rows)
    part = local / counts.instructions
    if part > 0.02:
        share = max(part * 2, code.samples(rows) / counts.samples, 0.5)
        what = f"{part:.0%} of the instructions move registers to and from memory"
        line = code.line(rows, _executed)
        found.add("spills", share, what, line, local=local, instructions=counts.instructions)


def _registers(found: _Found, counts: _KernelCounts) -> None:
    m = counts.metrics
    registers = m.get("launch__registers_per_thread", 0.0)
    limit = m.get("launch__occupancy_limit_registers")
    others = [m.get(f"launch__occupancy_limit_{name}") for name in ("blocks", "shared_mem", "warps")]
    others = [one for one in others if one is not None]
    warps = m.get("sm__warps_active.avg.pct_of_peak_sustained_active", 100.0)
    if registers > 96 and limit is not None and others and limit <= min(others) and warps < 35:
        found.add(
            "too_many_registers",
            0.9 * (1 - warps / 100) * max(counts.waiting, 0.7),
            f"{registers:.0f} registers per thread leave room for {limit:.0f} blocks per SM: {warps:.0f}% of its warps",
            None,
            registers=registers,
            blocks=limit,
            warps=warps,
        )


def _divisions(found: _Found, counts: _KernelCounts) -> None:
    executed = counts.code.warps(counts.divisions)
    if counts.dividing > 0.2 or executed > 0.3 * counts.products:
        found.add(
            "integer_division",
            min(0.95, max(counts.dividing, 0.55)),  # most instructions of a division wait for the previous one
            f"{executed / counts.products:.1f} divisions or remainders a multiply-add",
            counts.code.line(counts.divisions, _executed),
            divisions=executed,
            instructions=counts.instructions,
        )


def _repeated_reads(found: _Found, counts: _KernelCounts) -> None:
    """Values are read from global memory for each product, or staged in shared memory several times."""
    code, layer = counts.code, counts.layer
    read, needed = code.threads(counts.reads), layer.inputs + layer.weights
    per_product = code.warps(counts.reads) / counts.products
    line = code.line(counts.reads, _executed)
    if per_product > 0.5 and not code.warps(counts.shared_reads):
        share = min(0.8, 0.3 + 0.1 * per_product)
        what = f"{per_product:.1f} reads of global memory a multiply-add: no value is used twice"
        found.add("no_reuse", share, what, line, reads=read, products=layer.products, needed=needed)
    elif read > 3 * needed and code.warps(counts.shared_reads):
        staging = code.samples(counts.reads) + code.samples(code.of(r"(STS|BAR)"))
        share = max(staging / counts.samples, code.warps(counts.reads) / counts.instructions * 4)
        if found.has("uncoalesced_reads"):
            share /= 2  # that finding already counts part of the cost of these reads
        # Each repeated staging also costs barriers and the start of a block, which these samples do not include.
        share = min(0.8, max(share + 0.15, _RESTAGED if read > 8 * needed else 0.0))
        what = f"{read / needed:.0f} times the image and weights are read from global memory"
        found.add("restaged_input", share, what, line, reads=read, needed=needed)


def _overhead(found: _Found, counts: _KernelCounts) -> None:
    """Instructions other than multiply-adds, loads, stores and divisions."""
    code = counts.code
    arithmetic = code.warps(code.of(r"(FFMA|FMUL|FADD|LDS|LDG|LDC|LDGSTS|STG|STS)"))
    other = max(0.0, 1 - arithmetic / counts.instructions - counts.dividing)
    loops = code.warps(code.of(r"(BRA|ISETP)")) / counts.products
    if loops > 0.3 and other > 0.1:
        what = f"{other:.0%} of the instructions are loop counters, branches and addresses"
        found.add("loop_overhead", _LOOPS * min(0.7, other), what, _hot(code), other=other, branches=loops)
    elif other > 0.35:
        what = f"{other:.0%} of the instructions compute addresses"
        found.add("address_arithmetic", other, what, _hot(code), other=other)


def _reads_per_product(found: _Found, counts: _KernelCounts) -> None:
    code, reads = counts.code, counts.shared_reads
    shared, from_global = code.warps(reads) / counts.products, code.warps(counts.reads) / counts.products
    each, line = max(shared, from_global), code.line(reads, _executed)
    what = f"{shared:.1f} reads of shared memory a multiply-add"
    if shared > 1.2:
        found.add("two_reads_per_product", min(0.6, shared / (shared + 2)), what, line, reads=shared)
    elif shared > 0.6:
        what += ", of weights that all threads share"
        found.add("weights_in_shared", min(0.5, shared / (shared + 1)), what, line, reads=shared)
    elif shared > 0.2 or (from_global > 0.2 and not found.has("no_reuse")):
        line = code.line([*reads, *counts.reads], _executed)
        found.add(
            "reads_per_product", min(0.5, each / (each + 1)), f"{each:.2f} reads a multiply-add", line, reads=each
        )


def _float32_pipes(found: _Found, counts: _KernelCounts) -> None:
    executed = counts.code.warps(counts.code.of(r"FFMA")) / counts.instructions
    if executed > 0.5:
        what = f"{executed:.0%} of the instructions are multiply-adds already"
        found.add("float32_pipes", 0.3 * executed, what, _hot(counts.code), multiply_adds=executed)


def _per_product(found: _Found, counts: _KernelCounts) -> None:
    """Add findings on the instructions per multiply-add, unless the tensor cores multiply."""
    if not counts.code.of(r"(HMMA|HGMMA|WGMMA)"):
        for rule in (_overhead, _reads_per_product, _float32_pipes):
            rule(found, counts)


def _hot(code: Instructions) -> Optional[int]:
    """Return the line with the most multiply-adds."""
    return code.line(code.of(r"FFMA"), _executed)


# Rules that need only the launch and the metrics of the whole kernel, and rules that need each instruction's counters.
# A rule may depend on the findings of the rules before it.
_LAUNCH_RULES = (_idle_threads, _small_grid, _tail)
_INSTRUCTION_RULES = (_stores, _atomics, _uncoalesced, _bank_conflicts, _spills, _registers, _divisions,
                      _repeated_reads, _per_product)  # fmt: skip


_OUTSIDE = (
    ("allocation_in_call", r"\bcuda(?:Malloc|Free)\w*\s*\("),
    ("copies_in_call", r"\bcuda(?:Memcpy)\w*\s*\("),
    ("synchronisation_in_call", r"\bcuda(?:Device|Stream)Synchronize\s*\("),
)


def outside(call: Mapping[str, Any], kernel_ns: float, path: Path, host_memory: bool = False) -> List[KernelFinding]:
    """Return findings on the time of a call that is spent outside of its kernels.

    Parameters
    ----------
    call
        The output of `device_call`.
    kernel_ns
        Time of the kernels according to ncu, in ns, used if CUPTI recorded none; 0 if unknown.
    path
        The user's file.
    host_memory
        Whether the format passes host tensors. The kernel must then copy and allocate, so nothing is reported.
    """
    records = call.get("records", [])
    kernels = sum(record["ns"] for record in records if record["kind"] == "kernel") or kernel_ns
    seconds = min(call.get("seconds") or [0.0])
    if not kernels or not seconds or host_memory:
        return []
    share = 1 - kernels * 1e-9 / seconds
    if share < 0.2 or seconds - kernels * 1e-9 < 50e-6:
        return []
    found = _Found(path)
    for code, pattern in _OUTSIDE:
        lines = [number for number, row in enumerate(found.lines, 1) if re.search(pattern, row.split("//")[0])]
        times: Dict[str, float] = {}
        for record in records:
            if record["kind"] == "call" and re.match(pattern.replace(r"\s*\(", "").replace(r"\b", ""), record["name"]):
                times[record["name"]] = times.get(record["name"], 0.0) + record["ns"]
        if not lines or (records and not times):
            continue
        own = min(share, sum(times.values()) * 1e-9 / seconds) if times else share
        if code == "synchronisation_in_call":
            own = min(own, 0.1)  # most of a synchronisation waits for the kernels
        found.add(
            code,
            own,
            f"{share:.0%} of the call passes outside of its kernels: "
            + ", ".join(sorted(times) or [found.lines[lines[0] - 1].strip()]),
            lines[0],
            seconds=seconds,
            kernel_seconds=kernels * 1e-9,
            calls=times,
        )
    return sorted(found.all, key=lambda one: -(one.share or 0.0))
