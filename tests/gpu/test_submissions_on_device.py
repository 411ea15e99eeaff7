"""Kernel files of the GPU formats on a device: correct ones pass, and mistakes get their codes. The tests need nvcc."""

import concurrent.futures
import subprocess
import sys
from pathlib import Path

import kernel_loading
import numpy as np
import planted_bugs
import profiles
import pytest
from planted_bugs import SAMPLES, TEMPLATES
from profiles import drawn

from fashion_infer import _mxnet
from fashion_infer.bench import user_kernels
from fashion_infer.bench.conv import Convolutions
from fashion_infer.bench.request import BenchRequest
from fashion_infer.errors import DeviceError
from fashion_infer.judging import reasons
from fashion_infer.judging.calls import Cause
from fashion_infer.judging.observer import RunObserver
from fashion_infer.kernel_files import build, formats
from fashion_infer.library import devices, kernels, op_times
from fashion_infer.system import compilers

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(compilers.find_nvcc() is None, reason="no nvcc")]
ROOT = Path(__file__).resolve().parent.parent.parent
ON_GPU = [entry for entry in formats.FORMATS if entry.backend == "gpu"]
HALF = ("gpu-names.cu", "gpu-2020-half.cu", "gpu-wmma-tf32.cu")
_LIMITED = (*HALF, "gpu-cublas.cu", "gpu-edition-sizes.cu", "gpu-solve.cu")
STYLES = sorted(path.name for path in (SAMPLES / "right").glob("gpu-*") if path.name not in _LIMITED)
STYLES += ["matmul/new-forward.cu", "own-header/new-forward.cu"]
SMALL = [(1, 28, 50, 5), (2, 33, 12, 5)]
BEFORE, AFTER = "work_before", "work_after"


def notes(one):
    """Return the codes of a shape's notes."""
    return tuple(note.code for note in one.notes)


@pytest.mark.parametrize("entry", drawn(ON_GPU, 2), ids=lambda entry: entry.name)
def test_templates_are_correct_for_all_editions(entry):
    found = kernel_loading.check(TEMPLATES / entry.template)
    assert found.right and not found.wrong
    for one in found.shapes:
        assert one.right and notes(one) == () and one.op_seconds > 0
        assert (one.layer_seconds >= one.op_seconds) if entry.phases else one.layer_seconds == 0


@pytest.mark.parametrize("file", drawn(STYLES, 4))
def test_correct_files_in_various_styles(file):
    found = kernel_loading.check(SAMPLES / "right" / file, shapes=SMALL)
    assert [(one.right, notes(one)) for one in found.shapes] == [(True, ())] * 2


@pytest.mark.parametrize("file", drawn(HALF, 1))
def test_half_precision_is_reported(file):
    found = kernel_loading.check(SAMPLES / "right" / file, shapes=SMALL)
    assert {one.precision for one in found.shapes} == {"tf32 or half"}


def test_a_kernel_for_one_channel():
    found = kernel_loading.check(SAMPLES / "right" / "gpu-solve.cu", shapes=SMALL)
    assert [(one.shape[1], one.right, notes(one)) for one in found.shapes] == [(1, True, ())]


def test_cublas_beside_a_kernel():
    try:
        found = kernel_loading.check(SAMPLES / "right" / "gpu-cublas.cu", shapes=SMALL)
    except DeviceError as error:
        assert "uses cublas, which is not here" in str(error)
        pytest.skip(str(error))
    assert found.right


