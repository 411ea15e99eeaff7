"""The judge's callers: in this process, in processes of their own, and in a program built with sanitizers."""

import os
import shutil
import signal
import time

import bounds
import numpy as np
import pytest

from fashion_infer.errors import DeviceError
from fashion_infer.graph.layers import Convolution, ConvolutionShape
from fashion_infer.judging import tensors
from fashion_infer.judging.callers import here, isolated, sanitized
from fashion_infer.judging.callers.sanitized import SanitizedCall
from fashion_infer.judging.calls import Conditions, Failed
from fashion_infer.judging.inputs import Seed, random_inputs
from fashion_infer.kernel_files import formats, loading

_COMPILER = pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
pytestmark = [_COMPILER, pytest.mark.usefixtures("kernel_cache")]
# One file has all faults, because each build takes a second: the number of filters, from 16 on, selects one. Faults are
# statements before or after those that compute the outputs.
BEFORE = {
    "kept": "",
    "empty": "",
    "local array": "float t[4]; for (int i = 0; i < W; ++i) t[i] = x[i]; y[0] = t[3];",
    "own array": "float* t = malloc(4 * W); t[W] = 1; y[0] = t[W]; free(t);",
    "global array": "static float few[24]; float* volatile start = few; start[24] = 1; y[0] = start[24];",
    "after its block": "float* t; { float one[4]; one[0] = x[0]; t = one; } y[0] = *(volatile float*)t;",
    "after free": "float* t = malloc(4 * W); memset(t, 0, 4 * W); free(t); y[0] = t[W - 1];",
    "freed twice": "float* volatile t = malloc(4 * W); free(t); free(t);",
    "overlap": "float* t = malloc(4 * W); memcpy(t, x, 4 * W); memcpy(t, t + 1, 4 * W - 8); y[0] = t[1]; free(t);",
    "int overflow": "volatile int most = 2147483647; y[0] = most + B;",
    "shift": "volatile int far = 40; y[0] = 1 << far;",
    "float to int": "volatile float large = 1e20f; y[0] = (int)large;",
    "misaligned": "typedef float v8 __attribute__((vector_size(32))); y[0] = (*(v8*)(x + 1))[0];",
}
AFTER = {
    "nothing": "",
    "writes after": "y[outputs] = 1;",
    "writes NaN after": "y[outputs + 1000] = NAN;",
    "writes before": "y[-1] = 1;",
    "writes before data": "((float*)x)[-1] = 1;",
    "changes weights": "((float*)k)[0] += 1;",
    "copies guard": "memcpy(y, x - 100, 400);",
    "copies after": "memcpy(y, y + outputs, 400);",
    "computes NaN": "y[0] = sqrtf(-1 - k[0] * k[0]);",
    "own memory": "float* volatile own = malloc(9000); y[0] = own[2000]; free(own);",
    "leak": "float* volatile own = malloc(1 << 20); own[0] = 1;",
    "null": "*(volatile float*)8 = 1;",
    "exit": "exit(B);",
    "division": "volatile int none = 0; y[0] = B / none;",
    "bad free": "char* p = malloc(100); free(p + 16);",
    "stack": "volatile float big[4000000]; big[0] = big[3999999] = 1;",
    "abort": "if (B > 1) abort();",
    "hangs": "for (volatile int forever = B > 1; forever;) {}",
    "stack of a thread": "\n#pragma omp parallel num_threads(2)\n"
    "{ volatile float big[4000000]; big[3999999] = big[0] = 1; }",
    "crash in a thread": "\n#pragma omp parallel num_threads(2)\n*(volatile float*)0x123456789000 = 1;",
    "reads data after": "y[0] += x[B * C * H * W];",
    "reads data before": "y[0] += x[-1];",
    "writes long after": "y[outputs + 10] = 1;",
    "vector": "typedef float v8 __attribute__((vector_size(32), aligned(4))); *(v8*)(y + outputs - 5) = (v8){0};",
    "prints": 'dprintf(2, "B is %d\\n", B);',
}
FILTERS = {name: number for number, name in enumerate([*BEFORE, *AFTER], start=16)}
PARAMETERS = "(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K)"
HEAD = """
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void computePARAMETERS {
  const int Ho = H - K + 1, Wo = W - K + 1;
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h)
        for (int w = 0; w < Wo; ++w) {
          float sum = 0;
          for (int c = 0; c < C; ++c)
            for (int p = 0; p < K; ++p)
              for (int q = 0; q < K; ++q)
                sum += x[((b * C + c) * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
          y[((b * M + m) * Ho + h) * Wo + w] = sum;
        }
}
"""
COMPUTE = "compute(x, k, y, B, M, C, H, W, K);\n"


