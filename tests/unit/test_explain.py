"""`kernel explain`, and the reasons that `kernel check` adds, on CPU kernels with planted faults."""

import json
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import planted_cpu
import profiles
import pytest

import fashion_infer
from fashion_infer.errors import CheckFailed, DataError
from fashion_infer.explain import compiler, cpu, explanation, hardware, samples, sanitizer
from fashion_infer.judging.calls import Tried
from fashion_infer.kernel_files import build, formats

pytestmark = pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
# Verdicts for faults that no sanitizer reports, or not with the first images.
VERDICTS = {"stale_output": "accumulates", "stale_output_plain": "accumulates", "race_on_output": "race"}
CODES = {
    "write_before": "out_of_bounds_write",
    "null_pointer": "out_of_bounds_write",
    "freed_twice": "use_after_free",
    "past_a_global": "array_too_small",
    "local_after_its_block": "use_after_free",
    "input_of_another_image": "out_of_bounds_read",
    "stale_output_plain": "stale_output",
}


def recognised(tmp_path, text):
    (tmp_path / "conv.cpp").write_text(text)
    return formats.recognise(str(tmp_path / "conv.cpp"))


@pytest.mark.parametrize("name", profiles.drawn(list(planted_cpu.WRONG), 6))
def test_the_faulty_line_is_named(tmp_path, name):
    text = planted_cpu.WRONG[name]
    tried = Tried("layer", (2, 4, 14, 14, 6, 5), VERDICTS.get(name, "writes_after_end"), "")
    first = cpu.wrong(recognised(tmp_path, text), [tried], 60)[0]
    assert first.line in planted_cpu.marked(text) and first.code == CODES.get(name, name)
    assert first.source == text.splitlines()[first.line - 1].strip() and first.evidence and first.share is None


@pytest.mark.parametrize("name", planted_cpu.BY_VERDICT)
def test_a_line_is_named_only_if_it_shows_the_fault(tmp_path, name):
    verdict, code, text = planted_cpu.BY_VERDICT[name]
    (tmp_path / "conv.cpp").write_text(text)
    found = cpu.of_verdict(tmp_path / "conv.cpp", [verdict])
    assert [one.code for one in found] == ([code] if code else [])
    assert all(one.line in planted_cpu.marked(text) for one in found)


def test_memory_for_fewer_images_than_the_judges_largest_call(tmp_path):
    text = planted_cpu.naive(store=f"float seen[16]; seen[b] = sum;  // HERE\n{planted_cpu._STORE}")
    (first, *_) = cpu.wrong(recognised(tmp_path, text), [Tried("layer", (2, 1, 14, 14, 6, 5), "crash", "")], 60)
    assert first.code == "array_too_small" and first.line in planted_cpu.marked(text)


def test_a_variable_without_a_value(tmp_path):
    text = planted_cpu.naive().replace("float sum = 0", "float sum").replace("+ q];", "+ q];  // HERE")
    first = cpu.wrong(recognised(tmp_path, text), [Tried("layer", (2, 4, 14, 14, 6, 5), "unstable", "")], 60)[0]
    assert first.code == "uninitialised_read" and "sum" in first.source


def test_an_access_to_an_earlier_calls_output(tmp_path):
    """An index outside of the input may reach an output that the program has freed. The kernel frees nothing."""
    path = tmp_path / "conv.cpp"
    path.write_text("out[i] = in[i];")
    said = (
        "=1=ERROR: AddressSanitizer: heap-use-after-free on address 0x1\nREAD of size 4 at 0x1\n"
        f"    #0 0x1 in f {path}:1\nfreed by thread T0 here:\n    #1 0x2 in main /call.cpp:5\n"
        "previously allocated by thread T0 here:\n    #1 0x2 in tensor_of_output /call.cpp:3\n"
    )
    assert [one.code for one in cpu.of_report(said, path)] == ["out_of_bounds_read"]


@pytest.mark.slow
def test_a_correct_file_with_an_error_in_memory_is_not_timed(tmp_path, invoke):
    """Its results are correct, but it writes past an array, which may end the process that times it."""
    path = tmp_path / "conv.cpp"
    text = planted_cpu.naive(
        store="float* few = (float*)malloc(4 * K); few[K] = sum; "
        + planted_cpu._STORE.replace("sum", "few[K]")
        + "; free(few)"
    )
    path.write_text(text)
    code, out, _ = invoke("kernel", "explain", str(path), "--edition", "fa2017", "--json", str(tmp_path / "a"))
    found = json.loads((tmp_path / "a").read_text())
    assert code == 0 and found["right"] and found["milliseconds"] is None
    assert [one["code"] for one in found["findings"]] == ["array_too_small"] and "% of the time" not in out