@pytest.mark.parametrize("runtime", ["static", "shared"])
@pytest.mark.parametrize("file", [TEMPLATES / "conv.cu", SAMPLES / "right" / "gpu-no-stream.cu"], ids=lambda p: p.name)
def test_a_prebuilt_library_with_device_pointers(tmp_path, file, runtime):
    target = tmp_path / "mine.so"
    nvcc = compilers.find_nvcc()
    folders = [folder / name for folder in compilers.cuda_folders(nvcc) for name in ("lib64", "lib")]
    places = [word for folder in folders if folder.is_dir() for word in (f"-L{folder}", f"-Xlinker=-rpath={folder}")]
    command = [nvcc, "-shared", "-Xcompiler=-fPIC", f"-arch=sm_{build.gpu_arch(0)}", *places]
    made = subprocess.run([*command, "-cudart", runtime, str(file), "-o", str(target)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(made.stderr.strip().splitlines()[-1])
    for format in (None, "c-gpu"):
        found = kernel_loading.check(target, format, shapes=SMALL)
        assert found.right and (found.file.format.name, found.file.backend) == ("prebuilt", "gpu")


@pytest.mark.parametrize("file", [TEMPLATES / "new-forward-2021.cu", TEMPLATES / "conv.cu"], ids=lambda p: p.name)
def test_another_device(file):
    last = len(devices.cuda_devices()) - 1
    if last == 0:
        pytest.skip("one GPU")
    assert kernel_loading.check(file, shapes=SMALL, device=last).right


@pytest.mark.parametrize(
    "file, code",
    drawn(
        [
            ("gpu-work-in-prolog.cu", BEFORE),
            ("gpu-host-in-prolog.cu", BEFORE),
            ("gpu-streams-in-prolog.cu", BEFORE),
            ("gpu-work-in-epilog.cu", AFTER),
        ],
        2,
    ),
)
def test_what_is_no_fault_of_the_outputs_is_noted(file, code):
    found = kernel_loading.check(SAMPLES / "wrong" / file, shapes=SMALL)
    assert [(one.right, notes(one)) for one in found.shapes] == [(True, (code,))] * 2


@pytest.mark.parametrize(
    "file, codes",
    drawn(
        [
            ("gpu-boundary.cu", "border"),
            ("gpu-input-changed.cu", "inputs_changed"),
            ("gpu-transposed.cu", "weights_transposed"),
            ("gpu-out-of-bounds.cu", "device_error"),
            ("gpu-exits.cu", "exit"),
            ("gpu-writes-after-end.cu", "writes_after_end"),
            ("gpu-writes-before-start.cu", "writes_before_start"),
            ("gpu-past-width.cu", "writes_after_end"),
            ("gpu-cached-by-shape.cu", "cached"),
            ("gpu-missing-syncthreads.cu", "race"),
            ("gpu-race-over-taps.cu", "race"),
        ],
        4,
    ),
)
def test_mistakes_are_named(file, codes):
    found = kernel_loading.check(SAMPLES / "wrong" / file, shapes=SMALL)
    assert not found.right and found.shapes[0].code in codes.split()


# On a GPU, access to address 0 is an error of the device and does not end the process.
ON_A_GPU = {"crashes": ["device_error"]}


@pytest.mark.parametrize("name", drawn(planted_bugs.on_gpu(), 4))
def test_each_planted_bug_has_its_reason(name, tmp_path):
    file = tmp_path / f"{name}.cu"
    file.write_text(planted_bugs.cuda_form(name))
    found = kernel_loading.check(file, shapes=planted_bugs.SHAPES)
    codes = {one.code for one in found.shapes} - {""}
    assert not found.right and codes and codes <= {*ON_A_GPU.get(name, planted_bugs.codes_of(name))}


# One GPU thread computes 40 images a second, so bugs of later images take minutes.
@pytest.mark.parametrize("name", drawn(["sum-starts-at-one", "one-nan"], 1))
def test_a_run_agrees_with_the_check(name, tmp_path):
    if _mxnet.build() is None:
        pytest.skip("MXNet is not installed")
    file = tmp_path / f"{name}.cu"
    file.write_text(planted_bugs.cuda_form(name))
    found = kernel_loading.check(file, edition="fa2017")
    assert {one.code for one in found.shapes} <= {*planted_bugs.codes_of(name)} and not found.right
    code, _, err = command("run", "--data", "synthetic", "--n", "100", "--kernel", file)
    assert code == 1 and found.shapes[0].reason in err[-1]


def test_accumulating_in_uncleared_device_memory(tmp_path):
    file = tmp_path / "new-forward.cu"
    text = (TEMPLATES / "new-forward-2021.cu").read_text()
    file.write_text(text.replace("out_4d(b, m, h, w) = sum", "out_4d(b, m, h, w) += sum"))
    found = kernel_loading.check(file, shapes=SMALL[:1])
    assert [one.code for one in found.shapes] == ["accumulates"]


EIGHT = ("right/gpu-no-stream.cu", "right/gpu-constant.cu", "right/gpu-streams.cu", "right/gpu-cooperative.cu",
         "right/gpu-adds.cu", "right/gpu-solve.cu", "wrong/gpu-boundary.cu",
         "wrong/gpu-missing-syncthreads.cu")  # fmt: skip


@pytest.mark.alone
def test_verdicts_on_a_shared_gpu():
    """Eight files that run concurrently on one device get the verdicts that they get alone.

    Meanwhile this process runs the test of leaked device memory.
    """

    def codes(file):
        found = kernel_loading.check(SAMPLES / file, shapes=SMALL[:1])
        return [(one.code, notes(one) if one.right else ()) for one in found.shapes]  # a race has changing findings

    alone = [codes(file) for file in EIGHT]
    assert [bool(code) for ((code, _),) in alone] == [file.startswith("wrong") for file in EIGHT]
    with concurrent.futures.ThreadPoolExecutor(len(EIGHT) + 1) as pool:
        for _ in range(profiles.pick(1, 20)):
            together = [pool.submit(codes, file) for file in EIGHT]
            test_leaked_device_memory_is_measured()
            assert [each.result() for each in together] == alone


def test_an_illegal_address_fails_only_its_shape():
    """An illegal address in one shape leaves the process and CUDA context of the next shape intact: both are tried."""
    found = kernel_loading.check(SAMPLES / "wrong" / "gpu-out-of-bounds.cu", shapes=SMALL)
    assert [one.code for one in found.shapes] == ["device_error"] * 2


def test_a_failed_launch_is_reported(capfd):
    found = kernel_loading.check(SAMPLES / "wrong" / "gpu-too-many-threads.cu", shapes=SMALL)
    assert not found.right
    assert "[gpu-too-many-threads.cu] CUDA reported after" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["c-gpu", "mxnet-gpu"])
def test_uint8_pixels_are_converted(name):
    kernel = kernel_loading.load(TEMPLATES / formats.find(name).template)
    rng = np.random.default_rng(1)
    x, weight = rng.integers(0, 256, (7, 1, 28, 28), np.uint8), rng.standard_normal((50, 1, 5, 5)).astype(np.float32)
    op_times.drain()
    y = kernels.convolve(x, weight, kernel.name, "gpu", node=3)
    np.testing.assert_array_equal(y, kernels.convolve(x.astype(np.float32), weight, kernel.name, "gpu"))
    (record,) = op_times.drain()
    assert (record.first_node, record.kernel) == (3, kernel.name) and record.seconds > 0


# ---- In `bench conv` with the ladder, and through the command line.


BENCH = ("new-forward-2021.cu", "conv.cu", "new-forward.cuh", "new-forward-2020.cu")


def measured(files, batch):
    """Run `bench conv` on some files and one step of the ladder; return the rows by name."""
    names = ",".join([*map(str, files), "register-tile"])
    recognised = user_kernels.recognise_files(list(map(str, files)), None, "gpu")
    request = BenchRequest(
        ("fa2017",), "gpu", against="none", batches=(batch,), repeat=2, kernels=names, files=recognised
    )
    result = Convolutions(request).measure()
    return {row.name: row for row in result.cases[0].rows}


def test_files_beside_the_ladder(torch):
    rows = measured([TEMPLATES / name for name in BENCH], 1000)
    assert list(rows) == ["fill", "copy", *BENCH, "register-tile"]
    for name in BENCH:
        row = rows[name]
        assert (row.status, row.precision, row.findings) == ("ok", "float32", ()), row
        assert row.error < 5e-6 and row.median_ms > 0 and row.gb_s > 0
    assert rows["new-forward-2021.cu"].layer_ms > rows["new-forward-2021.cu"].median_ms
    assert rows["conv.cu"].layer_ms is None


def test_bench_reports_incorrect_files(torch):
    rows = measured([SAMPLES / "wrong" / name for name in ("gpu-thousands.cu", "gpu-work-in-prolog.cu")], 1500)
    late = rows["gpu-thousands.cu"]  # it computes only complete thousands of images
    assert (late.status, late.precision, late.median_ms) == ("wrong", "incorrect", None)
    assert rows["gpu-work-in-prolog.cu"].findings == (reasons.sentence(Cause(BEFORE)),)


@pytest.mark.alone
def test_leaked_device_memory_is_measured():
    rng = np.random.default_rng(1)
    x, weight = rng.random((10, 1, 28, 28), np.float32), rng.random((5, 1, 5, 5), np.float32)
    for file, leaks in ((SAMPLES / "wrong" / "gpu-leaks.cu", True), (TEMPLATES / "conv.cu", False)):
        kernel = kernel_loading.load(file)
        seen = RunObserver(kernel, lambda count: [])
        for number in range(5):
            kernels.convolve(x, weight, kernel.name, "gpu")
            seen(number, 1)
        assert (seen.leaked >= 7 << 20) is leaks, seen.leaked


def command(*arguments):
    """Run the command line in a separate process; return exit code, stdout, and the lines of stderr."""
    for package in ("click", "rich"):
        pytest.importorskip(package)
    words = [sys.executable, "-m", "fashion_infer", *map(str, arguments)]
    end = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=ROOT)
    return end.returncode, end.stdout, end.stderr.splitlines()


