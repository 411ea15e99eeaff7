"""`kernel explain`, and the reasons that `kernel check` adds, on CPU kernels with planted faults."""

import json
import os
import re
import shutil
from pathlib import Path

import planted_cpu
import profiles
import pytest

import fashion_infer
from fashion_infer.errors import CheckFailed, DataError
from fashion_infer.explain import compiler, findings, machine_loop, samples, slow_cpu, slow_gpu, source, wrong
from fashion_infer.graph.layers import ConvolutionShape
from fashion_infer.judging import judge, reasons
from fashion_infer.judging.calls import Cause
from fashion_infer.judging.verdict import ShapeVerdict, Verdict
from fashion_infer.kernel_files import build, formats

_COMPILER = pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
pytestmark = [_COMPILER, pytest.mark.usefixtures("kernel_cache")]
CODES = {
    "input_of_another_image": "out_of_bounds_read",
    "stale_output_plain": "stale_output",
    "a row that threads share": "race_on_output",
    "a sum that threads share": "race_on_output",
}


def recognised(tmp_path, text):
    (tmp_path / "conv.cpp").write_text(text)
    return formats.recognise(str(tmp_path / "conv.cpp"))


SHAPE = ConvolutionShape(10, 4, 40, 40, 16, 7)


def verdict_of(file, *codes, images=2, layers=("the given sizes",)):
    """Return a verdict with a cause for each layer; "" for a correct one."""
    shape = ConvolutionShape(images, 4, 14, 14, 6, 5)
    shapes = [ShapeVerdict(what, shape, Cause(code, {"signal": "SIGSEGV", "first": 2, "state": "wrong", "seconds": 1})
                           if code else None, "float32") for what, code in zip(layers, codes)]  # fmt: skip
    return Verdict(file, tuple(shapes))


def slow(tmp_path, text):
    file = recognised(tmp_path, text)
    with samples.SampledProgram(file) as program:
        run = program.run(SHAPE, 60)
        return slow_cpu.of_run(file.path, program.vectors, run, 1e3 * run.seconds), run


@pytest.mark.parametrize("name", profiles.drawn(list(planted_cpu.WRONG), 2))
def test_the_faulty_line_is_named(tmp_path, name):
    text = planted_cpu.WRONG[name]
    verdict = judge.check(recognised(tmp_path, text), shapes=[(4, 14, 6, 5)])
    found, said = wrong.findings(verdict, 60)
    assert not verdict.right and not said
    assert found[0].line in planted_cpu.marked(text) and found[0].code == CODES.get(name, name)
    assert found[0].source == text.splitlines()[found[0].line - 1].strip()
    assert found[0].evidence and found[0].share is None


@pytest.mark.parametrize("name", planted_cpu.BY_VERDICT)
def test_a_line_is_named_only_if_it_shows_the_fault(tmp_path, name):
    verdict, code, text = planted_cpu.BY_VERDICT[name]
    (tmp_path / "conv.cpp").write_text(text)
    found = wrong.by_source(tmp_path / "conv.cpp", [verdict])
    assert [one.code for one in found] == ([code] if code else [])
    assert all(one.line in planted_cpu.marked(text) for one in found)


def test_memory_for_fewer_images_than_the_call_that_failed(tmp_path):
    text = planted_cpu.naive(store=f"float seen[16]; seen[b] = sum;  // HERE\n{planted_cpu._STORE}")
    (first, *_), _ = wrong.findings(verdict_of(recognised(tmp_path, text), "crash", images=33), 60)
    assert first.code == "array_too_small" and first.line in planted_cpu.marked(text)


_FRESH = "float* row = new float[4]; row[w % 4] *= 0.5f; "
_ROW, _PLACE = "row[w % 4]", planted_cpu._PLACE
UNWRITTEN = {  # lines marked HERE compute with memory that nothing has written
    "a variable": planted_cpu.naive(read="  // HERE").replace("float sum = 0", "float sum"),
    "memory from new": planted_cpu.naive(
        store=f"{_FRESH}{_ROW} += sum; {_PLACE} = {_ROW}; delete[] row", write="  // HERE"
    ),
    "the output": planted_cpu.naive(
        store=f"float* out = &{_PLACE}; float old = out[0];\n          *out = old * 0.5f + sum", write="  // HERE"
    ),
}


