"""The command line: options, errors and exit codes, also on a machine without dataset, GPU or library."""

import _ctypes
import ctypes
import json
import os

import pytest
from command_line import walked

import fashion_infer
from fashion_infer import api, errors, result
from fashion_infer.checkpoints import hdf5, zoo
from fashion_infer.cli import main
from fashion_infer.data import dataset
from fashion_infer.library import bindings


def refused(invoke, code, *arguments):
    """Run a command that must fail with the exit code `code`; return its single line on stderr."""
    status, _, err = invoke(*arguments)
    assert status == code, err
    lines = [line for line in err.splitlines() if line]
    assert len(lines) == 1 and lines[0].startswith("fashion-infer: ") and "Traceback" not in err
    return lines[0]


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


def test_a_missing_gpu_is_refused_before_anything_is_imported(tmp_path, run_python):
    """Without a GPU, `--backend gpu` is refused before NumPy is imported and the missing checkpoint is noticed."""
    code = """
import sys
from fashion_infer.system import compilers
compilers.count_cuda_devices = lambda: 0
from fashion_infer.cli.main import main
try: main(["run", "--backend", "gpu", "--checkpoint", "nowhere"])
except SystemExit as end: print(end.code, "numpy" in sys.modules)
"""
    done = run_python(code, cwd=tmp_path)
    assert done.stdout == "4 False\n" and done.stderr.count("\n") == 1


def test_missing_dataset_without_network(invoke, bare):
    refused(invoke, 3, "run", "--data", "fashion-mnist", "--n", "5")
    refused(invoke, 3, "run", "--data-dir", bare)
    refused(invoke, 3, "data", "fetch")
    assert not [p for p in bare.rglob("*") if p.is_file()]


def test_read_only_cache(invoke, bare, monkeypatch):
    blocked = bare / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    refused(invoke, 3, "data", "fetch")
    code, out, _ = invoke("run", "--n", "5", "--backend", "cpu")  # `run` uses the built-in set, which needs no cache
    assert code == 0 and "Data: synthetic" in out


@pytest.mark.parametrize("path", ["/none.so", __file__, _ctypes.__file__])  # the last is another shared library
def test_missing_and_invalid_libraries(invoke, monkeypatch, path):
    monkeypatch.setenv("FASHION_OPS_LIBRARY", path)
    bindings.load.cache_clear()
    try:
        refused(invoke, 4, "run", "--data", "synthetic", "--n", "5")
    finally:
        bindings.load.cache_clear()


def test_library_built_for_another_mxnet(tmp_path):
    lib = ctypes.CDLL(str(bindings.library_path()))
    assert lib.initialize(10901) == 1
    assert lib.initialize(10800) == 0 and lib.initialize(20000) == 0


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
    def full(*a):
        raise MemoryError

    monkeypatch.setattr(dataset, "load", full)
    refused(invoke, 4, "run")


GROUPS = [(), *((name,) for name in main.COMMANDS if hasattr(main.cli.get_command(None, name), "commands"))]


@pytest.mark.parametrize("words", GROUPS)
def test_a_group_without_a_command_shows_help_and_a_suggestion(invoke, words):
    code, out, err = invoke(*words)
    asked, help, _ = invoke(*words, "--help")
    assert code == 2 and asked == 0 and out == help and out.startswith("Usage: fashion-infer")
    said, _, following = err.partition("try `")
    assert said.startswith("fashion-infer: ") and err.count("\n") == 1
    # The suggested command must exist.
    program, *command = following.rstrip("`\n").split()
    assert program == "fashion-infer" and tuple(command[: len(words)]) == words
    assert invoke(*command[: len(words) + 1], "--help")[0] == 0


def test_all_commands_accept_kernel_and_kernels():
    found = {}
    for words, command in walked():
        for param in command.params:
            if {"--kernel", "--kernels"} & set(param.opts):
                found[" ".join(words)] = set(param.opts)
    assert set(found) >= {"run", "verify", "profile", "report", "bench conv"}
    assert all(names == {"--kernel", "--kernels"} for names in found.values()), found


def test_public_names_are_those_of_their_modules():
    for name in fashion_infer.__all__:
        rooms = [room for room in (errors, api, result, fashion_infer) if hasattr(room, name)]
        assert getattr(fashion_infer, name) is getattr(rooms[0], name)
        assert name in dir(fashion_infer)
    kinds = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert kinds < set(fashion_infer.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Resolt'"):
        fashion_infer.Resolt  # noqa: B018


HELP = "from fashion_infer.cli import main\ntry: main.main({})\nexcept SystemExit: pass"
CLIENT = "import fashion_infer.cli.submit, fashion_infer.cli.board\nfrom fashion_infer.board import client, upload"


@pytest.mark.parametrize(
    "code, heavy",
    [
        ("import fashion_infer; fashion_infer.__version__", "numpy"),
        ("import fashion_infer; fashion_infer.UsageError", "numpy"),
        ("import fashion_infer; fashion_infer.Result", "mxnet"),
        (HELP.format(["--help"]), "numpy rich pooch mxnet h5py matplotlib jinja2"),
        (HELP.format(["run", "--help"]), "numpy rich pooch mxnet h5py matplotlib jinja2"),
        (CLIENT, "sqlalchemy fastapi ray pydantic"),
    ],
)
def test_little_is_imported(code, heavy, run_python):
    done = run_python(f"{code}\nimport sys; print('too much:', sorted({set(heavy.split())} & set(sys.modules)))")
    assert done.stdout.splitlines()[-1] == "too much: []", done.stderr
