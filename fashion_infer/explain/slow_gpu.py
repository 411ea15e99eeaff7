"""Explains why a GPU kernel is slow, from ncu's tables, the launch configuration, and the work that the layer needs.

Every figure is a count: executed instructions, launched threads, moved bytes. The share of a finding is an estimate of
the fraction of the Op Time that the finding costs. Findings are ordered by this share.
"""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..graph.layers import ConvolutionShape
from ..kernel_files import neighbours
from ..kernel_files.formats import KernelFormat
from ..system import installation
from . import source
from .findings import FAR, KernelFinding, at_line, by_share, exclusive, plain_name, timed
from .ncu import LAUNCHES

WARP = 32
_PRODUCTS = r"([DF]FMA|[DF]MUL|[DH]MMA|HFMA2)"
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
    "passes_over_memory": ("keep what several outputs need in shared memory or registers; write outputs once", ""),
    "double": ("use float throughout, and literals such as 0.0f", ""),
    "few_warps": ("launch more threads per SM: smaller blocks, fewer registers, less shared memory", ""),
}
_REGISTERS = 1 << 16  # registers per SM, from compute capability 7.0 on; allocated in units of 8 per thread
_HITS = 80  # percentage of the reads of global memory that the L1 cache serves
_WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"
_OUTSIDE_KERNELS, _NOTICED = 0.2, 50e-6  # least fraction of a call, and seconds, outside of kernels for a finding


def _executed(row: Mapping[str, Any]) -> float:
    return float(row.get("inst_executed", 0.0))


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
        return sum(row.get("thread_inst_executed", WARP * row.get("inst_executed", 0.0)) for row in rows)

    def total(self, rows: Sequence[Mapping[str, Any]], metric: str) -> float:
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

    def line(
        self, rows: Sequence[Mapping[str, Any]], weight: Callable[[Mapping[str, Any]], float] = _executed
    ) -> Optional[int]:
        """Return the line of the user's file with the largest sum of weights; by default, of executions by warps."""
        lines: Dict[int, float] = {}
        for row in rows:
            if row.get("file") and Path(row["file"]).name == self._name and row.get("line"):
                lines[row["line"]] = lines.get(row["line"], 0.0) + weight(row)
        return max(lines, key=lambda line: lines[line]) if lines else None


def _operation(row: Mapping[str, Any]) -> str:
    return re.sub(r"^\s*@!?U?P\w+\s+", "", str(row.get("sass", "")))


class _Found:
    """Collects findings on a user's file."""

    def __init__(self, path: Path, kernel: str = "", gains: Optional[Mapping[str, float]] = None):
        self._path, self.kernel, self._gains = path, kernel, gains or {}
        self.code = source.without_comments(neighbours.text_of(path))
        self.all: List[KernelFinding] = []

    def add(self, code: str, share: float, what: str, line: Optional[int], **evidence: Any) -> None:
        """Add a finding. `share` is limited to 0 to 0.99."""
        remedy, step = REMEDIES[code]
        share, gain = max(0.0, min(0.99, share)), self._gains.get(step)
        evidence["kernel"] = self.kernel
        self.all.append(at_line(self._path, line, code, what, remedy, evidence, share, step or None, gain))

    @property
    def launch(self) -> Optional[int]:
        return source.launch(self.code, self.kernel)

    def has(self, code: str) -> bool:
        return any(one.code == code for one in self.all)


