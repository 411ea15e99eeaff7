# ruff: noqa: E501
"""Findings derived from made-up outputs of the GPU tools, in text and JSON. No GPU is needed."""

import sys
from pathlib import Path

import pytest

from fashion_infer.explain import listing, ncu, sanitizer, slow_gpu, wrong
from fashion_infer.graph.layers import ConvolutionShape
from fashion_infer.kernel_files import formats

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))
import planted_kernels as planted

MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size {size} bytes
=========     at forward(const float *, float *)+0x2a0 in {file}:{line}
=========     by thread (3,0,0) in block (7,0,0)
=========     {why}
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: conv_forward in {file}:40 [0x1234] in plugin.so
=========
========= ERROR SUMMARY: 1 error
"""
PAST = """Access at 0x7f2c00000510 is out of bounds
=========     and is 17 bytes after the nearest allocation at 0x7f2c00000000 of size 1,280 bytes"""
RACECHECK = """========= Error: Race reported between Write access at forward(const float *)+0x3b0 in {file}:{first}
=========     and Read access at forward(const float *)+0x4f0 in {file}:{second} [8192 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
SYNCCHECK = """========= Barrier error detected. Divergent thread(s) in block.
=========     at forward(const float *)+0x100 in {file}:{line}
=========     by thread (14,0,0) in block (0,0,0)
=========
"""
INITCHECK = """========= Uninitialized __global__ memory read of size 4 bytes
=========     at forward(const float *)+0x5c0 in {file}:{line}
=========     by thread (0,0,0) in block (0,0,0)
=========
"""
LAUNCH = """========= Program hit cudaErrorInvalidConfiguration (error 9) due to "invalid configuration argument" on CUDA API \
call to cudaLaunchKernel_ptsz.
=========     Saved host backtrace up to driver entry point at error
=========         Host Frame: conv_forward [0x9c1f] in plugin.so
=========
"""
COPY = LAUNCH.replace("Configuration (error 9)", "Value (error 1)").replace("LaunchKernel_ptsz", "MemcpyToSymbol")
TEXTS = {name: text for name, (_, text) in planted.WRONG.items()}
TEXTS["failed_call"] = "// cudaMemcpyToSymbol\ncudaMemcpyToSymbol(weights, k, 9);  // here\ny[i] = sum;\n"


def lines(name, folder):
    path = folder / "new-forward.cu"
    path.write_text(TEXTS[name])
    return path, sorted(planted.marked(path.read_text()))


@pytest.mark.parametrize(
    "name, tool, text, why",
    [
        ("missing_barrier", "racecheck", RACECHECK, ""),
        ("out_of_bounds_read", "memcheck", MEMCHECK, PAST),
        ("misaligned_access", "memcheck", MEMCHECK, "Address 0x7f2c00000504 is misaligned"),
        ("divergent_barrier", "synccheck", SYNCCHECK, ""),
        ("wrong_launch", "memcheck", LAUNCH, ""),
        ("failed_call", "memcheck", COPY, ""),
    ],
)
def test_a_report_names_the_line(name, tool, text, why, tmp_path):
    path, marked = lines(name, tmp_path)
    said = text.format(file=path.name, line=marked[0], first=marked[0], second=marked[0] + 5, size=4, why=why)
    (found,) = sanitizer.findings(sanitizer.reports(said, tool), path)
    assert found.code == name and found.line == marked[0]
    assert found.source == path.read_text().splitlines()[marked[0] - 1].strip()
    assert found.share is None and found.evidence["said"]
    assert why != PAST or {"17", "1,280"} <= set(found.what.split())


@pytest.mark.parametrize("shapes, reports", [(1, True), (2, False)])
def test_a_second_shape_is_run_only_if_the_first_shows_nothing(shapes, reports, tmp_path, monkeypatch):
    path, marked = lines("divergent_barrier", tmp_path)
    said, images = SYNCCHECK.format(file=path.name, line=marked[0]) if reports else "", set()
    (case,) = planted.verdict(formats.recognise(path), "divergent_barrier").shapes
    cases = [case, case._replace(shape=case.shape._replace(B=1))]
    monkeypatch.setattr(wrong.programs, "find_tool", lambda name: name)
    monkeypatch.setattr(wrong.loading, "built", lambda file: (None, path))
    monkeypatch.setattr(wrong.device_call, "ran", lambda command, seconds: images.update(command[-6:-5]) or said)
    found = wrong.under_sanitizer(formats.recognise(path), cases, 60)
    assert bool(found) == reports and len(images) == shapes


def test_reports_of_other_files_are_left_out(tmp_path):
    path, _ = lines("out_of_bounds_read", tmp_path)
    said = MEMCHECK.format(file="device.cuh", line=3, size=4, why=PAST)
    assert sanitizer.reports(said, "memcheck") and not sanitizer.findings(sanitizer.reports(said, "memcheck"), path)


@pytest.mark.parametrize("name, verdict", [("race_on_output", "race"), ("stale_output", "accumulates")])
def test_some_verdicts_name_the_store(name, verdict, tmp_path):
    path, marked = lines(name, tmp_path)
    (found,) = wrong.by_source(path, [verdict], "gpu")
    assert (found.code, [found.line]) == (name, marked)


LAYER = ConvolutionShape(100, 1, 28, 28, 50, 5)


def kernel(rows, grid=5000, block=1024, **metrics):
    """Return ncu's tables with one kernel. A row is (line, instruction, executions by warps, further metrics)."""
    known = {"gpu__time_duration.sum": 1e6, "device__attribute_multiprocessor_count": 132, **metrics}
    known.update(launch__grid_size=grid, launch__block_size=block)
    made = []
    for number, (line, sass, count, more) in enumerate(rows):
        executed = {"inst_executed": count, "thread_inst_executed": 32 * count}
        made.append({"pc": number, "file": "/a/conv.cu", "line": line, "sass": sass, **executed, **more})
    return {"kernels": [{"name": "forward", "metrics": known, "rules": [], "instructions": made}]}


def findings(tables, tmp_path, gains=None):
    path = tmp_path / "conv.cu"
    path.write_text("// a line\n" * 40)
    return slow_gpu.of_tables(tables, path, LAYER, gains)


def codes(tables, tmp_path):
    return [finding.code for finding in findings(tables, tmp_path)]


WARPS = LAYER.operations // 64


@pytest.mark.parametrize(
    "code, rows, more",
    [
        ("sum_in_global_memory", [(5, "LDG.E R1", 3 * WARPS, {}), (5, "FFMA R1", WARPS, {}), (5, "STG.E", WARPS, {})], {}),
        ("sum_in_global_memory", [(5, "LDG.E R1", 2 * WARPS, {}), (5, "FFMA R1", WARPS, {}), (5, "STG.E", WARPS, {})], {}),
        ("unrolled_in_memory", [(5, "LDG.E R1", WARPS, {}), (5, "STG.E", WARPS, {}), (9, "FFMA R1", WARPS // 99, {})], {}),
        ("no_reuse", [(5, "@P0 LDG.E R1", 2 * WARPS, {}), (5, "FFMA R1", WARPS, {})], {}),
        ("reads_per_product", [(5, "LDG.E R1", 2 * WARPS, {}), (5, "FFMA R1", WARPS, {})], {"l1tex__t_sector_hit_rate.pct": 95}),
        (
            "uncoalesced_reads",
            [(5, "LDG.E R1", WARPS, {"memory_l2_theoretical_sectors_global": 32 * WARPS,
                                     "memory_l2_theoretical_sectors_global_ideal": 4 * WARPS}),
             (6, "FFMA R1", WARPS, {})],
            {},
        ),
        (
            "bank_conflicts",
            [(5, "LDS R1", WARPS, {"memory_l1_wavefronts_shared": 32 * WARPS, "memory_l1_wavefronts_shared_ideal": WARPS}),
             (6, "FFMA R1", WARPS, {}), (7, "BRA", WARPS, {"smsp__pcsamp_warps_issue_stalled_mio_throttle": 9})],
            {},
        ),
        ("spills", [(5, "LDL R1", WARPS, {}), (6, "FFMA R1", 2 * WARPS, {})], {}),
        ("integer_division", [(5, "MUFU.RCP R1", WARPS, {}), (6, "FFMA R1", WARPS, {}), (6, "IMAD", 18 * WARPS, {})], {}),
        ("double", [(5, "F2F.F64.F32 R1", 2 * WARPS, {}), (5, "DFMA R1", WARPS, {}), (6, "IMAD R1", WARPS, {})], {}),
        ("small_grid", [(6, "FFMA R1", WARPS, {})], {"grid": 16, "block": 256}),
        ("idle_threads", [(6, "FFMA R1", WARPS, {})], {"grid": 5000, "block": 4096, "smsp__thread_inst_executed_per_inst_executed.ratio": 24.0}),
        ("atomics", [(6, "RED.E.ADD.F32", WARPS, {}), (6, "FFMA R1", WARPS, {})], {}),
        ("few_warps", [(6, "LDS R1", 2 * WARPS, {}), (6, "FFMA R1", WARPS, {})],
         {"sm__warps_active.avg.pct_of_peak_sustained_active": 3.0, "launch__occupancy_limit_shared_mem": 1,
          "launch__occupancy_limit_warps": 32, "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active": 10.0}),
        ("tail", [(6, "LDS R1", WARPS // 8, {}), (6, "FFMA R1", WARPS, {})],
         {"grid": 300, "block": 256, "launch__waves_per_multiprocessor": 1.1}),
    ],
)  # fmt: skip
def test_counts_give_the_finding(code, rows, more, tmp_path):
    assert codes(kernel(rows, **{"grid": 2000, "block": 256, **more}), tmp_path)[0] == code


def test_a_finding_names_the_step_that_removes_it(tmp_path):
    rows = [(5, "LDG.E R1", 2 * WARPS, {}), (6, "FFMA R1", WARPS, {})]
    gains = slow_gpu.gains_of(LAYER)
    busy = {"sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active": 75.0}
    found = findings(kernel(rows, grid=2000, **busy), tmp_path, gains)
    assert all(one.evidence and 0 <= one.share < 1 for one in found)
    (no_reuse,) = [one for one in found if one.code == "no_reuse"]
    assert no_reuse.share <= 0.25  # shared memory keeps the pipe as busy
    gain = gains["shared-tile"]  # a step that gained less than 1.2 x is no reason to take it
    assert (no_reuse.line, no_reuse.step) == (5, "shared-tile" if gain >= 1.2 else None)
    assert no_reuse.gain == (gain if gain >= 1.2 else None)


FORMATS = {one.name: one for one in formats.FORMATS}


def test_time_outside_kernels_names_the_call(tmp_path):
    path = tmp_path / "conv.cu"
    path.write_text(planted.SLOW["allocation_in_call"][1])
    records = [{"kind": "kernel", "ns": 1e5}, {"kind": "call", "name": "cudaMalloc", "ns": 8e5}]
    found = slow_gpu.outside({"seconds": [1e-3], "records": records}, 1e-4, path, FORMATS["mxnet-gpu"])
    assert found[0].code == "allocation_in_call" and "cudaMalloc" in found[0].source
    assert slow_gpu.outside({"seconds": [1e-3]}, 9e-4, path, FORMATS["mxnet-gpu"]) == []


@pytest.mark.parametrize("nanoseconds, shares", [(2e5, [0.5]), (4e5, [])])
def test_launches_after_the_profiled_ones_count_by_their_products(nanoseconds, shares, tmp_path):
    path = tmp_path / "conv.cu"
    path.write_text("for (;;) {\n  forward<<<9, 64>>>();\n  cudaDeviceSynchronize();\n}\n")
    rows = [(1, "FFMA R1", WARPS // 120, {})]
    tables = {"kernels": 12 * kernel(rows, **{"gpu__time_duration.sum": nanoseconds / 120})["kernels"]}
    raw = {"layer": list(LAYER), "call": {"seconds": [4e-4]}, "ncu": tables}
    found, _ = slow_gpu.findings(raw, path, FORMATS["mxnet-gpu"], 0.4)
    assert [round(one.share, 1) for one in found if one.code == "synchronisation_in_call"] == shares


PHASES = """\
void GPUInterface::conv_forward_gpu_prolog(const float* x) { cudaMalloc(&d, 9); cudaMemcpy(d, x, 9, a); }
void GPUInterface::conv_forward_gpu(float* d) {{
  {inside}
  forward<<<1, 2>>>(d);
}}
void GPUInterface::conv_forward_gpu_epilog(float* y) { cudaMemcpy(y, d, 9, b); cudaFree(d); }
"""


@pytest.mark.parametrize("inside, codes", [("", []), ("cudaMalloc(&e, 9);", ["allocation_in_call"])])
def test_prolog_and_epilog_are_a_line_and_no_finding(inside, codes, tmp_path):
    path = tmp_path / "conv.cu"
    path.write_text(PHASES.replace("{{", "{").replace("}}", "}").replace("{inside}", inside))
    file_format = next(one for one in formats.FORMATS if one.phases and one.backend == "gpu")
    launched = {"kind": "kernel", "name": "forward", "ns": 1e5, "grid": [9, 1, 1], "block": [64, 1, 1]}
    records = [launched, {"kind": "call", "name": "cudaMalloc", "ns": 4e6}]
    call = {"seconds": [5e-3], "phases": [[4e-4, 5e-3]], "records": records}
    found, notes = slow_gpu.findings({"layer": list(LAYER), "call": call}, path, file_format, 0.4)
    assert [one.code for one in found if one.code.endswith("_in_call")] == codes
    assert len(notes) == 1 and "4.6" in notes[0] and "Op Time" in notes[0]
    assert all(one.line == 3 for one in found if one.code == "allocation_in_call")


def test_shares_of_several_kernels_are_at_most_the_whole(tmp_path):
    path = tmp_path / "conv.cu"
    path.write_text("// a line\n" * 40)
    rows = [(5, "LDG.E R1", 2 * WARPS, {}), (5, "FFMA R1", WARPS, {}), (6, "LDL R1", 3 * WARPS, {}),
            (7, "MUFU.RCP R1", WARPS, {}), (8, "STG.E", WARPS, {})]  # fmt: skip
    tables = {"kernels": kernel(rows)["kernels"] + kernel(rows, grid=16, block=64)["kernels"]}
    call = {"seconds": [4e-3], "records": [{"kind": "kernel", "ns": 2e6}]}
    found, _ = slow_gpu.findings({"layer": list(LAYER), "call": call, "ncu": tables}, path, FORMATS["mxnet-gpu"], 4.0)
    assert len(found) > 2 and sum(one.share for one in found) <= 1
    assert found[0].before_ms == 4.0 and all(one.after_ms >= 0 for one in found)


def test_a_kernel_that_multiplies_nothing_has_no_reads_per_multiply_add(tmp_path):
    rows = [(5, "LDG.E R1", WARPS, {}), (5, "STG.E R1", WARPS, {}), (6, "BRA", 9 * WARPS, {})]
    found = codes(kernel(rows), tmp_path)
    assert found and not {"no_reuse", "reads_per_product", "loop_overhead", "integer_division"} & set(found)


def test_waits_for_spilled_values_count_where_they_are_used(tmp_path):
    rows = [(5, "LDL R1", 9 * WARPS, {}), (5, "LDG.E R1", WARPS, {}), (6, "LDC R1", 90 * WARPS, {}),
            (7, "FFMA R1", WARPS, {"smsp__pcsamp_warps_issue_stalled_long_scoreboard": 9})]  # fmt: skip
    shares = {one.code: one.share for one in findings(kernel(rows), tmp_path)}
    assert shares["spills"] == pytest.approx(0.9)


def test_atomic_additions_in_shared_memory_stage_nothing(tmp_path):
    rows = [(5, "LDG.E R1", 2 * WARPS, {}), (5, "LDS R1", 2 * WARPS, {}), (5, "FMUL R1", WARPS, {}),
            (5, "ATOMS.CAST.SPIN", WARPS, {}), (4, "STS", WARPS // 99, {}), (7, "LDS R1", WARPS // 99, {})]  # fmt: skip
    found = codes(kernel(rows, **{"smsp__thread_inst_executed_per_inst_executed.ratio": 24.0}), tmp_path)
    assert found[0] == "atomics" and not {"restaged_input", "two_reads_per_product", "idle_threads"} & set(found)


@pytest.mark.parametrize("product", ["DFMA", "DMUL", "HFMA2", "@!P0 FFMA"])
def test_all_types_of_products_are_counted(product, tmp_path):
    rows = [(5, "LDG.E R1", 2 * WARPS, {}), (5, f"{product} R1", WARPS, {}), (9, "FMUL", WARPS // 999, {})]
    (reads,) = [one for one in findings(kernel(rows), tmp_path) if one.code == "no_reuse"]
    assert reads.what.startswith("2.0 ")


def test_a_launch_is_named_by_its_line_and_not_by_a_comment(tmp_path):
    path = tmp_path / "conv.cu"
    path.write_text("// forward<<<1, 1>>>();\nother<<<1, 1>>>();\nforward<<<2, 2>>>();\n")
    (found, *_) = slow_gpu.of_tables(kernel([(6, "FFMA R1", WARPS, {})], grid=16, block=256), path, LAYER)
    assert (found.code, found.line) == ("small_grid", 3)


def test_a_read_past_the_end_is_not_repeated_as_uninitialised(tmp_path):
    path, marked = lines("out_of_bounds_read", tmp_path)
    said = {"memcheck": MEMCHECK, "initcheck": INITCHECK}
    values = {"file": path.name, "line": marked[0], "size": 4, "why": PAST}
    found = [one for tool, text in said.items() for one in sanitizer.reports(text.format(**values), tool)]
    assert len(found) == 2 and [one.code for one in sanitizer.findings(found, path)] == ["out_of_bounds_read"]


def test_registers_and_spills_in_ptxas_output():
    said = """ptxas info    : Compiling entry function '_Z7forwardPKf' for 'sm_90a'
ptxas info    : Function properties for _Z7forwardPKf
    8 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 1332 bytes smem, 400 bytes cmem[0]
"""
    assert ncu.used(said) == [{"kernel": "_Z7forwardPKf", "registers": 32, "spills": 56, "stack": 8, "shared": 1332}]
    assert [one.code for one in slow_gpu.of_compiler(ncu.used(said), {})] == ["spills"]
    none = said.replace("24 bytes spill stores, 32 bytes", "0 bytes spill stores, 0 bytes")
    for registers, warps in ((128, None), (168, 12), (255, 8)):  # warps by NVIDIA's occupancy calculator
        used = ncu.used(none.replace("Used 32", f"Used {registers}"))
        found = slow_gpu.of_compiler(used, {})
        assert [one.evidence["warps"] for one in found if one.code == "too_many_registers"] == [warps][: bool(warps)]


def test_the_hot_loop_is_shown_with_its_source_lines(tmp_path):
    path = tmp_path / "conv.cu"
    path.write_text("int a;\nsum += x * k;\nint b;\n")
    text = """\t//## File "/a/conv.cu", line 1
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_0:
\t//## File "/a/conv.cu", line 2
        /*0010*/                   FFMA R4, R2, R3, R4 ;
        /*0020*/               @P0 BRA `(.L_x_0) ;
\t//## File "/a/conv.cu", line 3
        /*0030*/                   EXIT ;
"""
    assert listing.beside_source(text, path).splitlines()[0] == "conv.cu:2: sum += x * k;"
    assert [row.split()[0] for row in listing.beside_source(text, path).splitlines()[1:]] == ["FFMA", "@P0"]