@pytest.mark.parametrize("name", profiles.drawn(list(planted_cpu.SLOW), 1))
def test_the_cause_of_slowness_is_named_first(tmp_path, name):
    text = planted_cpu.SLOW[name]
    found, _ = cpu.slow(recognised(tmp_path, text), [Tried("layer", (10, 4, 40, 40, 16, 7), "", "")], 60)
    assert found[0].code == planted_cpu.SAME.get(name, name)
    assert all(one.evidence and 0 < one.share < 1 for one in found)
    assert [one.share for one in found] == sorted((one.share for one in found), reverse=True)


def by_the_compiler(tmp_path, text):
    (tmp_path / "out").mkdir()
    return compiler.findings(recognised(tmp_path, text), None, build.compile_here, tmp_path / "out")


@pytest.mark.parametrize("name", planted_cpu.SLOW)
def test_what_the_compiler_says_without_a_run(tmp_path, name):
    """The planted fault is the first finding if the compiler shows it. Threads and strides only show in a run."""
    text = planted_cpu.SLOW[name]
    found = by_the_compiler(tmp_path, text)
    other = {
        "strided_inner_loop": "serial_sum",
        "false_sharing": "serial_sum",
        "one_thread": "sum_in_memory",
        "library_in_loop": "sum_in_memory",
    }
    assert found[0].code == other.get(name, planted_cpu.SAME.get(name, name))
    assert found[0].line in planted_cpu.marked(text) or name == "one_thread"
    assert all(one.evidence and one.share is None for one in found)


def test_the_compiler_says_nothing_of_loops_that_use_vectors(tmp_path):
    scales = planted_cpu.shifted(
        before="float mean[64];\n",
        first="            for (int w = 0; w < Wo; ++w) row[w] *= 1.5f;\n"
        "            for (int w = 0; w < 64; ++w) mean[w] = (x[w] + x[w + 1]) * 1.5f;\n",
    )
    lines = scales.splitlines()
    assert by_the_compiler(tmp_path, planted_cpu.FAST) == []
    (tmp_path / "out").rename(tmp_path / "before")
    assert all("1.5f" not in lines[one.line - 1] for one in by_the_compiler(tmp_path, scales))


def test_what_is_said_of_a_loop_follows_from_its_instructions_and_the_report(tmp_path):
    path = tmp_path / "conv.cpp"
    path.write_text("for (;;)")
    summed = _FILE.format(path) + _INNER.format(1)
    assert compiler.of_assembly(path, summed, "conv.cpp:1:5: optimized: loop vectorized using 32 byte vectors") == []
    fresh = summed.replace("\taddss\t%xmm0, %xmm1", "\tvfmadd132ss\t%xmm2, %xmm1, %xmm0").replace("mulss", "movss")
    assert [one.code for one in compiler.of_assembly(path, summed)] == ["serial_sum"]
    assert compiler.of_assembly(path, fresh) == []
    why = "conv.cpp:1:5: missed: not vectorized: control flow in loop."
    assert [one.code for one in compiler.of_assembly(path, fresh, why)] == ["not_vectorised"]