class _KernelCounts:
    """Counts of one kernel that several rules use."""

    def __init__(self, kernel: Mapping[str, Any], path: Path, shape: ConvolutionShape):
        self.metrics, self.shape = kernel["metrics"], shape
        self.code = code = Instructions(kernel["instructions"], path)
        self.rules = {
            rule.get("rule_identifier", ""): rule.get("speedup_estimation") for rule in kernel.get("rules", ())
        }
        self.reads, self.writes = code.of(r"LDG"), code.of(r"STG")
        # An atomic addition of floats in shared memory is a loop that reads there, too.
        atomic_lines = {row.get("line") for row in code.of(r"ATOMS")}
        self.shared_reads = [row for row in code.of(r"LDS") if row.get("line") not in atomic_lines]
        self.stages = 5 * code.warps(code.of(r"(STS|LDGSTS)")) > code.warps(self.reads)  # a store may hold 4 floats
        self.divisions = code.of(r"MUFU\.RCP")
        # Executions by warps: of all instructions, and of multiply-adds.
        self.instructions = code.warps() or 1.0
        products = code.warps(code.of(_PRODUCTS))
        self.multiplies, self.products = bool(products), products or 1.0
        self.dividing = _DIVISION * code.warps(self.divisions) / self.instructions
        self.samples = code.samples() or 1.0
        # Fraction of the samples in which a warp waits for global memory or a barrier.
        self.waiting = self.waits_for("long_scoreboard|lg_throttle|drain|membar|barrier")

    @property
    def busy(self) -> float:
        """The busiest pipe's share of the time, below which no remedy that keeps the instructions can bring it."""
        pipe = re.compile(r"sm__(inst_executed_pipe|pipe)_\w+\.avg\.pct_of_peak_sustained_active|"
                          r"smsp__issue_active\.avg\.pct_of_peak_sustained_active")  # fmt: skip
        return max((value for name, value in self.metrics.items() if pipe.match(name)), default=0.0) / 100

    def waits_for(self, reasons: str) -> float:
        """Return the fraction of the samples whose stall reason matches a pattern."""
        return self.code.samples(reasons=reasons) / self.samples


def findings(
    raw: Mapping[str, Any],
    path: Path,
    file_format: KernelFormat,
    milliseconds: Optional[float] = None,
    ours: Mapping[str, float] = {},
) -> Tuple[List[KernelFinding], List[str]]:
    """Explain measurements (`ncu.measure`); return findings, the largest share of Op Time first, and lines to print."""
    shape = ConvolutionShape(*raw["layer"])
    gains, call = gains_of(shape), raw.get("call", {})
    tables = raw.get("ncu") or _of_records(raw)
    seconds = op_seconds(call)
    beside = outside(call, _kernel_seconds(call, tables, path, shape), path, file_format)
    # Kernels cost a part of what the findings beside them leave.
    left = 1 - sum(one.share or 0.0 for one in beside)
    found = [replace(one, share=left * (one.share or 0.0)) for one in of_tables(tables, path, shape, gains)]
    if not raw.get("ncu"):
        found += exclusive(by_share(of_compiler(raw.get("compiler", ()), gains)))
    faster = max((one for one in ours.values() if milliseconds and one < milliseconds), default=milliseconds or 0.0)
    if not found and not beside and milliseconds and milliseconds > FAR * faster:
        found = _difference(tables, path, shape)
    return timed([*found, *beside], milliseconds or 1e3 * seconds or None), _phases(call)


def _kernel_seconds(call: Mapping[str, Any], tables: Mapping[str, Any], path: Path, shape: ConvolutionShape) -> float:
    """Return the time of all kernels of a call; 0 if it is not known."""
    recorded = sum(record["ns"] for record in call.get("records", ()) if record["kind"] == "kernel")
    times = [kernel["metrics"].get("gpu__time_duration.sum", 0.0) for kernel in tables["kernels"]]
    if recorded or len(times) < LAUNCHES:
        return 1e-9 * (recorded or sum(times))
    # ncu stopped there, so the kernels after these compute the other products.
    codes = [Instructions(kernel["instructions"], path) for kernel in tables["kernels"]]
    products = sum(code.threads(code.of(_PRODUCTS)) for code in codes)
    return 1e-9 * sum(times) * max(1.0, shape.operations / 2 / products) if products else 0.0


def op_seconds(call: Mapping[str, Any]) -> float:
    """Return the shortest Op Time of the calls that `device_call` made; 0 if there is none."""
    return min([op for op, _ in call.get("phases", ())] or call.get("seconds") or [0.0])


