"""Explains why a CPU kernel is slow, from samples of its threads, machine instructions, and GCC's vectorisation report.

What a remedy brings is measured: the program that samples the kernel also runs the same convolution with a sum in a
register, by rows, and by tiles in registers (`samples.CpuRun.remedies`).
"""

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..kernel_files import neighbours
from ..library import bindings
from . import samples, source
from .findings import FAR, GAINED, KernelFinding, at_line, by_share, timed
from .machine_loop import MachineLoop

REMEDIES: Dict[str, Tuple[str, Optional[str]]] = {  # code: (remedy, our CPU kernel that applies it)
    "double": ("use float throughout, and literals such as 0.0f", None),
    "int_to_float": ("compute indices in integers, and convert before the loop over the taps", None),
    "call_in_loop": ("write the function's body into the loop, without pointers to functions or virtual ones", None),
    "library_in_loop": ("call them outside of the loops: allocate, clear and copy once, and write no text", None),
    "waiting_inside": ("give each thread its own outputs and, with a dynamic schedule, large chunks of them", None),
    "small_parts": ("let a part of the schedule be an image: schedule(static), or large chunks", None),
    "idle_time": ("let no thread sleep, read files or wait for a lock during the call", None),
    "branch_in_loop": ("let the loops begin and end at the border, so that no product needs a condition", None),
    "false_sharing": ("sum in a local variable, and store once", None),
    "one_thread": ("share images or filters among threads: #pragma omp parallel for, without large chunks", None),
    "extra_instructions": ("keep images and weights in flat arrays, and compute an index outside of the loop", None),
    "strided_inner_loop": ("let the innermost loop walk along w, where neighbours lie side by side", "shifted"),
    "volatile": ("leave volatile out, so that sums and indices stay in registers", None),
    "alias": ("keep the sum in a local variable, or declare the pointers __restrict__: no two then overlap", None),
    "serial_sum": ("turn the loops around: add one weight's products to a row of outputs, side by side", "shifted"),
    "sum_in_memory": ("keep the sums of several filters and neighbouring outputs in registers", "direct"),
    "parallel_inside": ("make the outermost loop the parallel one, over images: start threads once per call", None),
    "atomics": ("let one thread own an output, sum in a local variable, and copy no shared_ptr in the loop", None),
    "integer_division": ("count rows and columns along in nested loops, in place of / and %", None),
    "no_products": ("read the input where the product needs it, or copy once what several products use", "direct"),
    "not_vectorised": ("let the innermost loop walk along w, with a fixed number of taps outside of it", "shifted"),
    "narrow_vectors": ("compile for this processor (-march=native), or use wider vector types", "direct"),
    "little_reuse": ("use a loaded number for several outputs: a tile of filters and columns in registers", "direct"),
    "work_outside_loop": ("do the work around the innermost loop less often: larger rows, tiles or blocks", "direct"),
}
_COPIES = ("library_in_loop", "no_products")
_PARTS = (*_COPIES, "waiting_inside", "parallel_inside", "idle_time")  # their share is measured
_STAGES = ("sum", "row", "rows", "tile")  # forms, in the order in which remedies lead from one to the next
_SEVERAL = 4  # stores of a loop over rows that uses a pixel for several filters
_REFUTED = 0.9  # fraction of the time that remains, above which a measurement refutes a finding
_REGIONS = 200  # limit for the parallel regions per call, above which there is a finding; about three times the images
_REGION = 100e-6  # seconds of a parallel region, below which its beginning and its end cost
_WAITING = 0.15  # least fraction of the time for a finding: a smaller wait may be due to other work of the machine
_EMPTY_LOOP = 0.2  # least fraction of the time in a loop that multiplies nothing, for a finding
_CALLED = 0.15  # least fraction of the time in functions that the hot loop calls, or of libraries, for a finding
_POINTED = 0.04  # the same for functions that it calls through pointers: the call takes longer than a short function
_STORED = 0.3  # stores per multiply-add above which sums should be kept in registers
_ALONE = 1.5  # several threads worked if a call's processor time is this multiple of its duration, or more
_SAMPLES = 100  # least number of samples that show how threads share the work
_NEAR = 6  # largest distance, in lines, between a statement and the head of its loop
_EXTRA, _PLAIN = 0.8, 8  # time of a plain loop, and its instructions per product: what has more has a finding
_LOADS = 0.4  # accesses of memory per vector of multiply-adds in our kernels
_PART = 50e-6  # seconds of a dynamic schedule's part, below which its handing out costs
_LIBRARIES = (  # (functions of libraries, code of the finding)
    (r"pthread_create", "parallel_inside"),
    (r"mutex|\bsem_|rwlock|spin_", "waiting_inside"),
    ("", "library_in_loop"),
)
_SERIAL = "adds up one output, each addition waiting for the one before: not in vectors"
_SLEEPS = r"\b(?:u|nano)?sleep\w*\s*\(|\block\w*\s*[({]|\bf(?:read|write|printf)\s*\(|\bprintf\s*\(|std::c(?:out|err)"
_BOUNDS = (
    (r"^(?:C|in_?c\w*|Channel\w*|channels?)$", "channels"),
    (r"^(?:M|Map_out|out_?c\w*|filters?)$", "filters"),
    (r"^(?:B|Batch\w*|images?)$", "images"),
    (r"^(?:H\w*|OH|out_?h\w*|h_?out|height\w*)\b(?:\s*-\s*K\s*\+\s*1)?$", "rows"),
)