@pytest.mark.parametrize("name", UNWRITTEN)
def test_memory_that_nothing_has_written_has_a_line(tmp_path, name):
    text = UNWRITTEN[name]
    (first, *_), said = wrong.findings(verdict_of(recognised(tmp_path, text), "unstable"), 60)
    assert first.code == "uninitialised_read" and first.line in planted_cpu.marked(text) and not said


@pytest.mark.parametrize("factor", ["((h * 0.0f) / (h * 0.0f))", "std::log(-1.0f - w)"])
def test_an_operation_without_a_result_has_a_line_and_is_not_memory(tmp_path, factor):
    text = planted_cpu.naive(before="#include <cmath>\n", term=f"{planted_cpu._TERM} * {factor}", read="  // HERE")
    file = recognised(tmp_path, text)
    (first,), _ = wrong.findings(verdict_of(file, "computes_nan"), 60)
    assert first.code == "computes_nan" and first.line in planted_cpu.marked(text)
    assert not [one for one in wrong.findings(verdict_of(file, "unstable"), 60)[0] if "uninit" in one.code]


@pytest.mark.parametrize("code", ["crash", "time_limit", "other_layers"])
def test_without_a_line_one_sentence_says_what_to_try(tmp_path, code):
    found, said = wrong.findings(verdict_of(recognised(tmp_path, planted_cpu.naive()), code), 60)
    assert found == [] and len(said) == 1 and "Try" in said[0]


@pytest.mark.parametrize(
    "code, line, more",
    [("weights_flipped", 13, ""), ("border", 14, ""), ("constant_added", 14, ""), ("cached", None, ""),
     ("weights_flipped", 13, ";\nother += 2 * w"), ("not_linear", 13, " * (int)K")],
)  # fmt: skip
def test_the_line_that_a_wrong_index_is_in(tmp_path, code, line, more):
    file = recognised(tmp_path, planted_cpu.naive(before="// y = 1\n", term=planted_cpu._TERM + more))
    details = {
        "used": "k[m,c,3,4]",
        "belongs": "k[m,c,p,q]",
        "where": "w = 0",
        "state": "wrong",
        "value": 1.0,
        "tensor": "weights",
    }
    shape = ShapeVerdict("a", ConvolutionShape(2, 4, 14, 14, 6, 5), Cause(code, details), "incorrect")
    found, _ = wrong.findings(Verdict(file, (shape,)), 60)
    assert [one.line for one in found] == ([line + 1] if line else [])


def test_an_error_in_memory_that_the_results_do_not_show(tmp_path, invoke):
    path = tmp_path / "conv.cpp"
    text = planted_cpu.naive(
        store="float* few = (float*)malloc(4 * K); few[K] = sum; "
        + planted_cpu._STORE.replace("sum", "few[K]")
        + "; free(few)"
    )
    path.write_text(text)
    code, out, _ = invoke("kernel", "explain", str(path), "--edition", "fa2017", "--json")
    found = json.loads(out)
    assert code == CheckFailed.exit_code and not found["correct"] and found["milliseconds"] is None
    assert [one["code"] for one in found["findings"]] == ["array_too_small"]


@pytest.mark.parametrize("name", profiles.drawn(list(planted_cpu.SLOW), 1))
def test_the_cause_of_slowness_is_named_first(tmp_path, name):
    found, run = slow(tmp_path, planted_cpu.SLOW[name])
    # What a store per product and a shared cache line cost depends on the processor. Below 5% of the time, they are no
    # finding, and the sum that remains is.
    other = {"alias": "serial_sum", "false_sharing": "serial_sum"}
    assert found[0].code in (planted_cpu.SAME.get(name, name), other.get(name))
    assert all(one.evidence and 0 < one.share < 1 for one in found)
    assert [one.share for one in found] == sorted((one.share for one in found), reverse=True)
    assert sum(one.share for one in found) <= 1
    assert found[0].before_ms == pytest.approx(1e3 * run.seconds)
    assert all(one.after_ms == pytest.approx(one.before_ms - one.share * 1e3 * run.seconds) for one in found)


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
    checked = fresh.replace("\tjne", "\tjle\t.L9\n\tjne")  # as in std::vector::at
    assert [one.code for one in compiler.of_assembly(path, checked, why)] == ["branch_in_loop"]


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