def _phases(call: Mapping[str, Any]) -> List[str]:
    """Return the line about prolog and epilog, which are not part of what is timed."""
    between = [layer - op for op, layer in call.get("phases", ())]
    return [f"prolog and epilog take {1e3 * min(between):,.3g} ms: not in Op Time"] if between else []


def of_tables(
    tables: Mapping[str, Any], path: Path, shape: ConvolutionShape, gains: Optional[Mapping[str, float]] = None
) -> List[KernelFinding]:
    """Return findings from ncu's tables (`ncu_tables`) of the kernels of one call, largest share first."""
    kernels = [kernel for kernel in tables["kernels"] if kernel["metrics"].get("gpu__time_duration.sum")]
    whole = sum(kernel["metrics"]["gpu__time_duration.sum"] for kernel in kernels) or 1.0
    found: List[KernelFinding] = []
    for kernel in kernels:
        weight = kernel["metrics"]["gpu__time_duration.sum"] / whole
        if weight < 0.05:
            continue
        of_kernel, counts = _Found(path, kernel["name"], gains), _KernelCounts(kernel, path, shape)
        for rule in _LAUNCH_RULES + (_INSTRUCTION_RULES if kernel["instructions"] else ()):
            rule(of_kernel, counts)
        found += [replace(one, share=(one.share or 0.0) * weight) for one in exclusive(by_share(of_kernel.all))]
    best: Dict[str, KernelFinding] = {}
    for finding in by_share(found):
        best.setdefault(finding.code, finding)
    return list(best.values())


def _difference(tables: Mapping[str, Any], path: Path, shape: ConvolutionShape) -> List[KernelFinding]:
    """Return the largest difference between a kernel without a finding and our kernels."""
    kernels = [kernel["metrics"] for kernel in tables["kernels"]]
    moved = sum(m.get("dram__bytes.sum", 0.0) or m.get("dram__bytes_read.sum", 0.0) for m in kernels) / shape.bytes
    warps = min((m.get(_WARPS, 100.0) for m in kernels), default=100.0)
    found = _Found(path)
    if moved > max(1.5, 100 / max(warps, 1.0)):
        what = f"moves {moved:.1f} times the bytes of input, weights and output"
        found.add("passes_over_memory", 1 - 1 / moved, what, None, ratio=moved)
    elif warps < 60:
        found.add("few_warps", 1 - warps / 100, f"{warps:.0f}% of an SM's warps are active", None, warps=warps)
    return found.all


def _idle_threads(found: _Found, counts: _KernelCounts) -> None:
    m, outputs = counts.metrics, counts.shape.outputs
    blocks, threads = m.get("launch__grid_size", 0.0), m.get("launch__block_size", 0.0)
    idle = 1 - outputs / (blocks * threads) if blocks * threads else 0.0
    lanes = m.get("smsp__thread_inst_executed_per_inst_executed.ratio", float(WARP)) / WARP
    shared_work = counts.code.of(r"(RED|ATOM|SHFL)")  # several threads for an output
    if idle > 0.2 and lanes < 0.99 and not shared_work:  # whole idle warps cost nothing
        what = f"{blocks:,.0f} blocks of {threads:,.0f} threads for {outputs:,} outputs: "
        what += f"{idle:.0%} of the threads compute nothing"
        evidence = {"threads": blocks * threads, "outputs": outputs, "lanes": lanes}
        found.add("idle_threads", 0.3 + idle / 2, what, found.launch, **evidence)
    elif lanes < 0.6:
        what = f"{1 - lanes:.0%} of a warp's lanes are idle on average"
        found.add("idle_threads", 1 - lanes, what, found.launch, lanes=lanes)