class _Cost(NamedTuple):
    """A finding before it is weighed. `share` is measured for `_PARTS`; otherwise it is used without a measurement."""

    finding: KernelFinding
    form: str = ""  # the form of the loop after the remedy; "" if the remedy leaves the loop as it is

    @property
    def share(self) -> float:
        return self.finding.share or 0.0


class _Costs(List[_Cost]):
    """Findings on a file before they are weighed."""

    def __init__(self, path: Path):
        self._path = path

    def add(self, code: str, part: float, line: Optional[int], what: str, form: str = "", **evidence: Any) -> None:
        """Add a finding; `form` as in `_Cost`."""
        self.append(_Cost(made(self._path, code, line, what, evidence, min(part, 0.99)), form))


def of_run(
    path: Path, said: str, run: samples.CpuRun, milliseconds: Optional[float] = None, ours: Mapping[str, float] = {}
) -> List[KernelFinding]:
    """Return findings from a run and GCC's report `said`; `ours` has the milliseconds of our kernels."""
    costs, busy = _costs(path, said, run)
    found = _weighed(costs, run._replace(processor=run.processor / max(busy, 0.01)))  # fractions of all time, then
    if not found and run.loop:
        best = min(ours.values(), default=None)
        ratio = milliseconds / best if milliseconds and best else 1 / (run.after("tile") or 1.0)
        found = [_difference(path, run)] if ratio > FAR else []
    return [_of_ours(one, milliseconds, ours) for one in timed(found, milliseconds)]


def _of_ours(one: KernelFinding, milliseconds: Optional[float], ours: Mapping[str, float]) -> KernelFinding:
    """Refer to a kernel of ours only if it is known to be faster than the file."""
    if not one.step or not milliseconds or one.step not in ours:
        return one
    gain = milliseconds / ours[one.step]
    return replace(one, gain=gain) if gain >= GAINED else replace(one, step=None, gain=None)