def text_of(*statements, faults=(), start=""):
    """Return a kernel file whose function consists of statements."""
    head = "".join(
        f"static __attribute__((noinline)) void fault{FILTERS[name]}PARAMETERS {{ const int outputs = B * M * "
        f"(H - K + 1) * (W - K + 1); (void)outputs; {text} }}\n"
        for name, text in faults
    )
    text = f"{HEAD}{head}{start}void conv_forwardPARAMETERS {{\n{''.join(statements)}}}\n"
    return text.replace("PARAMETERS", PARAMETERS)


def selected(faults):
    return "".join(f"if (M == {FILTERS[name]}) fault{FILTERS[name]}(x, k, y, B, M, C, H, W, K);\n" for name in faults)


KEPT = f"if (M == {FILTERS['kept']}) {{ static const float* first; first = first ? first : k; k = first; }}\n"
EMPTY = f"if (M == {FILTERS['empty']}) return;\n"
TEXT = text_of(KEPT, EMPTY, selected(BEFORE), COMPUTE, selected(AFTER), faults=[*BEFORE.items(), *AFTER.items()])


def written(folder, text, name="conv.c"):
    (folder / name).write_text(text)
    return formats.recognise(folder / name)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return written(tmp_path_factory.mktemp("callers"), TEXT)


@pytest.fixture(scope="module")
def server():
    with isolated.Server() as server:
        yield server


def shape_of(name, images=16):
    """Return the shape that selects a fault. With 16 images, each tensor's size is a multiple of 64 bytes."""
    return ConvolutionShape(images, 2, 9, 11, FILTERS[name], 3)


def inputs_of(name="nothing", number=0, images=16):
    return random_inputs(Seed(0).stream(number), shape_of(name, images))


def caller(file, name, **options):
    return here.caller_for(loading.load(file), shape_of(name), **options)


def correct(output, inputs):
    layer = Convolution(inputs.shape.M, inputs.shape.K)
    return bounds.excess(output, bounds.forward([layer], [inputs.k], inputs.x)) <= 1


CONDITIONS = [
    Conditions(),
    Conditions(threads=1),
    Conditions(moved=True),
    Conditions(guarded=True),
    Conditions(examine=True),
    Conditions(examine=True, own="number"),
    Conditions(output="number", guard="number"),
]


def test_a_correct_kernel_is_correct_under_all_conditions(file):
    kernel = caller(file, "nothing")
    for number, conditions in enumerate([*CONDITIONS, *CONDITIONS]):
        inputs = inputs_of("nothing", number, (16, 3, 7)[number % 3])
        called = kernel.call(inputs, conditions)
        assert (called.stray, called.inputs_changed) == ("", False)
        assert correct(called.output, inputs)


@pytest.mark.parametrize(
    "name, stray",
    [
        ("writes after", "writes_after_end"),
        ("writes NaN after", "writes_after_end"),
        ("writes before", "writes_before_start"),
        ("writes before data", "writes_outside"),
    ],
)
def test_writes_outside_of_the_tensors_are_found(file, name, stray):
    for conditions in (Conditions(), Conditions(guard="number", output="number")):
        assert caller(file, name).call(inputs_of(name), conditions).stray == stray


def test_a_change_of_the_inputs_is_found(file):
    assert caller(file, "changes weights").call(inputs_of("changes weights")).inputs_changed


@pytest.mark.parametrize(
    "name, origin",
    [("empty", "never"), ("copies guard", "guard"), ("copies after", "after"), ("computes NaN", "computed")],
)
def test_a_copied_nan_tells_its_origin(file, name, origin):
    kernel = caller(file, name)
    assert tensors.origins(kernel.call(inputs_of(name)).output)[origin] >= 1
    output = kernel.call(inputs_of(name), Conditions(output="number", guard="number")).output
    assert np.isnan(output).any() == (origin == "computed")


