"""A run's options: checked as a whole before anything is loaded, by one road for every command."""

import dataclasses
import inspect
import subprocess
import sys
import typing

import numpy as np
import pytest
import reference

from fashion_infer import _mxnet, devices, infer, pipeline, verification
from fashion_infer.data import dataset, synthetic
from fashion_infer.errors import CheckpointError, DeviceError, UsageError
from fashion_infer.inference import model as models
from fashion_infer.library import kernels
from fashion_infer.profiling import counters, session
from fashion_infer.request import Request


@pytest.fixture
def nothing_is_loaded(monkeypatch):
    """Loading data, a model or MXNet, and measuring, each fails the test."""

    def forbidden(*arguments, **options):
        pytest.fail("something was loaded or measured before the options were checked")

    monkeypatch.setattr(dataset, "load", forbidden)
    monkeypatch.setattr(models, "load", forbidden)
    monkeypatch.setattr(_mxnet, "load", forbidden)
    monkeypatch.setattr(devices, "choose", forbidden)


WRONG = [
    (dict(n=0), "n must be 1 to 10000"),
    (dict(model="no-such"), "unknown model 'no-such'"),
    (dict(edition="fa1999"), "unknown edition 'fa1999'"),
    (dict(model="ece408-high", edition="fa2019"), "unknown model 'ece408-high' of edition fa2019"),
    (dict(model="baseline", checkpoint="x"), "not both"),
    (dict(operator="magic"), "unknown operator 'magic'; known: custom, builtin"),
    (dict(weights="best"), "unknown weights 'best'"),
    (dict(backend="tpu"), "unknown backend 'tpu'"),
    (dict(data="cifar"), "unknown data 'cifar'"),
    (dict(mode="lazy"), "unknown mode 'lazy'"),
    (dict(precision="int8"), "unknown precision 'int8'"),
    (dict(precision="fp16", backend="cpu"), "on a GPU only"),
    (dict(precision="fp16", mode="operator"), "fused mode"),
    (dict(precision="tf32", kernel="naive"), "fused mode"),
    (dict(mode="fused", kernel="naive"), "--mode operator"),
    (dict(batch_size=0), "batch size must be at least 1"),
    (dict(repeat=0), "repeat must be at least 1"),
    (dict(threads=0), "threads must be 1 to 1024"),
    (dict(threads=1025), "threads must be 1 to 1024"),
    (dict(input_size=1), "the input size must be 2 to 4096"),
]


@pytest.mark.parametrize("options, words", WRONG)
def test_what_is_refused(options, words, nothing_is_loaded):
    for call in (Request(**options).check, lambda: infer(**options)):
        with pytest.raises(UsageError) as error:
            call()
        assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("options, words", WRONG)
def test_every_command_refuses_it(options, words, nothing_is_loaded, invoke, tmp_path):
    names = {"operator": "op"}
    given = [f"--{names.get(name, name).replace('_', '-')}={value}" for name, value in options.items()]
    commands = {"run": given, "profile": given, "predict": [*given, tmp_path / "none.png"]}
    for command, arguments in commands.items():
        code, out, err = invoke(command, *arguments)
        assert code == 2 and not out and len(err.splitlines()) == 1, (command, err)


@pytest.mark.parametrize("backend, words", [("cpu", "unknown cpu kernel 'quick'"), ("auto", "unknown kernel 'quick'")])
def test_an_unknown_kernel_is_refused_before_anything_is_loaded(backend, words, nothing_is_loaded):
    with pytest.raises(UsageError, match=f"{words}; {reference.known()}"):
        infer(kernel="quick", backend=backend)


def test_a_request_is_one_value():
    request = Request("ece408-low", n=5)
    assert request == Request(model="ece408-low", n=5) and request.but(n=7) == Request("ece408-low", 7)
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.n = 7
    with pytest.raises(TypeError):
        infer(side=28)


def test_the_mode_when_none_is_named():
    assert Request().mode_or_default == "fused"
    for options in (dict(kernel="naive"), dict(operator="custom"), dict(operator="builtin")):
        assert Request(**options).mode_or_default == "operator"
        assert Request(mode="operator", **options).mode_or_default == "operator"
    assert Request(mode="fused", operator="builtin").mode_or_default == "fused"


def test_images_and_models_that_the_caller_has_are_not_loaded_again(monkeypatch):
    images, labels = synthetic.draw(0, 40)
    given = dataset.Images(images, labels, "synthetic", "built in")
    request = Request("ece408-low", backend="cpu")
    model = models.load(request)
    monkeypatch.setattr(dataset, "load", lambda *a: pytest.fail("loaded"))
    monkeypatch.setattr(models, "load", lambda *a: pytest.fail("loaded"))
    calls = []
    result = pipeline.run(request.but(repeat=2), given, model, between=calls.append)
    assert result.n == 40 and np.array_equal(result.images, images) and len(result.class_names) == 10
    assert calls == [0, 1, 2] and all(len(layer.seconds) == 2 for layer in result.layers)


