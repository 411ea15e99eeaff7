"""Explains why a GPU kernel is slow, from ncu's tables, the launch configuration, and the work that the layer needs.

Every figure is a count: executed instructions, launched threads, moved bytes. The share of a finding is an estimate of
the fraction of the kernel's time that the finding costs. Findings are ordered by this share.
"""

import math
import re
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

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
    def input_bytes(self) -> int:
        """Size of the input images in bytes."""
        return 4 * self.images * self.channels * self.side**2


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
    """Collects the findings on one kernel."""

    def __init__(self, path: Path, kernel: str, gains: Mapping[str, float]):
        self.path, self.kernel, self.gains = path, kernel, gains
        self.lines = path.read_text(errors="replace").splitlines()
        self.all: List[KernelFinding] = []

    def add(self, code: str, share: float, what: str, line: Optional[int], **evidence: Any) -> None:
        remedy, step = REMEDIES[code]
        share, gain = max(0.0, min(0.99, share)), self.gains.get(step)
        evidence["kernel"] = self.kernel
        self.all.append(at_line(self.path, line, code, what, remedy, evidence, share, step or None, gain))


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
        one = _Found(path, kernel["name"], gains or {})
        _of_kernel(one, kernel["metrics"], Instructions(kernel["instructions"], path), layer, kernel.get("rules", ()))
        found += [_scaled(finding, weight) for finding in one.all]
    best: Dict[str, KernelFinding] = {}
    for finding in sorted(found, key=lambda one: -(one.share or 0.0)):
        best.setdefault(finding.code, finding)
    return list(best.values())


def _scaled(finding: KernelFinding, weight: float) -> KernelFinding:
    return KernelFinding(**{**finding.__dict__, "share": (finding.share or 0.0) * weight})