def test_a_kept_pointer_reads_what_the_tensor_no_longer_holds(file):
    kernel, inputs = caller(file, "kept"), inputs_of("kept")
    assert correct(kernel.call(inputs).output, inputs)
    assert tensors.origins(kernel.call(inputs, Conditions(moved=True)).output)["stale"] > 0


def test_own_memory_holds_what_the_condition_says(file):
    kernel, inputs = caller(file, "own memory"), inputs_of("own memory")
    if "own" not in kernel.can:
        pytest.skip("this C library fills no memory")
    first, second = (kernel.call(inputs, Conditions(examine=True, own=own)).output for own in ("nan", "number"))
    assert first[0, 0, 0, 0] > 1e38 and 1 < second[0, 0, 0, 0] < 10


def test_a_call_that_fails_says_why(tmp_path):
    throws = text_of(COMPUTE, 'throw std::runtime_error("no room");', start='extern "C" ')
    file = written(tmp_path, "#include <stdexcept>\n" + throws, "conv.cpp")
    for conditions in (Conditions(), Conditions(output="number")):
        with pytest.raises(Failed, match="failed") as failure:
            caller(file, "nothing").call(inputs_of(), conditions)
        assert "no room" in failure.value.details["text"]


def calls_of(kernel, name, images=(1, 16), conditions=Conditions()):  # noqa: B008
    """Return whether each call is correct; a job of the tests."""
    one = here.caller_for(kernel, shape_of(name), alone=True)
    made = [inputs_of(name, number, count) for number, count in enumerate(images)]
    return [correct(one.call(inputs, conditions).output, inputs) for inputs in made]


def fails(kernel):
    raise DeviceError("no such device")


def waits(kernel):
    """Take longer than a limit of 2 s, while the waiting process is stopped, as on a machine that stands still."""
    os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep(2.5)
    os.kill(os.getppid(), signal.SIGCONT)
    time.sleep(0.3)


def job(file, *arguments, function="calls_of", **options):
    file, library = loading.built(file)
    return isolated.Job(
        str(file.path), file.format.name, "cpu", library, f"{__name__}:{function}", arguments, **options
    )


def test_the_end_of_a_process_has_a_cause(file, server):
    guarded = (16,), Conditions(guarded=True)
    wanted = [
        (("null",), "crash", {"null": True, "call": 1, "images": 1, "during": "call"}),
        (("exit",), "exit", {"status": 1}),
        (("division",), "divides_by_zero", {}),
        (("bad free",), "heap", {}),
        (("stack",), "stack", {}),
        (("abort",), "crash", {"call": 2, "images": 16}),
        (("stack of a thread",), "stack", {}),
        (("crash in a thread",), "crash", {}),
        (("reads data after", *guarded), "past_end", {"tensor": "x", "bytes": 0}),
        (("writes long after", *guarded), "past_end", {"tensor": "y", "bytes": 40}),
    ]
    outcomes = server.run_each([job(file, *arguments) for arguments, _, _ in wanted])
    for (arguments, code, details), outcome in zip(wanted, outcomes):
        assert outcome.cause.code == code, arguments
        assert details.items() <= outcome.cause.details.items(), arguments


def test_each_job_has_its_own_time_limits(file, server):
    jobs = [
        job(file, "hangs", (16,), seconds=60, first_seconds=0.3),
        job(file, "hangs", (1, 16), seconds=3),
        job(file, "hangs", (1,), seconds=60, first_seconds=30),
    ]
    begin = time.monotonic()
    outcomes = server.run_each(jobs)
    assert [outcome.cause and outcome.cause.code for outcome in outcomes] == ["hangs", "time_limit", None]
    assert server.run_each([job(file, function="waits", seconds=2)])[0].cause is None
    assert outcomes[1].cause.details["images"] == 16
    assert outcomes[2].result == [True]
    assert time.monotonic() - begin < 50


def test_jobs_return_in_order(file, server):
    shares = []
    jobs = [job(file, "nothing", (1,) * count) for count in (3, 1, 2)]
    outcomes = server.run_each(jobs, lambda share, what: shares.append(share))
    assert [outcome.result for outcome in outcomes] == [[True] * 3, [True], [True] * 2]
    assert shares == [0, 1 / 3, 2 / 3]


def test_an_error_of_the_job_is_raised(file, server):
    with pytest.raises(DeviceError, match="no such device"):
        server.run_each([job(file, function="fails")])


