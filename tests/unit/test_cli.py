"""The command line: options, errors and exit codes, also on a machine without dataset, GPU or library."""

import _ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fashion_infer
from fashion_infer.checkpoints import hdf5, zoo
from fashion_infer.errors import DeviceError


def refused(invoke, code, *arguments):
    """Run a command that must fail with the exit code `code`; return its single line on stderr."""
    status, _, err = invoke(*arguments)
    assert status == code, err
    lines = [line for line in err.splitlines() if line]
    assert len(lines) == 1 and lines[0].startswith("fashion-infer: ") and "Traceback" not in err
    return lines[0]


@pytest.mark.parametrize(
    "options",
    [
        *("--n 0", "--n -1", "--n 10001", "--n many", "--n 1.5", "-n 0", "--threads 0", "--threads -3", "--repeat 0"),
        *("--batch-size 0", "--batch-size -5", "--model baseline --checkpoint x", "--model x", "--backend tpu"),
        *("--backend cpu --kernel quick", "--fast", "extra"),
    ],
)
def test_wrong_options(invoke, options):
    refused(invoke, 2, "run", "--data", "synthetic", *options.split())


def test_empty_and_unknown_names(invoke):
    refused(invoke, 2, "run", "--n", "")
    refused(invoke, 2, "models", "export", "x", "--to", "y")
    refused(invoke, 3, "run", "--data", "synthetic", "--checkpoint", "x", "--epoch", "-1")


@pytest.mark.parametrize(
    "words, suggested, not_suggested",
    [
        ("rnu", "did you mean run?", "board"),
        ("xyzzy", "", "did you mean"),
        ("run --model ece408-hihg", "ece408-high", "fa2020"),
        ("run --model zzz", "models list", "did you mean"),
        ("run conv.cpp", "`--kernel conv.cpp`", ""),
        ("-n 5", "run -n 5`", ""),
        ("-q", "", "did you mean"),
        ("run fa2019", "", "--kernel"),
        ("models list conv.cpp", "", "--kernel"),
    ],
)
def test_suggestions(invoke, words, suggested, not_suggested):
    line = refused(invoke, 2, *words.split())
    assert suggested in line and (not not_suggested or not_suggested not in line)


@pytest.mark.parametrize("words, same", [("help", "--help"), ("help run", "run --help"), ("version", "--version")])
def test_help_and_version_as_commands(invoke, words, same):
    assert invoke(*words.split()) == invoke(*same.split())


def test_backend_gpu_without_a_gpu(invoke):
    from fashion_infer.library import devices

    try:
        devices.cuda_devices()
        pytest.skip("this machine has a GPU")
    except DeviceError:
        pass
    refused(invoke, 4, "run", "--data", "synthetic", "--n", "5", "--backend", "gpu")