def test_verification_takes_the_same_road(monkeypatch):
    asked = []

    def run(request, images=None, **options):
        asked.append(request)
        raise DeviceError("seen")

    monkeypatch.setattr(pipeline, "run", run)
    with pytest.raises(DeviceError, match="seen"):
        verification.verify(["ece408-low"], Request(backend="cpu", data="synthetic", threads=1))
    assert asked == [Request("ece408-low", backend="cpu", data="synthetic", threads=1, operator="custom", mode="fused")]


class TestCounters:
    """Hardware counters are a GPU's: refused before anything is measured where the run would end up on the CPU."""

    WORDS = "hardware counters are a GPU's, and this would run on the CPU"

    @pytest.fixture(autouse=True)
    def _never_measured(self, monkeypatch):
        monkeypatch.setattr(counters, "find", lambda: "/usr/bin/ncu")
        monkeypatch.setattr(pipeline, "run", lambda *a, **o: pytest.fail("measured"))

    def refused(self, invoke, *options):
        code, out, err = invoke("profile", "--data", "synthetic", "--n", "5", "--counters", *options)
        assert code == 2 and self.WORDS in err and len(err.splitlines()) == 1
        return out

    def test_the_cpu_was_asked_for(self, invoke, nothing_is_loaded):
        assert not self.refused(invoke, "--backend", "cpu")

    def test_a_library_without_cuda(self, invoke, nothing_is_loaded, monkeypatch):
        monkeypatch.setattr(kernels, "table", lambda backend="cpu": [])
        assert not self.refused(invoke)

    def test_a_machine_without_a_gpu(self, invoke, monkeypatch):
        monkeypatch.setattr(kernels, "table", lambda backend="cpu": [kernels.Kernel("k", "", "", "float32")])
        monkeypatch.setattr(devices, "choose", lambda *a: devices.Choice("cpu", "cpu", "no driver"))

        class Cupti:
            def start(self):
                pass

            stop = start

        monkeypatch.setattr(session, "CuptiSource", Cupti)
        self.refused(invoke)


def test_a_request_as_options_of_run_is_the_same_request():
    from fashion_infer.cli.network import profile, run

    request = Request("ece408-low", n=5, backend="gpu", operator="custom", kernel="naive", batch_size=3, threads=2)
    assert "--trust-symbol" in profile._arguments(request.but(trust_symbol=True))
    words = profile._arguments(request)
    assert words[:2] == ["--model", "ece408-low"] and words[words.index("--op") :][:2] == ["--op", "custom"]
    given = run.command.make_context("run", words).params
    assert Request(**{field.name: given[field.name] for field in dataclasses.fields(Request)}) == request


class TestHelp:
    def test_it_imports_little(self):
        code = (
            "import sys; from fashion_infer.cli import main\n"
            "try: main.main(['--help'])\n"
            "except SystemExit: pass\n"
            "print(sorted(name for name in sys.modules if name.split('.')[0] in ('fashion_infer', 'numpy', 'rich',"
            " 'pooch', 'mxnet', 'h5py', 'matplotlib', 'jinja2')), file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stderr.strip() == str(
            [
                "fashion_infer",
                "fashion_infer.cli",
                "fashion_infer.cli.completing",
                "fashion_infer.cli.groups",
                "fashion_infer.cli.main",
                "fashion_infer.errors",
            ]
        )
        assert "Commands:" in done.stdout

    def test_it_knows_every_command(self, invoke):
        from fashion_infer.cli import main

        out = invoke("--help")[1]
        for name, (_, summary) in main.COMMANDS.items():
            assert f"  {name} " in out
            command = main.cli.get_command(None, name)
            assert command.name == name
            assert command.help and len(summary) < 70
            code, text, _ = invoke(name, "--help")
            assert code == 0 and f"Usage: fashion-infer {name}" in text
        assert main.cli.get_command(None, "race") is None


def test_infer_names_every_field_of_a_request():
    """With the same order, defaults and, but for files, annotations."""
    fields = {field.name: field for field in dataclasses.fields(Request)}
    parameters = inspect.signature(infer).parameters
    assert list(parameters) == list(fields)
    hints, paths = typing.get_type_hints(infer), ("checkpoint", "data_dir", "kernel", "images", "labels")
    assert set(hints) == {*fields, "return"}
    for name, field in fields.items():
        assert parameters[name].default == field.default
        assert name in paths or hints[name] == field.type


def test_infer_takes_a_file_as_a_path(tmp_path):
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        infer(None, 5, "cpu", tmp_path / "none", data="synthetic")