def test_a_header_by_its_path_in_the_courses_tree(tmp_path):
    text = formats.template("minidnn-cpu").replace('"cpu-new-forward.h"', '"../../src/layer/custom/cpu-new-forward.h"')
    assert "../../src" in text
    (tmp_path / "cpu-new-forward.cc").write_text(text)
    file = formats.recognise(str(tmp_path / "cpu-new-forward.cc"))
    with samples.SampledProgram(file) as program:
        assert program.run(SHAPE, 60).threads == 1


@pytest.mark.slow
def test_an_explanation_of_a_correct_file(tmp_path, invoke):
    path = tmp_path / "conv.cpp"
    path.write_text(planted_cpu.SLOW["one_thread"])
    code, out, _ = invoke("kernel", "explain", str(path), "--edition", "sp2019", "--asm", "--json")
    found = json.loads(out)
    assert code == 0 and found["correct"] and found["milliseconds"] > 0 and found["layer"] == "sp2019, layer 2"
    assert found["findings"][0]["code"] == "one_thread"
    assert any(found["between"]) and "row[w]" in found["listing"]
    figures = found["figures"]
    assert 0 < figures["gflop_s"] < figures["peak_gflop_s"] and figures["threads"] == 1


def test_a_fast_kernel_has_no_finding(tmp_path):
    found, run = slow(tmp_path, planted_cpu.FAST)
    assert [one.code for one in found if (one.share or 0) > 0.3] == []  # other tests are running
    assert run.threads == len(os.sched_getaffinity(0)) and run.loop_share > 0.2


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
    "taps in a line of loops": (f"for (int c = 0; c < C; ++c) for (int q = 0; q < K; ++q)\n{ADDS}", SCALAR, (2,), (),
                                ["serial_sum"]),
    "a while loop in one over channels": (f"for (int c = 0; c < C; ++c)\nwhile (i < n)\n{ADDS}", SCALAR, (3,), (),
                                          ["serial_sum"]),
    "a division": (f"for (;;)\n{ADDS}", ("idivl %ecx", *SCALAR), (2,), (), ["integer_division"]),
    "an atomic": (f"for (;;)\n{ADDS}", ("lock cmpxchg %ecx,(%rsi)", *SCALAR), (2,), (), ["atomics"]),
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
    found = slow_cpu.of_run(tmp_path / "conv.cpp", "", run)
    assert sorted(one.code for one in found) == sorted(codes)
    assert sum(one.share for one in found if one.code in ("waiting_inside", "serial_sum")) <= 1


def test_figures_without_binutils(tmp_path, monkeypatch):
    monkeypatch.setattr(samples.programs, "output", lambda *_: "sh: not found")
    (tmp_path / "conv.cpp").write_text(planted_cpu.naive())
    said = "call 0: status 0, 1 s\nmeasured 0.5 0.9 3 1e11\nsample 7 1a2b - -\n"
    run = samples.of(tmp_path / "program", said, tmp_path / "conv.cpp")
    assert (run.seconds, run.regions, run.threads, run.loop) == (0.5, 3, 1, ())
    monkeypatch.setattr(slow_cpu.os, "sched_getaffinity", lambda _: {0, 1})
    # First the processor time of two threads, of which one was sampled, then that of one thread.
    for processor, codes in ((0.9, []), (0.6, ["one_thread"])):
        found = slow_cpu.of_run(tmp_path / "conv.cpp", "", run._replace(processor=processor))
        assert [one.code for one in found] == codes
    figures = run._replace(shape=ConvolutionShape(64, 12, 33, 33, 24, 7)).figures
    assert figures["image_bytes"] == 4 * (12 * 33 * 33 + 24 * 27 * 27) and figures["weight_bytes"] == 4 * 24 * 12 * 49
    assert figures["gflop_s"] == pytest.approx(2 * figures["images"] * 24 * 27 * 27 * 12 * 49 / 0.5 / 1e9)
    assert samples.of(tmp_path / "program", "killed", tmp_path / "conv.cpp").figures == {}


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
    loop = machine_loop.MachineLoop(texts)
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
    loop = machine_loop.MachineLoop(texts)
    assert (loop.vectors, loop.stores, loop.chained) == (vectors, stores, chained)
    assert len(loop.overlapping) == overlapping