def _small_grid(found: _Found, counts: _KernelCounts) -> None:
    m = counts.metrics
    blocks = m.get("launch__grid_size", 0.0)
    sms = m.get("device__attribute_multiprocessor_count", 0.0) or m.get("launch__sm_count", 0.0)
    if sms and blocks and blocks < sms:
        what = f"{blocks:,.0f} blocks leave {sms - blocks:,.0f} of {sms:,.0f} SMs idle"
        share = 0.6 + 0.4 * (1 - blocks / sms)
        found.add("small_grid", share, what, found.launch, blocks=blocks, multiprocessors=sms)


def _tail(found: _Found, counts: _KernelCounts) -> None:
    waves = counts.metrics.get("launch__waves_per_multiprocessor", 0.0)
    last = math.ceil(waves) - waves
    if 1 < waves < 6 and last > 0.1:
        what = f"{waves:.2f} waves of blocks: the last one fills {1 - last:.0%} of the GPU"
        found.add("tail", last / math.ceil(waves), what, found.launch, waves=waves)


def _stores(found: _Found, counts: _KernelCounts) -> None:
    """Many more stores than outputs mean that sums are in global memory, up to a store per product, or a matrix."""
    code, shape = counts.code, counts.shape
    stores = code.threads(counts.writes)
    evidence = {"stores": stores, "outputs": shape.outputs, "rules": counts.rules}
    line = code.line(counts.writes)
    if stores > 4 * shape.outputs and shape.operations >= 16 * shape.outputs:
        if code.threads(counts.reads) > 1.5 * stores:  # two reads for a product; a matrix needs one for a store
            again = code.threads(counts.reads) > 2.2 * stores  # the sum is also read back, which takes longer
            share = (0.9 if again else 0.6) * (1 - shape.outputs / stores)
            what = f"{stores:,.0f} stores for {shape.outputs:,} outputs: the sum is stored again and again"
            found.add("sum_in_global_memory", share, what, line, **evidence)
        elif stores > 1.5 * math.prod(shape.data):
            what = f"{4 * stores:,.0f} bytes are stored for {4 * shape.outputs:,} bytes of output"
            found.add("unrolled_in_memory", 0.85, what, line, **evidence)
    elif stores > 4 * math.prod(shape.data) and not code.of(_PRODUCTS):
        what = f"{stores:,.0f} stores and no product: the input is written out as a matrix"
        found.add("unrolled_in_memory", 0.99, what, line, **evidence)


def _atomics(found: _Found, counts: _KernelCounts) -> None:
    code, outputs = counts.code, counts.shape.outputs
    shared, rows = code.of(r"ATOMS"), code.of(r"(RED|ATOM(?!S))")
    if code.warps(shared) > 0.2 * counts.products:
        rows += shared
    additions = code.threads(rows)
    if additions > 0.5 * outputs:
        share = 0.3 + 0.7 * max(0.5, code.samples(rows) / counts.samples)
        what = f"{additions:,.0f} atomic operations for {outputs:,} outputs"
        found.add("atomics", share, what, code.line(rows), additions=additions, outputs=outputs)


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
            share, line = excess / moved * max(counts.waiting, 0.6), code.line(rows, _excess(metric))
            what = f"{excess / sectors:.0%} of the 32-byte sectors that it {verb} hold nothing that the warp needs"
            evidence = {"sectors": sectors, "excess": excess, "waiting": counts.waiting, "rules": counts.rules}
            found.add(name, share, what, line, **evidence)


def _bank_conflicts(found: _Found, counts: _KernelCounts) -> None:
    code, metric = counts.code, "memory_l1_wavefronts_shared"
    rows = [*counts.shared_reads, *code.of(r"STS")]
    wavefronts = code.total(rows, metric)
    excess = wavefronts - code.total(rows, f"{metric}_ideal")
    if wavefronts and excess > 0.4 * wavefronts:
        waiting = counts.waits_for("mio_throttle|short_scoreboard|barrier")
        share, line = excess / wavefronts * max(waiting, 0.5), code.line(rows, _excess(metric))
        what = f"{excess / wavefronts:.0%} of the passes through shared memory are bank conflicts"
        evidence = {"wavefronts": wavefronts, "excess": excess, "waiting": waiting, "rules": counts.rules}
        found.add("bank_conflicts", share, what, line, **evidence)