def test_what_a_job_prints_is_returned(file, server):
    (outcome,) = server.run_each([job(file, "prints")])
    assert outcome.printed.splitlines() == ["B is 1", "B is 16"]


def sanitized_run(file, calls):
    build = sanitized.begin(file)
    run = build.run(calls)
    if run is None and "lasan" in build.note:
        pytest.skip("GCC's sanitizers are not installed")
    assert run is not None, build.note
    return run


FAULTS = [
    ("writes after", "out_of_bounds_write", {"tensor": "y", "outside": 4, "bytes": 4, "index": (16, 0, 0, 0)}),
    ("vector", "out_of_bounds_write", {"tensor": "y", "bytes": 32, "outside": 12}),
    ("reads data before", "out_of_bounds_read", {"tensor": "x", "side": "before"}),
    ("local array", "array_too_small", {}),
    ("own array", "array_too_small", {"element": 11, "elements": 11}),
    ("global array", "array_too_small", {"name": "few", "elements": 24}),
    ("after its block", "use_after_scope", {}),
    ("after free", "use_after_free", {}),
    ("freed twice", "double_free", {}),
    ("bad free", "bad_free", {}),
    ("overlap", "memcpy_overlap", {}),
    ("int overflow", "int_overflow", {"type": "int"}),
    ("shift", "shift", {"value": 40}),
    ("float to int", "float_to_int", {}),
    ("division", "divides_by_zero", {}),
    ("null", "null_pointer", {}),
    ("leak", "leak", {"bytes": 1 << 20}),
    ("kept", "kept_pointer", {"tensor": "k", "call": 2}),
    ("misaligned", "misaligned_access", {"needs": 32}),
]


@pytest.mark.parametrize("name, code, details", FAULTS, ids=[name for name, _, _ in FAULTS])
def test_a_sanitizer_names_the_line(file, name, code, details):
    found = sanitized_run(file, [SanitizedCall(inputs_of(name, number), 2) for number in range(3)]).causes[0]
    numbered = enumerate(TEXT.splitlines(), 1)
    line = next(number for number, line in numbered if f"void fault{FILTERS[name]}(" in line)
    assert (found.code, found.details["file"]) == (code, "conv.c")
    assert found.details["line"] == line or name == "kept"
    assert details.items() <= found.details.items()


HARMLESS = """
  volatile int high = 1 << 31, low = -1;
  const float* one = x - 1;
  memcpy(y, 0, 0);
  float* own = new float[W];
  float* aligned = (float*)__builtin_assume_aligned((void*)x, 64);
  static float* grown = 0; static int size = 0;
  if (size < B * W) { free(grown); grown = (float*)malloc(4 * B * W); size = B * W; }
  y[0] = (float)high + (low << 3) + one[1] + aligned[1] + (grown[0] = 1) + (own[0] = 1);
  delete own;
"""


def test_harmless_habits_have_no_cause(tmp_path):
    file = written(tmp_path, text_of(HARMLESS, COMPUTE, start='extern "C" '), "conv.cpp")
    calls = [SanitizedCall(inputs_of("nothing", number, 3), 2) for number in range(3)]
    run = sanitized_run(file, calls)
    assert run.causes == []
    assert [correct(output, call.inputs) for output, call in zip(run.outputs, calls)] == [True] * 3


def test_a_fault_while_the_file_is_loaded_has_a_line(tmp_path):
    start = "static struct Start { Start() { *(volatile int*)0 = 1; } } start;\n"
    file = written(tmp_path, start + text_of(COMPUTE, start='extern "C" '), "conv.cpp")
    (cause,) = sanitized_run(file, [SanitizedCall(inputs_of())]).causes
    assert (cause.code, cause.details["line"]) == ("null_pointer", 1)


@pytest.mark.parametrize("text, threads", [
    ("#include <thread>\n", False), ("#pragma omp parallel for\n", True), ("std::vector<std::thread> all;\n", True),
])  # fmt: skip
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_whether_a_source_names_threads(tmp_path, text, threads, encoding):
    for name, include in (("conv.cpp", text), ("other.cpp", '#include "more.h"\n')):
        path = tmp_path / name
        path.write_text(include + text_of(COMPUTE, start='extern "C" '), encoding=encoding)
        (tmp_path / "more.h").write_text(text, encoding=encoding)
        assert here.runs_threads(formats.recognise(path)) == threads