def test_a_missing_gpu_is_refused_before_anything_is_imported(tmp_path):
    """Without a GPU, `--backend gpu` is refused before NumPy is imported and the missing checkpoint is noticed."""
    code = """
import sys
from fashion_infer.system import compilers
compilers.count_cuda_devices = lambda: 0
from fashion_infer.cli.main import main
try: main(["run", "--backend", "gpu", "--checkpoint", "nowhere"])
except SystemExit as end: print(end.code, "numpy" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "4 False\n" and done.stderr.count("\n") == 1


def test_missing_dataset_without_network(invoke, bare):
    refused(invoke, 3, "run", "--data", "fashion-mnist", "--n", "5")
    refused(invoke, 3, "run", "--data-dir", bare)
    refused(invoke, 3, "data", "fetch")
    assert not [p for p in bare.rglob("*") if p.is_file()]


def test_the_built_in_set_replaces_a_missing_dataset(invoke, bare):
    code, out, err = invoke("run", "--n", "50", "--backend", "cpu")
    assert code == 0
    assert next(line for line in out.splitlines() if line.startswith("Correctness")).endswith(" Data: synthetic")
    assert len(err.splitlines()) == 1


def test_no_notice_if_the_built_in_set_was_requested(invoke, bare):
    code, out, err = invoke("run", "--n", "50", "--backend", "cpu", "--data", "synthetic")
    assert code == 0 and " Data: synthetic" in out and err == ""


def test_read_only_cache(invoke, bare, monkeypatch):
    blocked = bare / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    refused(invoke, 3, "data", "fetch")
    code, out, _ = invoke("run", "--n", "5", "--backend", "cpu")  # `run` uses the built-in set, which needs no cache
    assert code == 0 and "Data: synthetic" in out


def test_missing_and_invalid_libraries(invoke, monkeypatch, tmp_path):
    from fashion_infer.library import bindings

    for content in (None, b"not a library", "another"):
        path = tmp_path / "libfashion_ops.so"
        if content == "another":
            path.write_bytes(Path(_ctypes.__file__).read_bytes())  # a shared library, but not the operator library
        elif content is not None:
            path.write_bytes(content)
        monkeypatch.setenv("FASHION_OPS_LIBRARY", str(path))
        bindings.load.cache_clear()
        try:
            refused(invoke, 4, "run", "--data", "synthetic", "--n", "5")
        finally:
            bindings.load.cache_clear()


def test_library_built_for_another_mxnet(tmp_path):
    """The operator library accepts MXNet 1.9.1 and refuses other versions.

    The test calls `initialize` with the number of a version.
    """
    import ctypes

    from fashion_infer.library import bindings

    lib = ctypes.CDLL(str(bindings.library_path()))
    assert lib.initialize(10901) == 1
    assert lib.initialize(10800) == 0 and lib.initialize(20000) == 0


def test_library_that_mxnet_refuses(monkeypatch, invoke):
    from fashion_infer import _mxnet
    from fashion_infer._mxnet import plugin

    mx = _mxnet.load()

    def refuse(path, verbose):
        raise mx.MXNetError("Library version (7) does not match MXNet version (11)\n")

    monkeypatch.setattr(mx.library, "load", refuse)
    monkeypatch.setattr(plugin, "_in_mxnet", set())
    plugin.load_operators.cache_clear()
    try:
        refused(invoke, 4, "run", "--data", "synthetic", "--n", "5", "--backend", "cpu")
    finally:
        plugin.load_operators.cache_clear()


def test_broken_checkpoints(invoke, tmp_path):
    def run(path):
        return refused(invoke, 3, "run", "--data", "synthetic", "--n", "5", "--backend", "cpu", "--checkpoint", path)

    run(tmp_path / "none")
    (tmp_path / "a.h5").write_text("not HDF5")
    run(tmp_path / "a.h5")
    good = zoo.get("ece408-low").load()
    lacking = good._replace(weights={k: v for k, v in good.weights.items() if k != "new0_weight"})
    hdf5.save(tmp_path / "a.h5", lacking)
    assert "new0_weight" in run(tmp_path / "a.h5")
    shaped = good._replace(weights=dict(good.weights, fullyconnected1_bias=np.ones(9, np.float32)))
    hdf5.save(tmp_path / "a.h5", shaped)
    assert "fullyconnected1_bias" in run(tmp_path / "a.h5")


def test_export_import_and_run(invoke, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = ("run", "--data", "synthetic", "--n", "300", "--backend", "cpu", "--json")
    correct = [json.loads(invoke(*run, "--model", "ece408-low")[1])["correctness"]]
    assert invoke("models", "export", "ece408-low", "--to", "low", "--epoch", "3")[0] == 0
    correct.append(json.loads(invoke(*run, "--checkpoint", "low", "--epoch", "3")[1])["correctness"])
    assert invoke("models", "import", "low", "--epoch", "3", "--to", "low.h5")[0] == 0
    correct.append(json.loads(invoke(*run, "--checkpoint", "low.h5")[1])["correctness"])
    assert len(set(correct)) == 1
    loaded, shipped = hdf5.load("low.h5").weights, zoo.get("ece408-low").load().weights
    assert all(loaded[k].tobytes() == shipped[k].tobytes() for k in shipped)
    refused(invoke, 2, "models", "import", "low", "--epoch", "3", "--to", "low.npz")
    refused(invoke, 3, "models", "export", "baseline", "--to", "no/where/x")
    assert sorted(os.listdir(".")) == ["low-0003.params", "low-symbol.json", "low.h5"]


def test_informative_commands(invoke, bare):
    code, out, _ = invoke("models", "list")
    assert code == 0 and all(name in out for name in zoo.MODELS)
    code, out, _ = invoke("data", "info")
    assert code == 0 and "synthetic" in out
    code, out, _ = invoke("doctor")
    assert code == 0 and "1.9.1" in out and "shifted" in out and out.count("models") == 1
    assert invoke("--version")[1].endswith(f" {fashion_infer.__version__}\n")


def test_doctor_reports_what_is_missing(invoke, bare, monkeypatch, tmp_path):
    monkeypatch.setenv("FASHION_INFER_DATA", str(tmp_path / "none"))
    monkeypatch.setattr(zoo.Model, "path", property(lambda self: tmp_path / "none.h5"))
    code, out, err = invoke("doctor")
    assert code == 1 and "NO" in out and "dataset, model ece408-high" in err and out.splitlines()[0] in err


def test_verify_finds_a_wrong_result(invoke, monkeypatch):
    model = zoo.get("ece408-low")
    wrong = model._replace(expected={"fashion-mnist": [(100, 0.5)], "synthetic": [(100, 0.5)]})
    monkeypatch.setitem(zoo.MODELS, "ece408-low", wrong)
    code, out, err = invoke("verify", "--model", "ece408-low", "--data", "synthetic", "--backend", "cpu")
    assert code == 1 and "WRONG" in out and err.count("verify: ece408-low") == err.count("WRONG") == 3


def test_out_of_memory_is_one_line(invoke, monkeypatch):
    from fashion_infer.data import dataset

    def full(*a):
        raise MemoryError

    monkeypatch.setattr(dataset, "load", full)
    refused(invoke, 4, "run")


def test_a_closed_pipe_is_not_an_error():
    program = f"{sys.executable} -m fashion_infer models list | true"
    done = subprocess.run(["bash", "-c", program], stderr=subprocess.PIPE, text=True)
    assert done.stderr == ""