def test_explain_kernel_from_python(tmp_path):
    text = planted_cpu.WRONG["out_of_bounds_write"]
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
        assert code == CheckFailed.exit_code and f"conv (1).cpp:{line}: " in out and "[out_of_bounds_write]" in out
        assert text.splitlines()[line - 1].partition("//")[0].strip() in out


def test_a_missing_layer(tmp_path, invoke):
    """A layer that the edition lacks is refused before the file is built: this file cannot be built."""
    (tmp_path / "conv.cpp").write_text(f"#error\n{planted_cpu.naive()}")
    code, _, err = invoke("kernel", "explain", str(tmp_path / "conv.cpp"), "--edition", "fa2017", "--layer", "2")
    assert code == 2 and err.count("\n") == 1


def test_the_page_has_a_section_for_each_finding():
    page = (Path(__file__).resolve().parents[2] / "docs" / "why.md").read_text(encoding="utf-8")
    sections = [text.split("\n", 1) for text in re.split(r"^##+ ", page, flags=re.MULTILINE) if text.startswith("`")]
    assert all("\n\n    " in text and "\nRemedy: " in text for _, text in sections)
    codes = [heading.split("`")[1] for heading, _ in sections]
    assert len(sections) == len({heading for heading, _ in sections})
    assert {*slow_cpu.REMEDIES, *slow_gpu.REMEDIES} <= set(codes)
    causes = {one.section for one in reasons.TABLE.values() if one.section} | {"stale_output"}
    assert causes <= set(codes)


def finding(share, code="alias"):
    return findings.KernelFinding(code, "", None, None, None, share, "", None, None, {})


def test_shares_are_exclusive_and_give_the_time_after_each_remedy():
    found = findings.timed(findings.exclusive([finding(0.8), finding(0.5), finding(0.5)]), 100)
    assert [one.share for one in found] == pytest.approx([0.8, 0.1, 0.05])
    assert [one.before_ms for one in found] == pytest.approx([100, 20, 10])
    assert [one.after_ms for one in found] == pytest.approx([20, 10, 5])


BUSY = samples.CpuRun(1.0, 1.0, samples=9, threads=2, loop=SCALAR, loop_share=0.9, loop_lines=(3,), shape=SHAPE,
                      remedies={"sum": (0.05, 0.05), "row": (0.02, 0.02), "tile": (0.01, 0.01)})  # fmt: skip


@pytest.mark.parametrize(
    "run, codes, after",
    [
        # Without the condition 0.5 s remain, by rows 0.2 s: the condition first.
        (BUSY, ["branch_in_loop", "serial_sum"], [500, 200]),
        (BUSY._replace(asleep=0.99), ["branch_in_loop", "serial_sum"], [500, 200]),  # it waits for its other threads
        (BUSY._replace(processor=0.51), ["serial_sum"], [400]),  # the condition costs nothing, so it is no finding
        (BUSY._replace(processor=0.2), [], []),
    ],
)
def test_what_a_remedy_brings_is_measured(tmp_path, run, codes, after):
    (tmp_path / "conv.cpp").write_text(f"for (;;)\nif (i < n)\n{ADDS}")
    run = run._replace(loop=("jle 3 <f>", *SCALAR))
    found = slow_cpu.of_run(tmp_path / "conv.cpp", "", run, 1000)
    assert [one.code for one in found] == codes
    assert [one.after_ms for one in found] == pytest.approx(after, rel=0.05)


LANES = ("vmulps (%rcx,%rax,1),%zmm5,%zmm2", *(16 * SCALAR[2:3]), *SCALAR[3:])  # sixteen products
DISPATCHED = ("mov 0x10(%rax),%rax", "cmp %r14,%rax", "jne 46a0 <f>", *SCALAR)
INDIRECT = ("movslq (%rax,%rcx,4),%rdx", "vmovss (%rbx,%rdx,4),%xmm1", *SCALAR[1:3], "inc %rcx", "jne 1 <f>")