def test_check_on_the_command_line():
    code, out, _ = command("kernel", "check", TEMPLATES / "new-forward-2021.cu")
    assert code == 0 and "fa2020, both layers" in out
    for name in ("gpu-exits.cu", "gpu-out-of-bounds.cu"):
        code, _, err = command("kernel", "check", SAMPLES / "wrong" / name)
        assert code == 1 and name in err[-1]


def test_a_file_for_an_editions_sizes_only():
    """A file that works only for an edition's sizes passes, and the output notes that it fails for other sizes.

    It runs in a separate process, because with other sizes it accesses memory outside its arrays.
    """
    code, out, err = command("kernel", "check", SAMPLES / "right" / "gpu-edition-sizes.cu")
    assert code == 0, err
    assert "fails for other sizes" in out


def test_the_whole_network_on_the_command_line():
    if _mxnet.build() is None:
        pytest.skip("MXNet is not installed")
    run = ("run", "--data", "synthetic", "--n", "2000")
    code, out, err = command(*run, "--kernel", TEMPLATES / "new-forward-2021.cu")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[2] == "New Inference" and lines[3].startswith("Op Time: ") and "layer time, s" in out
    assert "float32" in out
    code, out, err = command(*run, "--kernel", SAMPLES / "wrong" / "gpu-boundary.cu")
    assert code == 1 and "gpu-boundary.cu" in err[-1]
    code, out, err = command(*run, "--kernel", SAMPLES / "wrong" / "gpu-work-in-prolog.cu")
    assert code == 0 and reasons.sentence(Cause(BEFORE)) in " ".join(out.split())
    code, _, err = command(*run, "--kernel", SAMPLES / "wrong" / "gpu-out-of-bounds.cu")
    assert code == 1 and err[-1].startswith("fashion-infer: gpu-out-of-bounds.cu ")
    code, out, err = command(*run, "--batch-size", "400", "--kernel", SAMPLES / "wrong" / "gpu-leaks.cu")
    assert code == 0 and "device memory not freed" in out, err  # a finding in addition to "correct"