def _of_kernel(found: _Found, m: Mapping[str, float], code: Instructions, layer: Layer, rules: Sequence[Any]) -> None:
    _launch(found, m, layer)
    if not code.rows:
        return
    said = {rule.get("rule_identifier", ""): rule.get("speedup_estimation") for rule in rules}
    all_warps = code.warps() or 1.0
    products = code.warps(code.of(r"(FFMA|FMUL|HMMA|HFMA2)")) or 1.0
    tensor = bool(code.of(r"(HMMA|HGMMA|WGMMA)"))
    reads, writes = code.of(r"LDG"), code.of(r"STG")
    stalled = code.samples() or 1.0
    waiting = code.samples(reasons="long_scoreboard|lg_throttle|drain|membar|barrier") / stalled
    shared_wait = code.samples(reasons="mio_throttle|short_scoreboard|barrier") / stalled

    # A kernel that keeps sums in global memory has many more stores than outputs, up to one per product.
    stores = code.threads(writes)
    if stores > 4 * layer.outputs and layer.products >= 8 * layer.outputs:
        if code.threads(reads) > 2 * stores:
            found.add(
                "sum_in_global_memory",
                0.9 * (1 - layer.outputs / stores),
                f"{stores:,.0f} stores for {layer.outputs:,} outputs: the sum is kept in global memory",
                code.line(writes, _executed),
                stores=stores,
                outputs=layer.outputs,
                rules=said,
            )
        elif stores > 1.5 * layer.images * layer.channels * layer.side**2:
            found.add(
                "unrolled_in_memory",
                0.85,
                f"{4 * stores:,.0f} bytes are stored for {4 * layer.outputs:,} bytes of output",
                code.line(writes, _executed),
                stores=stores,
                outputs=layer.outputs,
                rules=said,
            )

    elif stores > 4 * layer.input_bytes / 4 and not code.of(r"(FFMA|HMMA)"):
        found.add(
            "unrolled_in_memory",
            0.99,
            f"{stores:,.0f} stores and no product: the input is written out as a matrix",
            code.line(writes, _executed),
            stores=stores,
            outputs=layer.outputs,
            rules=said,
        )

    adds = code.of(r"(RED|ATOM(?!S))")
    if code.threads(adds) > 0.5 * layer.outputs:
        share = max(0.5, code.samples(adds) / stalled)
        found.add(
            "atomics",
            0.3 + 0.7 * share,
            f"{code.threads(adds):,.0f} atomic additions for {layer.outputs:,} outputs",
            code.line(adds, _executed),
            additions=code.threads(adds),
            outputs=layer.outputs,
        )

    # Uncoalesced accesses touch more memory sectors than the accessed bytes would fill.
    moved = code.total([*reads, *writes], "memory_l2_theoretical_sectors_global") or 1.0
    for what, rows, verb in (("uncoalesced_reads", reads, "reads"), ("uncoalesced_writes", writes, "writes")):
        sectors = code.total(rows, "memory_l2_theoretical_sectors_global")
        excess = sectors - code.total(rows, "memory_l2_theoretical_sectors_global_ideal")
        if sectors and excess > 0.5 * sectors and excess > 0.2 * moved:
            line = code.line(
                rows,
                lambda row: (
                    row.get("memory_l2_theoretical_sectors_global", 0.0)
                    - row.get("memory_l2_theoretical_sectors_global_ideal", 0.0)
                ),
            )
            found.add(
                what,
                (excess / moved) * max(waiting, 0.6),
                f"{excess / sectors:.0%} of the 32-byte sectors that it {verb} hold nothing that the warp needs",
                line,
                sectors=sectors,
                excess=excess,
                waiting=waiting,
                rules=said,
            )

    in_shared = [*code.of(r"LDS"), *code.of(r"STS")]
    wavefronts = code.total(in_shared, "memory_l1_wavefronts_shared")
    excess = wavefronts - code.total(in_shared, "memory_l1_wavefronts_shared_ideal")
    if wavefronts and excess > 0.4 * wavefronts:
        line = code.line(
            in_shared,
            lambda row: row.get("memory_l1_wavefronts_shared", 0.0) - row.get("memory_l1_wavefronts_shared_ideal", 0.0),
        )
        found.add(
            "bank_conflicts",
            excess / wavefronts * max(shared_wait, 0.5),
            f"{excess / wavefronts:.0%} of the passes through shared memory are bank conflicts",
            line,
            wavefronts=wavefronts,
            excess=excess,
            waiting=shared_wait,
            rules=said,
        )

    local = [*code.of(r"LDL"), *code.of(r"STL")]
    if code.warps(local) > 0.02 * all_warps:
        share = max(code.warps(local) / all_warps * 2, code.samples(local) / stalled, 0.5)
        found.add(
            "spills",
            share,
            f"{code.warps(local) / all_warps:.0%} of the instructions move registers to and from memory",
            code.line(local, _executed),
            local=code.warps(local),
            instructions=all_warps,
        )

    registers = m.get("launch__registers_per_thread", 0.0)
    limit, others = (
        m.get("launch__occupancy_limit_registers"),
        [
            m[f"launch__occupancy_limit_{name}"]
            for name in ("blocks", "shared_mem", "warps")
            if f"launch__occupancy_limit_{name}" in m
        ],
    )
    warps = m.get("sm__warps_active.avg.pct_of_peak_sustained_active", 100.0)
    if registers > 96 and limit is not None and others and limit <= min(others) and warps < 35:
        found.add(
            "too_many_registers",
            0.9 * (1 - warps / 100) * max(waiting, 0.7),
            f"{registers:.0f} registers per thread leave room for {limit:.0f} blocks per SM: {warps:.0f}% of its warps",
            None,
            registers=registers,
            blocks=limit,
            warps=warps,
        )

    quotients = code.of(r"MUFU\.RCP")
    dividing = _DIVISION * code.warps(quotients) / all_warps
    if dividing > 0.2 or code.warps(quotients) > 0.3 * products:
        line = code.line(quotients, _executed)
        # A remainder takes some twenty instructions, each of which mostly waits for the previous one.
        found.add(
            "integer_division",
            min(0.95, max(dividing, 0.55)),
            f"{code.warps(quotients) / products:.1f} divisions or remainders a multiply-add",
            line,
            divisions=code.warps(quotients),
            instructions=all_warps,
        )

    _reuse(found, code, layer, all_warps, products, tensor, waiting)