@pytest.mark.parametrize(
    "run, codes",
    [
        (BUSY._replace(libraries=(("pthread_create", 0.9, 1),), asleep=0.5), ["parallel_inside"]),
        (BUSY._replace(libraries=(("pthread_mutex_lock", 0.9, 1),), asleep=0.5), ["waiting_inside"]),
        (BUSY._replace(libraries=(("malloc", 0.9, 1),), asleep=0.5), ["idle_time", "library_in_loop"]),
        (BUSY._replace(libraries=(("nanosleep", 0.2, 1),), asleep=0.6), ["idle_time", "serial_sum"]),
        (BUSY._replace(beside_share=0.4, beside_line=3), ["no_products", "serial_sum"]),
        # The copies save what the measured sum takes less, and not what they have of the samples.
        (BUSY._replace(libraries=(("malloc", 0.2, 1),), beside_share=0.3), ["no_products", "serial_sum"]),
        (BUSY._replace(parts=1e6, waiting=0.3, waits=((1, 0.3),)), ["small_parts", "serial_sum"]),
        (BUSY._replace(loop=LANES), ["serial_sum"]),
        (BUSY._replace(loop=("idivl %ecx", *LANES)), ["serial_sum"]),  # one division for sixteen products
        (BUSY._replace(loop=DISPATCHED), ["call_in_loop"]),
        (BUSY._replace(loop=("lock cmpxchg %ecx,(%rsi)", *SCALAR), regions=300), ["serial_sum"]),
        (BUSY._replace(loop=INDIRECT), ["extra_instructions", "serial_sum"]),
        (BUSY._replace(loop=("vmovss %xmm0,(%rdx)", *INDIRECT)), ["extra_instructions"]),  # as in a std::map
        (BUSY._replace(loop=INDIRECT, processor=0.5), ["serial_sum"]),  # the index costs nothing
        (BUSY._replace(regions=300, waiting=0.5), ["serial_sum"]),  # each region has enough work
        (BUSY._replace(regions=30_000, waiting=0.5), ["parallel_inside", "serial_sum"]),
    ],
)
def test_a_cause_has_the_evidence_for_it(tmp_path, run, codes):
    (tmp_path / "conv.cpp").write_text(f"usleep(1);\nfor (;;)  struct A {{ virtual int f(); }};\n{ADDS}")
    found = slow_cpu.of_run(tmp_path / "conv.cpp", "", run)
    assert [one.code for one in found][: len(codes)] == codes and sum(one.share for one in found) <= 1


def test_one_thread_that_has_most_of_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(slow_cpu.os, "sched_getaffinity", lambda _: set(range(4)))
    (tmp_path / "conv.cpp").write_text(ADDS)
    for busiest, codes in ((0.3, []), (0.9, ["one_thread"])):
        run = BUSY._replace(samples=200, loop=(), loop_lines=(), busiest=busiest)
        assert [one.code for one in slow_cpu.of_run(tmp_path / "conv.cpp", "", run)] == codes


@pytest.mark.parametrize("ours, code", [({"direct": 400.0}, None), ({"direct": 50.0}, "little_reuse")])
def test_a_file_far_behind_our_kernels_has_a_finding(tmp_path, ours, code):
    (tmp_path / "conv.cpp").write_text(f"for (;;)\nif (i < n)\n{ADDS}")
    loads = tuple(f"vmovups {n}(%rax,%rcx,4),%zmm{n}" for n in range(9))
    loop = (*loads, "vfmadd231ps (%rdx),%zmm1,%zmm0", "vfmadd231ps (%rbx),%zmm2,%zmm3", "jne 1 <f>")
    found = slow_cpu.of_run(tmp_path / "conv.cpp", "", BUSY._replace(loop=loop, processor=0.05), 1000, ours)
    assert [one.code for one in found] == ([code] if code else [])


def test_comments_are_no_code():
    lines = source.without_comments('/* f<<<1, 2>>>(); */ // g<<<\nchar* s = "h<<<";\n  /* a\n b */ f<<<g, b>>>(x);')
    assert source.launch(lines, "f(float*)") == 4 and [len(row) for row in lines[:2]] == [28, 17]
    assert source.launch(["f<<<1, 2>>>();", "g<<<1, 2>>>();"], "g") == 2
    assert source.launch(["f<<<1, 2>>>();", "g<<<1, 2>>>();"]) is None


def test_a_long_line_is_read_in_linear_time(tmp_path):
    (tmp_path / "conv.cpp").write_text(f"for (;;)\n{5_000_000 * '?'}\n{ADDS}")
    run = BUSY._replace(loop=("jle 3 <f>", "jle 4 <f>", *SCALAR), loop_lines=(3,))
    assert slow_cpu.of_run(tmp_path / "conv.cpp", "", run)