def _excess(metric: str) -> Callable[[Mapping[str, Any]], float]:
    """Return a function that gives an instruction's excess of a metric over its ideal value."""
    return lambda row: row.get(metric, 0.0) - row.get(f"{metric}_ideal", 0.0)


def _spills(found: _Found, counts: _KernelCounts) -> None:
    code = counts.code
    rows = [*code.of(r"LDL"), *code.of(r"STL")]
    local = code.warps(rows)
    part = local / counts.instructions
    if part > 0.02:
        # The instructions that use the values wait for them.
        waiting = counts.waiting * local / code.warps([*rows, *counts.reads, *counts.writes])
        share = max(part * 2, code.samples(rows) / counts.samples, waiting, 0.5)
        what = f"{part:.0%} of the instructions move registers to and from memory"
        line = code.line(rows)
        found.add("spills", share, what, line, local=local, instructions=counts.instructions)


def _occupancy(found: _Found, counts: _KernelCounts) -> None:
    """Few warps fit an SM because of a thread's registers or a block's shared memory, and leave its pipes idle."""
    m = counts.metrics
    registers, warps = m.get("launch__registers_per_thread", 0.0), m.get(_WARPS, 100.0)
    names = ("registers", "shared_mem", "blocks", "warps")
    limits = {name: m[f"launch__occupancy_limit_{name}"] for name in names if f"launch__occupancy_limit_{name}" in m}
    least = min(limits, key=lambda name: limits[name], default="")
    blocks = limits.get(least, 0)
    room = f"room for {blocks:.0f} block{'s' if blocks != 1 else ''} per SM: {warps:.0f}% of its warps"
    evidence = {"registers": registers, "blocks": blocks, "warps": warps, "busy": counts.busy}
    if least == "registers" and registers > 96 and warps < 35:
        share = 0.9 * (1 - warps / 100) * max(counts.waiting, 0.7)
        what = f"{registers:.0f} registers per thread leave {room}"
        found.add("too_many_registers", share, what, None, **evidence)
    elif least == "shared_mem" and warps < 20 and counts.busy < 0.5 and not found.has("small_grid"):
        what = f"the shared memory of a block leaves {room}"
        found.add("few_warps", 0.9 * (1 - counts.busy), what, found.launch, **evidence)


def _divisions(found: _Found, counts: _KernelCounts) -> None:
    executed, line = counts.code.warps(counts.divisions), counts.code.line(counts.divisions)
    if counts.dividing > 0.2 or (counts.multiplies and executed > 0.3 * counts.products):
        share = min(0.95, max(counts.dividing, 0.55))  # most instructions of a division wait for the previous one
        what = f"{counts.dividing:.0%} of the instructions divide integers"
        if counts.multiplies:
            what = f"{executed / counts.products:.1f} divisions or remainders per multiply-add"
        evidence = {"divisions": executed, "instructions": counts.instructions}
        found.add("integer_division", share, what, line, **evidence)