_THREADS = r"""
#include <mutex>
#include <thread>
#include <vector>
#define LINE ((long)i * per + j)
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const long per = (long)M * (H - K + 1) * (W - K + 1);
  float sum = 0;
  std::mutex lock;
  std::vector<std::thread> threads;
  switch (M) {
    CASES
  }
}
"""
_LOOPS = "for (int i = 0; i < B; ++i) for (int j = 0; j < per; ++j)"
# Statements, and whether they have a race.
_SCHEDULES = {
    "a shared variable": (True, f"#pragma omp parallel for\n{_LOOPS} {{ sum = x[i]; y[LINE] = sum; }}"),
    "no atomic": (True, f"#pragma omp parallel for\nfor (int p = 0; p < 9; ++p)\n"
                  f"{_LOOPS} y[LINE] += p;"),
    "no barrier": (True, f"""
#pragma omp parallel
{{
#pragma omp for nowait
{_LOOPS} y[LINE] = 0;
#pragma omp for
for (int n = B - 1; n >= 0; --n) for (int j = 0; j < per; ++j) y[n * per + j] += 1;
}}"""),
    "no lock": (True, f"for (int t = 0; t < 4; ++t) threads.emplace_back([&] {{ {_LOOPS} y[LINE] += 1; }});\n"
                "for (auto& one : threads) one.join();"),
    "an atomic": (False, f"#pragma omp parallel for\nfor (int p = 0; p < 9; ++p) {_LOOPS} {{\n#pragma omp atomic\n"
                  "y[LINE] += p; }"),
    "a critical section": (False, f"#pragma omp parallel for schedule(guided)\nfor (int p = 0; p < 9; ++p) {{\n"
                           f"#pragma omp critical\n{_LOOPS} y[LINE] += p; }}"),
    "a reduction": (False, f"#pragma omp parallel for reduction(+ : sum)\n{_LOOPS} sum += x[i];\ny[0] = sum;"),
    "barriers": (False, f"""
#pragma omp parallel
{{
#pragma omp for schedule(dynamic)
{_LOOPS} y[LINE] = 0;
#pragma omp for
for (int n = B - 1; n >= 0; --n) for (int j = 0; j < per; ++j) y[n * per + j] += 1;
#pragma omp single
y[0] = 1;
}}"""),
    "a lock": (False, "for (int t = 0; t < 4; ++t) threads.emplace_back([&] { std::lock_guard<std::mutex> held(lock);\n"
               f"{_LOOPS} y[LINE] += 1; }});\nfor (auto& one : threads) one.join();"),
    "equal outputs": (False, f"#pragma omp parallel for\nfor (int p = 0; p < 9; ++p) {_LOOPS} y[LINE] = 1;"),
}  # fmt: skip


@pytest.mark.slow
def test_races_have_lines_and_ordered_threads_have_none(tmp_path):
    cases = "".join(
        f"case {number}: {{\n{text}\nbreak; }}\n" for number, (_, text) in enumerate(_SCHEDULES.values(), start=1)
    )
    text = _THREADS.replace("CASES", cases)
    path = tmp_path / "threads.cpp"
    path.write_text(text)
    build = sanitized.begin(formats.recognise(path), races=True)
    for number, (name, (races, statements)) in enumerate(_SCHEDULES.items(), start=1):
        inputs = random_inputs(Seed(number).stream(), ConvolutionShape(8, 1, 12, 12, number, 3))
        run = build.run([SanitizedCall(inputs, 4)] * 2)
        assert run is not None, build.note
        assert {cause.code for cause in run.causes} == ({"race"} if races else set()), name
        before = text[: text.index(statements)].count("\n")
        assert all(0 < cause.details["line"] - before <= 1 + statements.count("\n") for cause in run.causes), name


def test_the_program_is_built_once(file):
    assert sanitized.begin(file).program() == sanitized.begin(file).program() is not None


def test_a_file_that_does_not_compile_has_no_program(tmp_path):
    build = sanitized.begin(written(tmp_path, text_of("y[0] = undeclared;")))
    assert build.run([SanitizedCall(inputs_of())]) is None
    assert "undeclared" in build.note


def test_python_files_have_no_program(tmp_path):
    assert sanitized.begin(written(tmp_path, "def conv_forward(x, k):\n    return x\n", "conv.py")) is None