def _weighed(costs: Sequence[_Cost], run: samples.CpuRun) -> List[KernelFinding]:
    """Give each finding the fraction of the time that its remedy saves, measured where it can be, and sort them.

    Parts of the time that vanish come first; then the loop's forms, each of which starts from the one before. Threads
    are worth more than registers.
    """
    left, saved = 1.0, []

    def save(finding: KernelFinding, kept: float, of: float = 1.0) -> None:
        """Let a remedy keep a fraction of the fraction `of` of all time; what keeps nearly all is no remedy."""
        nonlocal left
        if kept < _REFUTED:
            saved.append(replace(finding, share=of * (1 - max(kept, 0.01))))
        left -= of * (1 - kept)

    parts = [cost for cost in costs if cost.finding.code in _PARTS]
    loops = [cost for cost in costs if cost.finding.code not in _PARTS]
    for cost in parts:
        part = max(cost.share, left - (run.after(cost.form) or left)) if cost.form else cost.share
        save(cost.finding, 1 - min(part, 0.99 * left))
    for cost in loops:
        if cost.finding.code != "one_thread" and (not cost.form or run.after(cost.form) is None):
            save(cost.finding, 1 - cost.share, left)
    for form in _STAGES:
        for cost in loops:
            if cost.finding.code == "one_thread" and form == _STAGES[-1]:
                save(cost.finding, max(1 / run.scaling, 1 - cost.share), left)
        group, after = [cost for cost in loops if cost.form == form], run.after(form)
        factor, whole = min(1.0, (after or 1.0) / max(left, 1e-9)), sum(cost.share for cost in group)
        for cost in group if after is not None else ():
            save(cost.finding, factor ** (cost.share / whole), left)
    return by_share(saved)


def _costs(path: Path, said: str, run: samples.CpuRun) -> Tuple[Sequence[_Cost], float]:
    """Return findings, and the fraction of the time that threads do not wait in what is found."""
    lines = source.without_comments(neighbours.text_of(path))
    found, loop = _Costs(path), MachineLoop(run.loop)
    add, alone = found.add, _one_thread(path, run)
    found += [_Cost(alone)] if alone else []
    busy = _waits(found, lines, run)
    share, hot = run.loop_share * busy, _hot(lines, run)
    in_loop = of_loop(path, lines, reasons(path, said), run._replace(loop_share=share), hot) if hot else ()
    # Without copies, a loop that only adds up one output takes the time of this form.
    plain = "sum" if in_loop and all(cost.finding.code == "serial_sum" for cost in in_loop) else ""
    in_libraries, (names, code) = busy * sum(part for _, part, _ in run.libraries), _libraries(run)
    if in_libraries > _CALLED:
        words = f"spends {in_libraries:.0%} of the time in functions of libraries: {', '.join(names)}"
        faults = any(cost.form in _STAGES[:-1] for cost in in_loop)
        waits = re.search(r"libc|mem|alloc", " ".join(names))
        after = plain or ("row" if loop.vectors and not faults else "") if waits else ""
        words += "; filling the memory that they return, and waiting for it, takes time as well" if after else ""
        add(code, in_libraries, run.libraries[0][2], words, after, functions=run.libraries[:10])
    beside = run.beside_share * busy
    if beside > _EMPTY_LOOP:
        words = f"takes {beside:.0%} of the time and multiplies nothing"
        add("no_products", beside, run.beside_line, words, plain, loop=run.beside[:20])
    shared = [number for number in _shared_sums(lines) if number in run.loop_lines]
    if shared and run.threads != 1:
        words = "threads add to neighbouring numbers, which share a cache line"
        add("false_sharing", 0.85 * share, shared[0], words, "sum", lines=shared)
    found += in_loop
    _join_copies(found, run)
    extra = not any(cost.form == "sum" for cost in found) and (run.after("sum") or 1.0) < _EXTRA
    if hot and extra and loop.products and not loop.vectors and (loop.indirect or not loop.stores):
        each, texts = len(run.loop) / (loop.products * loop.width), loop.often(loop.indirect)
        if texts or each > _PLAIN:
            words = f"has {each:.0f} instructions for every product"
            words = "reads a pointer or an index from memory for every product" if texts else words
            other = next((number for number in run.loop_lines if number != hot), hot)
            add("extra_instructions", share, run.line_of(texts) or other, words, "sum", loop=run.loop[:40])
    return found, busy


def _join_copies(found: _Costs, run: samples.CpuRun) -> None:
    """Give the largest finding on allocated memory the shares of the others: the same remedy saves filling it, too."""
    costs = sorted((cost for cost in found if cost.finding.code in _COPIES), key=lambda cost: -cost.share)
    form = next((cost.form for cost in costs if cost.form), "")
    if len(costs) > 1 and (form or any(re.search("alloc|free", name) for name, *_ in run.libraries)):
        share, words = sum(cost.share for cost in costs), "; ".join(cost.finding.what for cost in costs)
        found[found.index(costs[0])] = _Cost(replace(costs[0].finding, share=min(share, 0.99), what=words), form)
        for cost in costs[1:]:
            found.remove(cost)