def _repeated_reads(found: _Found, counts: _KernelCounts) -> None:
    """Values are read from global memory for each product, or staged in shared memory several times."""
    code, shape = counts.code, counts.shape
    read, needed = code.threads(counts.reads), math.prod(shape.data) + math.prod(shape.weights)
    per_product = code.warps(counts.reads) / counts.products
    line = code.line(counts.reads)
    if counts.multiplies and per_product > 0.5 and not counts.stages:
        if counts.metrics.get("l1tex__t_sector_hit_rate.pct", 0.0) > _HITS:
            return  # shared memory is no faster than the L1 cache, which is the same memory
        share = min(0.8, 0.3 + 0.1 * per_product, 1 - counts.busy)
        what = f"{per_product:.1f} reads of global memory per multiply-add: no value is used twice"
        found.add("no_reuse", share, what, line, reads=read, products=shape.operations // 2, needed=needed)
    elif read > 3 * needed and counts.stages:
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
    arithmetic = code.warps(code.of(r"([DF](FMA|MUL|ADD)|F2F|LDS|LDG|LDC|STG|STS)"))
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
    each, line = max(shared, from_global), code.line(reads)
    what = f"{shared:.1f} reads of shared memory per multiply-add"
    if shared > 1.2:
        found.add("two_reads_per_product", min(0.6, shared / (shared + 2)), what, line, reads=shared)
    elif shared > 0.6:
        what += ", of weights that all threads share"
        found.add("weights_in_shared", min(0.5, shared / (shared + 1)), what, line, reads=shared)
    elif shared > 0.2 or (from_global > 0.2 and not found.has("no_reuse")):
        line, what = code.line([*reads, *counts.reads]), f"{each:.2f} reads per multiply-add"
        found.add("reads_per_product", min(0.5, each / (each + 1)), what, line, reads=each)


def _doubles(found: _Found, counts: _KernelCounts) -> None:
    code = counts.code
    products, rows = code.warps(code.of(r"D(FMA|MUL)")), code.of(r"(D(FMA|MUL|ADD)|F2F\.F64)")
    if products > 0.5 * counts.products:
        waits = code.samples(rows, r"(?!long_scoreboard|lg_throttle)\w+") / counts.samples  # except for memory
        share, line = max(waits, code.warps(rows) / counts.instructions), code.line(rows)
        what = f"{products / counts.products:.0%} of the multiply-adds are in double"
        found.add("double", share, what, line, doubles=products)


def _float32_pipes(found: _Found, counts: _KernelCounts) -> None:
    executed = counts.code.warps(counts.code.of(r"FFMA")) / counts.instructions
    if executed > 0.5:
        what = f"{executed:.0%} of the instructions are multiply-adds already"
        found.add("float32_pipes", 0.3 * executed, what, _hot(counts.code), multiply_adds=executed)


def _per_product(found: _Found, counts: _KernelCounts) -> None:
    """Add findings on the instructions per multiply-add, if there are any and the tensor cores do not make them."""
    if counts.multiplies and not counts.code.of(r"(HMMA|HGMMA|WGMMA)"):
        for rule in (_doubles, _overhead, _reads_per_product, _float32_pipes):
            rule(found, counts)


def _hot(code: Instructions) -> Optional[int]:
    """Return the line with the most products."""
    return code.line(code.of(_PRODUCTS))


# Rules that need only the launch and the metrics of the whole kernel, and rules that need each instruction's counters.
# A rule may depend on the findings of the rules before it.
_LAUNCH_RULES = (_idle_threads, _small_grid, _tail)
_INSTRUCTION_RULES = (_stores, _atomics, _uncoalesced, _bank_conflicts, _spills, _occupancy, _divisions,
                      _repeated_reads, _per_product)  # fmt: skip


_OUTSIDE = (
    ("allocation_in_call", r"\bcuda(?:Malloc|Free)\w*\s*\("),
    ("copies_in_call", r"\bcuda(?:Memcpy)\w*\s*\("),
    ("synchronisation_in_call", r"\bcuda(?:Device|Stream)Synchronize\s*\("),
)


def outside(
    call: Mapping[str, Any], kernel_seconds: float, path: Path, file_format: KernelFormat
) -> List[KernelFinding]:
    """Return findings on the part of Op Time outside of kernels; none if the file gets host tensors, which it copies.

    Of a format with phases, only forward counts: copies and allocations belong in prolog and epilog.
    """
    seconds = op_seconds(call)
    idle = seconds - kernel_seconds
    if not kernel_seconds or not seconds or (file_format.host_memory and not file_format.phases):
        return []
    if idle < _OUTSIDE_KERNELS * seconds or idle < _NOTICED:
        return []
    found = _Found(path)
    first, last = source.body(found.code, "conv_forward_gpu") if file_format.phases else (1, len(found.code))
    left = idle / seconds
    for code, pattern in _OUTSIDE:
        lines = [number for number in range(max(first, 1), last + 1) if re.search(pattern, found.code[number - 1])]
        name = re.compile(pattern.replace(r"\s*\(", "").replace(r"\b", ""))
        records = [one for one in call.get("records", ()) if one["kind"] == "call"]
        times: Dict[str, float] = {}
        for one in records:
            if name.match(one["name"]):
                times[one["name"]] = times.get(one["name"], 0.0) + one["ns"]
        if not lines or (records and not times):
            continue
        # The records of a format with phases are those of prolog and epilog, too.
        own = left if file_format.phases or not times else min(left, 1e-9 * sum(times.values()) / seconds)
        calls = ", ".join(sorted(times)) if times and not file_format.phases else found.code[lines[0] - 1].strip()
        what = f"part of Op Time passes outside of the kernels: {calls}"
        found.add(code, own, what, lines[0], seconds=seconds, kernel_seconds=kernel_seconds, calls=times)
        left -= own
    return by_share([one for one in found.all if one.share])


def of_compiler(kernels: Sequence[Mapping[str, Any]], gains: Mapping[str, float]) -> List[KernelFinding]:
    """Return findings on the resources of kernels, as `used` returns them; `gains` are those of the ladder's steps."""
    found = []
    for kernel in kernels:
        evidence = dict(kernel)
        name = plain_name(kernel["kernel"])
        if kernel["spills"] or kernel["stack"] > 64:
            code, share = "spills", 0.5
            what = f"{name}: {kernel['spills']} bytes of spill stores and loads, {kernel['stack']} bytes of stack"
        elif kernel["registers"] > 128:
            code, share = "too_many_registers", 0.3
            warps = _REGISTERS // (WARP * -(-kernel["registers"] // 8 * 8))
            evidence["warps"] = warps
            what = f"{name}: {kernel['registers']} registers per thread: at most {warps} warps fit an SM"
        else:
            continue
        remedy, step = REMEDIES[code]
        found.append(at_line(Path(), None, code, what, remedy, evidence, share, step or None, gains.get(step)))
    return found


def gains_of(shape: ConvolutionShape) -> Dict[str, float]:
    """Return the speed of each step of the ladder relative to the previous one, on the most similar measured layer."""
    page = installation.resource_dir("docs") / "kernels.json"
    try:
        cases = json.loads(page.read_text())["cases"]
    except (OSError, ValueError, KeyError):
        return {}

    def away(case: Mapping[str, Any]) -> float:
        sizes = case["shape"]
        ours = (shape.C, shape.H, shape.M, shape.K)
        return sum(abs(mine - sizes[name]) / max(mine, sizes[name]) for mine, name in zip(ours, "CHMK"))

    rows = [row for row in min(cases, key=away)["rows"] if row["step"] and row["median_ms"]]
    rows.sort(key=lambda row: row["step"])
    return {row["name"]: before["median_ms"] / row["median_ms"] for before, row in zip(rows, rows[1:])}


def _of_records(raw: Mapping[str, Any]) -> Dict[str, Any]:
    """Convert the launches that CUPTI recorded to tables with ncu's names of the metrics."""
    kernels = []
    for record in raw.get("call", {}).get("records", []):
        if record["kind"] == "kernel":
            grid, block = ([side or 1 for side in record[name]] for name in ("grid", "block"))
            metrics = {
                "gpu__time_duration.sum": record["ns"],
                "launch__grid_size": grid[0] * grid[1] * grid[2],
                "launch__block_size": block[0] * block[1] * block[2],
            }
            if record.get("registers_per_thread"):
                metrics["launch__registers_per_thread"] = record["registers_per_thread"]
            kernels.append({"name": record["name"], "metrics": metrics, "rules": [], "instructions": []})
    return {"kernels": kernels}