_INNER = "\t.loc 1 1 1\n.L{0}:\n\tmulss\t(%rax,%rcx), %xmm0\n\taddss\t%xmm0, %xmm1\n\tjne\t.L{0}\n"
_FILE = '\t.file 1 "{}"\nf:\n'
HOSTILE = {  # each takes more than a minute if the time grows with the square of the size
    "blank lines": _FILE + "\n" * 4_000_000,
    "loops": _FILE + "".join(map(_INNER.format, range(60_000))),
    "nested loops": _FILE + "".join(f".L{n}:\n" for n in range(60_000)) + "\tjne\t.L1\n" * 60_000,
    "a long loop": _FILE
    + "\t.loc 1 1 1\n.L1:\n"
    + "".join(f"\tmulss\t{n}(%rax), %xmm1\n\tmovss\t%xmm1, {n}(%rdx)\n" for n in range(50_000))
    + "\tjne\t.L1\n",
    "long instructions": _FILE
    + _INNER.format(1).replace("jne", f"movss\t%xmm1, (%rdx)\n\tmulss\t{'a' * 4_000_000}\n\tjne"),
    "lines that are none": _FILE + _INNER.format(1).replace("1 1 1", "1 999999999 1"),
    "numbers": _FILE.replace("1", "9" * 5000) + _INNER.format(1).replace("1 1 1", "1 " + "9" * 5000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_time_to_read_hostile_assembly_is_bounded(tmp_path, name):
    path = tmp_path / "conv.cpp"
    path.write_text("for(" * 500_000)
    found = compiler.of_assembly(path, HOSTILE[name].format(path), "conv.cpp:1:1: missed: " * 300_000)
    assert len(found) <= 5 and all(one.line == 1 for one in found)


def test_only_so_much_of_an_assembly_is_read(tmp_path):
    with pytest.raises(DataError):
        by_the_compiler(tmp_path, planted_cpu.LARGE)


def test_sanitizers_find_nothing_in_a_correct_kernel(tmp_path):
    file = recognised(tmp_path, planted_cpu.naive())
    assert cpu.wrong(file, [Tried("layer", (2, 4, 14, 14, 6, 5), "", "")], 60) == []


def test_a_header_by_its_path_in_the_courses_tree(tmp_path):
    text = formats.template("minidnn-cpu").replace('"cpu-new-forward.h"', '"../../src/layer/custom/cpu-new-forward.h"')
    assert "../../src" in text
    (tmp_path / "cpu-new-forward.cc").write_text(text)
    file = formats.recognise(str(tmp_path / "cpu-new-forward.cc"))
    assert cpu.wrong(file, [Tried("layer", (2, 4, 14, 14, 6, 5), "", "")], 60) == []


@pytest.mark.slow
def test_an_explanation_of_a_correct_file(tmp_path, invoke):
    path = tmp_path / "conv.cpp"
    path.write_text(planted_cpu.SLOW["one_thread"])
    code, out, _ = invoke("kernel", "explain", str(path), "--edition", "sp2019", "--asm", "--json", str(tmp_path / "a"))
    found = json.loads((tmp_path / "a").read_text())
    assert code == 0 and found["right"] and found["milliseconds"] > 0 and found["layer"] == "sp2019, layer 2"
    assert found["findings"][0]["code"] == "one_thread" and found["findings"][0]["what"] in out
    assert any(found["between"]) and "row[w]" in found["listing"]
    figures = found["figures"]
    assert 0 < figures["gflop_s"] < figures["peak_gflop_s"] and figures["threads"] == 1


@pytest.mark.parametrize("ms, between", [(5, ("naive", "direct")), (10, (None, "naive")), (0.5, ("tiles", None))])
def test_the_neighbours_of_a_file_are_our_next_slower_and_next_faster_kernel(tmp_path, monkeypatch, ms, between):
    times = {"direct": 3, "conv.cpp": ms, "tiles": 1, "naive": 9}
    rows = [
        SimpleNamespace(name=name, median_ms=time, kind=explanation.OURS, file=name.endswith(".cpp"))
        for name, time in times.items()
    ]
    result = SimpleNamespace(cases=[SimpleNamespace(rows=rows)])
    monkeypatch.setattr(explanation._OneConvolution, "measure", lambda _: result)
    monkeypatch.setattr(explanation, "conclusions", lambda _: ["faster"])
    found = explanation._standing(recognised(tmp_path, planted_cpu.naive()), "sp2019", 1, 0)
    assert found == ("faster", ms, between)


def test_a_fast_kernel_has_no_finding(tmp_path):
    """A kernel that keeps sums in registers and uses all cores gets no finding, and has one thread per processor."""
    speed = cpu.slow(recognised(tmp_path, planted_cpu.FAST), [Tried("layer", (10, 4, 40, 40, 16, 7), "", "")], 60)
    assert [one.code for one in speed.findings] == []
    assert speed.run.threads == len(os.sched_getaffinity(0)) and speed.run.loop_share > 0.2


SCALAR = ("vmovss (%rax,%rcx,4),%xmm1", "vmulss (%rdx,%rcx,4),%xmm1,%xmm1", "vaddss %xmm1,%xmm0,%xmm0", "jne 1 <f>")
VECTOR = ("vmovups (%rax),%ymm1", "vmulps (%rdx),%ymm1,%ymm1", "vaddss %xmm1,%xmm0,%xmm0", "jne 1 <f>")
ADDS = "  sum += x[i] * k[i];"
CPU_RUNS = {  # name: (source, instructions of the loop, its lines, waits, codes of the findings)
    "a sum of each thread": ("int t = omp_get_thread_num();\nsums[t].value += x[i] * k[i];", SCALAR, (2,), (),
                             ["false_sharing", "serial_sum"]),
    "a count outside of the loop": (f"hits[omp_get_thread_num()] += 1;\n{ADDS}", SCALAR, (2,), (), ["serial_sum"]),
    "sums in lines of their own": ("int t = omp_get_thread_num() * 16;\nsums[t] += x[i] * k[i];", SCALAR, (2,), (),
                                   ["serial_sum"]),
    "padded sums": ("struct alignas(64) S { float v; };\nint t = omp_get_thread_num();\ns[t].v += x[i] * k[i];", SCALAR,
                    (3,), (), ["serial_sum"]),
    "channels far apart": (f"for (int c = 0; c < C; ++c)\n{ADDS}", SCALAR, (2,), (), ["strided_inner_loop"]),
    "channels side by side": (f"for (int c = 0; c < C; ++c)\n{ADDS}", VECTOR, (2,), (), ["serial_sum"]),
    "a while loop in one over channels": (f"for (int c = 0; c < C; ++c)\nwhile (i < n)\n{ADDS}", SCALAR, (3,), (),
                                          ["serial_sum"]),
    "a division": (f"for (;;)\n{ADDS}", ("idivl %ecx", *SCALAR), (2,), (), ["integer_division"]),
    "a condition": (f"for (;;)\nif (i < n)\n{ADDS}", ("jle 3 <f>", *SCALAR), (3,), (),
                    ["serial_sum", "branch_in_loop"]),
    "threads that wait for one another": (f"#pragma omp critical\n{ADDS}", SCALAR, (2,), ((1, 0.5),),
                                          ["waiting_inside", "serial_sum"]),
    "threads that wait at the end": (f"#pragma omp parallel for\n{ADDS}", SCALAR, (2,), ((1, 0.5),), ["serial_sum"]),
    "small parts": (f"#pragma omp parallel for schedule(dynamic, 1)\n{ADDS}", SCALAR, (2,), ((1, 0.5),),
                    ["waiting_inside", "serial_sum"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CPU_RUNS)
def test_what_is_said_of_a_run_follows_from_its_samples(tmp_path, name):
    text, loop, lines, waits, codes = CPU_RUNS[name]
    (tmp_path / "conv.cpp").write_text(text)
    run = samples.CpuRun(1.0, 2.0, samples=9, threads=2, loop=loop, loop_share=0.9, loop_lines=lines, waits=waits)
    found = cpu.of_run(tmp_path / "conv.cpp", "", run)
    assert sorted(one.code for one in found) == sorted(codes)
    assert sum(one.share for one in found if one.code in ("waiting_inside", "serial_sum")) <= 1


@pytest.mark.parametrize("to, hits, loop", [(7, {5: 55, 8: 45}, (4, 6)), (2, {2: 60, 8: 30, 5: 10}, (2, 8))])
def test_loops_that_end_with_a_jump_without_a_condition(tmp_path, monkeypatch, to, hits, loop):
    """They count only if the loops that end with a test take less than half of the time."""
    texts = (
        "mov %eax,%edx",
        "nop",
        "mulss (%rax),%xmm0",
        "nop",
        "nop",
        "addss %xmm0,%xmm1",
        "jne 4 <f>",
        "nop",
        f"jmp {to} <f>",
    )
    code = "0 <f>:\n" + "".join(f"   {at}:\t{text}\n" for at, text in enumerate(texts))
    monkeypatch.setattr(samples.programs, "output", lambda *_: code)
    assert samples._loop(tmp_path / "program", hits)[0] == loop


@pytest.mark.slow
def test_a_function_through_a_pointer(tmp_path):
    """The products are in a function whose address only the program's run knows."""
    text = planted_cpu.shifted(
        before="static float product(float a, float b) { return a * b; }\nfloat (*pointer)(float, float) = product;\n",
        inner="row[w] += pointer(weight, from[w]);  // HERE",
    )
    found, _ = cpu.slow(recognised(tmp_path, text), [Tried("layer", (10, 4, 40, 40, 16, 7), "", "")], 60)
    codes = {one.code: one.line for one in found}
    assert codes["call_in_loop"] in planted_cpu.marked(text) and "no_products" not in codes


def test_figures_without_binutils(tmp_path, monkeypatch):
    monkeypatch.setattr(samples.programs, "output", lambda *_: "sh: not found")
    (tmp_path / "conv.cpp").write_text(planted_cpu.naive())
    said = "call 0: status 0, 1 s\nmeasured 0.5 0.9 3 1e11\nsample 7 1a2b - -\n"
    run = samples.of(tmp_path / "program", said, tmp_path / "conv.cpp")
    assert (run.seconds, run.regions, run.threads, run.loop) == (0.5, 3, 1, ())
    monkeypatch.setattr(cpu.os, "sched_getaffinity", lambda _: {0, 1})
    # First the processor time of two threads, of which one was sampled, then that of one thread.
    for processor, codes in ((0.9, []), (0.6, ["one_thread"])):
        found = cpu.of_run(tmp_path / "conv.cpp", "", run._replace(processor=processor))
        assert [one.code for one in found] == codes
    figures = cpu.CpuSpeed([], run).figures((3, 12, 33, 33, 24, 7))
    assert figures["image_bytes"] == 4 * (12 * 33 * 33 + 24 * 27 * 27) and figures["weight_bytes"] == 4 * 24 * 12 * 49
    assert figures["gflop_s"] == pytest.approx(2 * figures["images"] * 24 * 27 * 27 * 12 * 49 / 0.5 / 1e9)
    assert cpu.CpuSpeed([], samples.of(tmp_path / "program", "killed", tmp_path / "conv.cpp")).figures((1,) * 6) == {}


@pytest.mark.parametrize(
    "texts, carried, reloaded",
    [
        (("mulss %xmm1,%xmm2", "addss %xmm2,%xmm0"), True, 0),
        (("vmulss (%rax),%xmm1,%xmm2", "vaddss %xmm2,%xmm0,%xmm3", "vaddss %xmm3,%xmm4,%xmm0"), True, 0),
        (("vmovss (%rax),%xmm0", "vfmadd132ss %xmm1,%xmm2,%xmm0", "vmovss %xmm0,(%rdi)"), False, 0),
        (("vxorps %xmm0,%xmm0,%xmm0", "vcvtsi2ss %eax,%xmm0,%xmm0", "vmulss %xmm0,%xmm1,%xmm2"), False, 0),
        (("vmovups 4(%rdi),%ymm0", "vfmadd231ps (%rax),%ymm1,%ymm0", "vmovups %ymm0,4(%rdi)"), False, 1),
        (("vmovups 8(%rdi),%ymm0", "vfmadd231ps (%rax),%ymm1,%ymm0", "vmovups %ymm0,4(%rdi)"), False, 0),
    ],
)
def test_which_values_a_machines_loop_keeps(texts, carried, reloaded):
    loop = samples.MachineLoop(texts)
    assert (loop.carried, len(loop.reloaded)) == (carried, reloaded)


LOOP = ("vmovups (%rax),%zmm0", "vfmadd213ps (%r9),%zmm1,%zmm0", "vmovups %zmm0,(%r9)", "add $0x40,%rax")


@pytest.mark.parametrize(
    "texts, vectors, stores, chained, overlapping",
    [
        (LOOP, True, 1, False, 1),  # loads and stores the same address in each iteration
        ((*LOOP, "add $0x40,%r9d"), True, 1, False, 0),
        (("vmulss (%rax),%xmm1,%xmm2", "vaddss %xmm2,%xmm0,%xmm0", "vaddss %xmm3,%xmm0,%xmm0"), False, 0, True, 0),
        ([f"vfmadd231ss (%rax),%xmm1,%xmm{n}" for n in range(2, 8)], False, 0, False, 0),  # six independent sums
        # Two elements of a row, and a register that was spilled.
        (("mulss 4(%rsi),%xmm0", "movss %xmm0,(%rdi)", "mulss 8(%rsi),%xmm0", "inc %rdi"), False, 1, False, 0),
        (("mulss 4(%rsp),%xmm0", "movss %xmm0,(%rdi)", "mulss 4(%rsp),%xmm0", "inc %rdi"), False, 1, False, 0),
        (("movss (%rsi),%xmm0", "movss %xmm0,(%rdi,%rcx,4)", "addss (%rsi),%xmm0", "inc %rcx"), False, 1, True, 1),
    ],
)
def test_properties_of_a_machine_loop(texts, vectors, stores, chained, overlapping):
    loop = samples.MachineLoop(texts)
    assert (loop.vectors, loop.stores, loop.chained) == (vectors, stores, chained)
    assert len(loop.overlapping) == overlapping


def test_explain_kernel_from_python(tmp_path):
    text = planted_cpu.WRONG["write_before"]
    (tmp_path / "conv.cpp").write_text(text)
    found = fashion_infer.explain_kernel(tmp_path / "conv.cpp", edition="sp2019")
    assert not found.right and found.findings[0].line in planted_cpu.marked(text)
    assert found.findings[0].what in found._repr_html_() and found.findings[0].code in repr(found)


@pytest.mark.slow
def test_check_and_explain_name_the_faulty_line(tmp_path, invoke):
    """They do in any file that builds: this one is a browser's second download, saved in UTF-16."""
    text, path = planted_cpu.WRONG["out_of_bounds_write"], tmp_path / "conv (1).cpp"
    path.write_text(text, encoding="utf-16")
    line = planted_cpu.marked(text)[0]
    for command in ("check", "explain"):
        code, out, _ = invoke("kernel", command, str(path), "--edition", "sp2019")
        assert code == CheckFailed.exit_code and f"conv (1).cpp:{line} " in out and "[out_of_bounds_write]" in out
        assert text.splitlines()[line - 1].partition("//")[0].strip() in out


def test_a_missing_layer(tmp_path, invoke):
    """A layer that the edition lacks is refused before the file is built: this file cannot be built."""
    (tmp_path / "conv.cpp").write_text(f"#error\n{planted_cpu.naive()}")
    code, _, err = invoke("kernel", "explain", str(tmp_path / "conv.cpp"), "--edition", "fa2017", "--layer", "2")
    assert code == 2 and err.count("\n") == 1


def test_without_a_sanitizer(tmp_path, invoke, monkeypatch):
    monkeypatch.setattr(cpu, "_SANITIZE", ["-fsanitize=nothing-of-the-kind"])
    (tmp_path / "conv.cpp").write_text(planted_cpu.WRONG["write_before"])
    code, out, _ = invoke("kernel", "check", str(tmp_path / "conv.cpp"), "--edition", "sp2019")
    assert code == CheckFailed.exit_code and "apt install" in out


def test_the_page_has_a_section_for_each_finding():
    page = (Path(__file__).resolve().parents[2] / "docs" / "why.md").read_text(encoding="utf-8")
    sections = [text.split("\n", 1) for text in re.split(r"^##+ ", page, flags=re.MULTILINE) if text.startswith("`")]
    assert all("\n\n    " in text and "\nRemedy: " in text for _, text in sections)
    codes = [heading.split("`")[1] for heading, _ in sections]
    assert len(sections) == len({heading for heading, _ in sections})
    assert {*cpu.REMEDIES, *hardware.REMEDIES} <= set(codes)
    source = Path(sanitizer.__file__).read_text(encoding="utf-8")
    assert all(f'"{code}"' in source for code in set(codes) - {*cpu.REMEDIES, *hardware.REMEDIES})


def test_only_incorrect_layers_are_explained(tmp_path):
    layers = [
        Tried(f"fa2018, layer {side}", (3, 1, side, side, 6, 5), code, "") for side, code in ((40, "race"), (9, ""))
    ]
    checked = explanation.Checked(recognised(tmp_path, planted_cpu.naive()), tuple(layers), None, "")
    assert [one.what for one in explanation._cases(checked)] == ["fa2018, layer 40"]


def test_a_file_that_exceeded_its_time_is_not_called_again(tmp_path, monkeypatch):
    monkeypatch.setattr(cpu, "wrong", lambda *_: pytest.fail("it was called"))
    tried = Tried("fa2018, layer 1", (3, 1, 9, 9, 6, 5), "time_limit", "")
    checked = explanation.Checked(recognised(tmp_path, planted_cpu.naive()), (tried,), None, "")
    assert explanation.why_wrong(checked) == ([], [])