def _hot(lines: Sequence[str], run: samples.CpuRun) -> Optional[int]:
    """Return the hot loop's line: one that adds a product, or adds, before its head, which may have more samples."""
    added = [store.line for store in source.stores(lines) if store.adds]
    adding = [number for number in run.loop_lines[:3] if number in added or "fma" in lines[number - 1]]
    products = [number for number in adding if re.search(r"\*|fma", lines[number - 1])]
    return next(iter([*products, *adding, *run.loop_lines]), None)


def _libraries(run: samples.CpuRun) -> Tuple[List[str], str]:
    """Return the names of the library functions with most samples, and the code of a finding on them."""
    names = list(dict.fromkeys(name for name, _, _ in run.libraries))[:3]
    return names, next(code for pattern, code in _LIBRARIES if re.search(pattern, " ".join(names)))


def _waits(found: _Costs, lines: Sequence[str], run: samples.CpuRun) -> float:
    """Add findings on threads that wait or sleep; return the fraction of the time that is left to the work."""
    working = run.processor * (1 - run.waiting) / max(1, run.threads)
    if run.regions > max(_REGIONS, working / _REGION) and run.waiting > _WAITING:
        line = source.single(source.matching(lines, r"#\s*pragma\s+omp\s+parallel"))
        words = f"begins {run.regions:,.0f} parallel regions per call; threads wait for {run.waiting:.0%} of the time"
        found.add("parallel_inside", run.waiting, line, words, regions=run.regions, waiting=run.waiting)
        return 1 - run.waiting
    each, form = run.seconds * max(1, run.threads) / run.parts if run.parts else 1.0, MachineLoop(run.loop).form
    if each < _PART and (run.after(form) or 0.0) * (1 - run.waiting) < _REFUTED:
        line = next(iter(source.matching(lines, r"#\s*pragma\s+omp\b.*schedule\s*\(\s*(?:dynamic|guided)")), None)
        words = f"hands out {run.parts:,.0f} parts of a loop one by one, each of {1e6 * each:,.2g} us"
        found.add("small_parts", max(run.waiting, 0.1), line, words, form, parts=run.parts, seconds=each)
        return 1 - run.waiting
    waits = [(number, part) for number, part in run.waits if not _at_the_end(lines, number)]
    waited = sum(part for _, part in waits)
    if waited > _WAITING:
        words = f"makes threads wait for one another during the work: {waited:.0%} of their time"
        found.add("waiting_inside", waited, waits[0][0], words, waits=waits[:10])
        return 1 - waited
    # A caller whose other threads work more than it does waits for them, as in a pool of threads.
    helped = run.processor > _ALONE * max(1, run.threads) * (1 - run.asleep) * run.seconds
    waiting = waits or helped or _libraries(run)[1] != "library_in_loop"
    sleeps = source.matching(lines, _SLEEPS)
    if run.asleep > _WAITING and not waiting and (sleeps or not run.regions):
        words = f"for {run.asleep:.0%} of the time the calling thread sleeps, or waits for others"
        found.add("idle_time", run.asleep, next(iter(sleeps), None), words, asleep=run.asleep)
        return 1 - run.asleep
    return 1.0


def _at_the_end(lines: Sequence[str], number: int) -> bool:
    """Whether threads wait at the end of a parallel loop, which may be due to other work of the machine."""
    above = " ".join(lines[max(0, number - 2) : number])
    return bool(re.search(r"omp\s+parallel(?!.*\b(?:dynamic|guided))", above))