def _reuse(
    found: _Found, code: Instructions, layer: Layer, all_warps: float, products: float, tensor: bool, waiting: float
) -> None:
    """Add findings on reads per multiply-add, and on other instructions per multiply-add."""
    reads = code.of(r"LDG")
    read = code.threads(reads)
    tiles = code.of(r"LDS")
    floats = layer.input_bytes / 4 + layer.filters * layer.channels * layer.taps**2
    per_product = code.warps(reads) / products
    hot = code.line(code.of(r"FFMA"), _executed)
    if per_product > 0.5 and not code.warps(tiles):
        found.add(
            "no_reuse",
            min(0.8, 0.3 + 0.1 * per_product),
            f"{per_product:.1f} reads of global memory a multiply-add: no value is used twice",
            code.line(reads, _executed),
            reads=read,
            products=layer.products,
            needed=floats,
        )
    elif read > 3 * floats and code.warps(tiles):
        staging = code.samples(reads) + code.samples(code.of(r"(STS|BAR)"))
        share = max(staging / (code.samples() or 1.0), code.warps(reads) / all_warps * 4)
        if any(one.code == "uncoalesced_reads" for one in found.all):
            share /= 2  # that finding already counts part of the cost of these reads
        # Each repeated staging also costs barriers and the start of a block, which these samples do not include.
        found.add(
            "restaged_input",
            min(0.8, max(share + 0.15, _RESTAGED if read > 8 * floats else 0.0)),
            f"{read / floats:.0f} times the image and weights are read from global memory",
            code.line(reads, _executed),
            reads=read,
            needed=floats,
        )
    if tensor:
        return
    arithmetic = code.warps(code.of(r"(FFMA|FMUL|FADD|LDS|LDG|LDC|LDGSTS|STG|STS)"))
    dividing = _DIVISION * code.warps(code.of(r"MUFU\.RCP")) / all_warps
    other = max(0.0, 1 - arithmetic / all_warps - dividing)
    per_shared = code.warps(tiles) / products
    loops = code.warps(code.of(r"(BRA|ISETP)")) / products
    if loops > 0.3 and other > 0.1:
        found.add(
            "loop_overhead",
            _LOOPS * min(0.7, other),
            f"{other:.0%} of the instructions are loop counters, branches and addresses",
            hot,
            other=other,
            branches=loops,
        )
    elif other > 0.35:
        found.add("address_arithmetic", other, f"{other:.0%} of the instructions compute addresses", hot, other=other)
    if per_shared > 1.2:
        found.add(
            "two_reads_per_product",
            min(0.6, per_shared / (per_shared + 2)),
            f"{per_shared:.1f} reads of shared memory a multiply-add",
            code.line(tiles, _executed),
            reads=per_shared,
        )
    elif per_shared > 0.6:
        found.add(
            "weights_in_shared",
            min(0.5, per_shared / (per_shared + 1)),
            f"{per_shared:.1f} reads of shared memory a multiply-add, of weights that all threads share",
            code.line(tiles, _executed),
            reads=per_shared,
        )
    elif per_shared > 0.2 or (per_product > 0.2 and not any(one.code == "no_reuse" for one in found.all)):
        reads_each = max(per_shared, per_product)
        found.add(
            "reads_per_product",
            min(0.5, reads_each / (reads_each + 1)),
            f"{reads_each:.2f} reads a multiply-add",
            code.line([*tiles, *reads], _executed),
            reads=reads_each,
        )
    executed = code.warps(code.of(r"FFMA")) / all_warps
    if executed > 0.5:
        found.add(
            "float32_pipes",
            0.3 * executed,
            f"{executed:.0%} of the instructions are multiply-adds already",
            hot,
            multiply_adds=executed,
        )


def _launch(found: _Found, m: Mapping[str, float], layer: Layer) -> None:
    """Add findings on the launch: threads without an output, too few blocks for the SMs, and a short last wave."""
    blocks, threads = m.get("launch__grid_size", 0.0), m.get("launch__block_size", 0.0)
    sms = m.get("device__attribute_multiprocessor_count", 0.0) or m.get("launch__sm_count", 0.0)
    launch = next((number for number, line in enumerate(found.lines, 1) if "<<<" in line), None)
    idle = 1 - layer.outputs / (blocks * threads) if blocks * threads else 0.0
    efficiency = m.get("smsp__thread_inst_executed_per_inst_executed.ratio", float(WARP)) / WARP
    if idle > 0.2 and efficiency < 0.99:  # whole idle warps cost nothing
        found.add(
            "idle_threads",
            0.3 + idle / 2,
            f"{blocks:,.0f} blocks of {threads:,.0f} threads for {layer.outputs:,} outputs: "
            f"{idle:.0%} of the threads compute nothing",
            launch,
            threads=blocks * threads,
            outputs=layer.outputs,
            lanes=efficiency,
        )
    elif efficiency < 0.6:
        found.add(
            "idle_threads",
            1 - efficiency,
            f"{1 - efficiency:.0%} of a warp's lanes are idle on average",
            launch,
            lanes=efficiency,
        )
    if sms and blocks and blocks < sms:
        found.add(
            "small_grid",
            0.6 + 0.4 * (1 - blocks / sms),
            f"{blocks:,.0f} blocks leave {sms - blocks:,.0f} of {sms:,.0f} SMs idle",
            launch,
            blocks=blocks,
            multiprocessors=sms,
        )
    waves = m.get("launch__waves_per_multiprocessor", 0.0)
    last = math.ceil(waves) - waves
    if 1 < waves < 6 and last > 0.1:
        found.add(
            "tail",
            last / math.ceil(waves),
            f"{waves:.2f} waves of blocks: the last one fills {1 - last:.0%} of the GPU",
            launch,
            waves=waves,
        )


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
    found = _Found(path, "", {})
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