def _one_thread(path: Path, run: samples.CpuRun) -> Optional[KernelFinding]:
    """Return the finding that one thread does most of the work, for the reason that the environment shows, if any."""
    cores = len(os.sched_getaffinity(0))
    few = run.regions <= _REGIONS and not run.parts  # otherwise threads wait for parts of the work again and again
    if run.threads > 1 and run.samples >= _SAMPLES and few and run.busiest * cores >= _ALONE:
        what, evidence = "one thread does most of the work", {"busiest": run.busiest, "processors": cores}
        return made(path, "one_thread", None, what, evidence, 1 - 1 / cores / run.busiest)
    # On a busy machine the timer's signals may all reach one thread, but the others still use processor time.
    shared = run.processor >= _ALONE * run.seconds or (run.waiting > _WAITING and not few)
    if cores == 1 or run.threads != 1 or shared:
        return None
    evidence = {"threads": 1, "seconds": run.seconds, "processor_seconds": run.processor, "images": run.shape.B}
    limit = next((name for name in ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT") if os.environ.get(name) == "1"), None)
    what = f"one of {cores} processors works"
    if run.regions:
        what += f": the environment has {limit}=1" if limit else f" in a call with {run.shape.B:,} images"
    found = made(path, "one_thread", None, what, evidence, 1 - 1 / cores)
    limited = run.regions and limit
    return replace(found, remedy=f"unset {limit}, and let OpenMP use all processors") if limited else found


def reasons(path: Path, said: str) -> Dict[int, List[str]]:
    """Return GCC's reasons why a file's loops have no vectors, by line, from `-fopt-info-vec-missed` or `-vec-all`."""
    found: Dict[int, List[str]] = {}
    pattern = r"^([^:\n]+):(\d{1,9}):\d+: missed: +not vectorized: (.*)$"
    for name, number, text in re.findall(pattern, said, re.MULTILINE):
        if Path(name).name == path.name and "nest" not in text:  # a nest is vectorised by its innermost loop
            found.setdefault(int(number), []).append(text)
    return found


def _shared_sums(lines: Sequence[str]) -> List[int]:
    """Return the numbers of lines such as `sums[thread] += ...`, whose elements share a cache line between threads."""
    numbers = re.findall(r"\b(\w+)\s*=\s*omp_get_thread_num\s*\(\s*\)\s*[;,]", "\n".join(lines))
    names = {"omp_get_thread_num()", *numbers}
    if any(re.search(r"alignas|aligned|\bpad", line) for line in lines):
        return []
    return source.matching(lines, rf"\[\s*(?:{'|'.join(map(re.escape, names))})\s*\](?:\.\w+)?\s*\+=")


def of_loop(
    path: Path, lines: Sequence[str], missed: Mapping[int, Sequence[str]], run: samples.CpuRun, hot: int
) -> Sequence[_Cost]:
    """Return findings from the instructions of an innermost loop: with samples, the one that takes most of the time.

    `missed` is what `reasons` returns, and `hot` the loop's line. Comments must be blanked.
    """
    found = _Costs(path)
    add, loop, share = found.add, MachineLoop(run.loop), run.loop_share
    form = loop.form  # without a fault in it
    least = _POINTED if loop.of(r"call\w* \*") else _CALLED
    called = [call for call in run.calls if call[1] > least][:1]
    for name, part, line in called:
        words = f"calls {name} in the innermost loop"
        after = "row" if loop.stores else form  # the products are in the function
        add("call_in_loop", 0.8 * max(share, part), line or hot, words, after, share=part)
    if not called and loop.dispatched and source.matching(lines, r"\bvirtual\b"):
        called = [("", share, hot)]
        words = "tests which virtual function to call for every product"
        add("call_in_loop", 0.8 * share, run.line_of(loop.dispatched) or hot, words, form, instructions=loop.dispatched)
    divisions = loop.often(loop.of(r"i?div[bwlq]?\b"))
    if divisions and loop.width == 1:  # otherwise products in vectors are in a loop of their own
        words = "divides integers, or takes remainders, in the innermost loop"
        add("integer_division", 0.8 * share, run.line_of(divisions) or hot, words, form, instructions=divisions)
        return found  # a division takes longer than the sum waits, and is the reason why there are no vectors
    fences, atomics = loop.of(r"mfence|lock or\w* \$0x0,"), loop.often(loop.of("lock"))
    if atomics and run.regions <= _REGIONS:  # the sum of a reduction is added once, at the end of its region
        words = f"{'has a memory fence' if atomics == fences else 'adds with an atomic instruction'} for every product"
        add("atomics", 0.8 * share, hot, words, "sum", instructions=atomics)
        return found
    integers = loop.often(loop.of(r"v?cvt(?:u?si2s[sd]|u?dq2p[sd]|t?[sp][sd]2u?(?:si|dq))"))
    doubles = loop.of(r"v?(?:cvtss2sd|cvtps2pd|f?n?m?(?:add|sub|mul)\d*[sp]d)\b")
    if doubles and (not integers or loop.of(r"v?cvt(?:ss2sd|ps2pd)")):  # otherwise doubles are indices
        words = "computes in double: half as many numbers in a vector, and conversions"
        add("double", 0.6 * share, hot, words, form, instructions=doubles[:10])
    if integers:
        words = "converts between integers and floats for every product"
        add("int_to_float", 0.6 * share, run.line_of(integers) or hot, words, form, instructions=integers[:10])
    if called or not run.loop:
        return found
    products = loop.products
    why = [text for line in sorted(set(run.loop_lines)) for text in missed.get(line, ())]
    # What the loop iterates over is guessed from the names in the line. State the guess only for a measured loop.
    over = _goes_over(lines, hot) if run.samples and not loop.contiguous else ""
    over = "" if over == "channels" and run.shape.C == 1 else over
    gathers = loop.of(r"v?(?:gather|insertps)")
    branches = loop.of(r"j(?!mp)|cmov")
    condition = _condition(lines, hot) if len(branches) > 1 or loop.of(".*mask|v?blend|v?pcmp|.*{%k") else None
    if len(branches) > 1 and loop.width == 1 and "control flow" in " ".join(why) and not loop.of("call"):
        condition, form = condition or hot, "row"  # as in std::vector::at
    if products and condition and (not loop.vectors or gathers):
        words = "tests a condition for every product"
        add("branch_in_loop", 0.65 * share, condition, words, form, branches=branches)
    if not products:
        if share > _EMPTY_LOOP:
            words = f"takes {share:.0%} of the time and multiplies nothing"
            add("no_products", share, hot, words, loop=run.loop[:20])
    elif over and (gathers or not loop.vectors):
        words = f"goes over {over}, which lie far apart in memory" + ("" if gathers else ": no vectors")
        add("strided_inner_loop", 0.85 * share, hot, words, "row", over=over, missed=why[:5], instructions=gathers)
    elif gathers and not condition:
        words = "gathers its numbers one by one into vectors"
        words += ", at indices that it reads from memory" if loop.indirect else ""
        add("strided_inner_loop", 0.8 * share, hot, words, "row", instructions=gathers)
    elif not loop.vectors and any("volatile type" in text for text in why) and (loop.stores or loop.on_stack):
        after = "sum" if loop.chained or loop.form == "sum" or _fixed_store(loop) else "row"
        words = "loads or stores a volatile variable for every product"
        add("volatile", 0.75 * share, hot, words, after, missed=why[:5])
    elif not loop.vectors and loop.chained and loop.carried and loop.form == "sum":
        add("serial_sum", 0.8 * share, hot, _SERIAL, "row", additions=loop.sums[:10])
    elif not loop.vectors and loop.overlapping:
        words = "stores its sums for every product: as far as the compiler sees, y may overlap what it reads"
        # A store to one address in every iteration is the sum of one output.
        several = "rows" if loop.stores >= _SEVERAL else "row"
        after = "sum" if loop.chained or _fixed_store(loop) else several
        add("alias", 0.75 * share, hot, words, after, instructions=loop.overlapping[:10])
        if after == "sum" and run.samples:
            add("serial_sum", 0.5 * share, hot, _SERIAL, "row", additions=loop.sums[:10])
    elif not loop.vectors and not condition and not loop.of(r"v?mulp[sd]") and (why or run.samples):
        reason = why[0] if why else "the compiler gives no reason"
        instructions = [*loop.sums, *loop.of(r"v?mul[sp]")][:10]
        words = f"uses no vectors: {reason}"
        add("not_vectorised", 0.7 * share, hot, words, "row", missed=reason, instructions=instructions)
    summed = loop.stores if run.samples else len(loop.reloaded)
    if loop.vectors and products and summed >= _STORED * products:
        words = f"loads and stores its sums in the innermost loop: {loop.stores} stores for {products} multiply-adds"
        add("sum_in_memory", 0.55 * share, hot, words, "tile", stores=loop.stores, products=products)
    return found


def _fixed_store(loop: MachineLoop) -> bool:
    """Whether the loop's stores are all to the same address in every iteration."""
    return bool(loop.stores) and sum(text in loop.stored for text in loop.overlapping) == loop.stores


def _difference(path: Path, run: samples.CpuRun) -> KernelFinding:
    """Return the largest difference between a kernel without a finding and our kernels."""
    loop, cores = MachineLoop(run.loop), len(os.sched_getaffinity(0))
    width, widest = loop.width, {"avx512": 16, "avx2": 8}.get(bindings.cpu_isa(), 4)
    accesses = loop.accesses / max(1, loop.products)
    outside = f"spends {1 - run.loop_share:.0%} of the time outside of its hottest loop"
    parts = {
        "one_thread": (cores / max(1, run.threads), f"{run.threads} of {cores} processors work"),
        "narrow_vectors": (widest / width, f"has vectors of {width}, not of {widest} numbers"),
        "little_reuse": (accesses / _LOADS, f"accesses memory {accesses:.1f} times per multiply-add in its loop"),
        "work_outside_loop": (1 / max(run.loop_share, 0.01), outside),
    }
    code = max(parts, key=lambda name: parts[name][0])
    ratio, words = parts[code]
    evidence = {name: round(one, 2) for name, (one, _) in parts.items()}
    name, part, called = run.calls[0] if run.calls else ("", 0.0, None)
    if part > run.loop_share:
        code, words = "call_in_loop", f"calls {name} in its hottest loop, which takes {part:.0%} of the time"
    line = called if code == "call_in_loop" else run.loop_lines[0] if run.loop_lines and code != "one_thread" else None
    after = run.after("tile")
    share = 1 - min(after, 0.9) if after and code != "one_thread" else 1 - 1 / max(ratio, 1.1)
    return made(path, code, line, words, evidence, share)


def _goes_over(lines: Sequence[str], hot: int) -> str:
    """Return what the hot line's loop iterates over: channels, filters, rows or images; "" for columns and taps."""
    for number in range(hot, max(0, hot - _NEAR), -1):
        loops = list(re.finditer(r"\b(?:while|do|for)\b", lines[number - 1]))
        if loops:  # the last one of a line is the innermost
            header = re.match(r"for\s*\([^;]*;\s*\w+\s*<=?\s*(?P<bound>[^;]+);", lines[number - 1][loops[-1].start() :])
            bound = header["bound"].strip() if header else ""
            return next((words for pattern, words in _BOUNDS if re.search(pattern, bound)), "")
    return ""


def _condition(lines: Sequence[str], hot: int) -> Optional[int]:
    """Return the line of a condition between the head of the hot line's loop and that line; None if there is none."""
    for number in range(hot, max(0, hot - _NEAR), -1):
        header = re.search(r"\b(?:for|while)\s*\(", lines[number - 1])
        rest = lines[number - 1][header.end() if header else 0 :]
        if re.search(r"\bif\s*\(", rest) or "?" in rest.rpartition(":")[0]:
            return number
        if header:
            return None
    return None


def made(
    path: Path, code: str, line: Optional[int], what: str, evidence: Mapping[str, Any], share: Optional[float] = None
) -> KernelFinding:
    """Make a finding with the remedy of its code; parameters as in `findings.at_line`."""
    remedy, kernel = REMEDIES[code]
    return at_line(path, line, code, f"{path.name}:{line} {what}" if line else what, remedy, evidence, share, kernel)
