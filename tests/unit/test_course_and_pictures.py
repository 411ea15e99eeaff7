"""The course's programs as presets, `predict` on users' pictures, and charts of a run."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from fashion_infer import course
from fashion_infer.checkpoints import editions, zoo
from fashion_infer.data import pictures, synthetic
from fashion_infer.errors import UsageError
from fashion_infer.inference.layer_times import LayerResult
from fashion_infer.present import run


def asked(*arguments, **options):
    """Return model, edition, operator, backend and n of the request for a program of the course."""
    request = course.request(*arguments, **options)
    assert request.mode_or_default == "operator"
    return request.model, request.edition, request.operator, request.backend, request.n


def test_programs():
    assert asked("m1.1", "fa2017") == ("baseline", "fa2017", "builtin", "cpu", 10000)
    assert asked("m2.1", "fa2017") == ("ece408-high", "fa2017", "custom", "cpu", 10000)
    assert asked("m2.1", "fa2017", "ece408-low", 10) == ("ece408-low", "fa2017", "custom", "cpu", 10)
    assert course.request("final", "fa2017", "ece408-low").backend == "gpu"
    assert asked("m1.2", "sp2018") == ("baseline", "sp2018", "builtin", "gpu", 10000)
    assert asked("final", "sp2018") == ("ece408", "sp2018", "custom", "gpu", 10000)
    assert asked("final", "sp2018", "baseline") == ("baseline", "sp2018", "custom", "gpu", 10000)
    assert asked("m2.1", "fa2018") == ("ece408", "fa2018", "custom", "cpu", 10000)
    assert asked("m1.1", "sp2019") == ("baseline", "sp2019", "builtin", "cpu", 10000)
    assert asked("m2.1", "fa2019", n=100) == ("ece408", "fa2019", "custom", "cpu", 100)
    assert asked("m4.1", "fa2019", "fa2019-baseline") == ("baseline", "fa2019", "custom", "gpu", 10000)


def test_programs_of_minidnn():
    """The only argument of mini-dnn's programs is the number of images. Their default edition is fa2020."""
    assert asked("m1") == ("fa2020", "fa2020", "custom", "cpu", 10000)
    assert asked("m2", None, "100") == asked("m2", "fa2020", n=100) == ("fa2020", "fa2020", "custom", "gpu", 100)
    assert asked("m3", "fa2023", "5000") == ("fa2020", "fa2023", "custom", "gpu", 5000)
    assert asked("m2.1")[:2] == ("ece408-high", "fa2017")


@pytest.mark.parametrize(
    "arguments",
    [
        ("m2.1", "fa2020"),
        ("m1", "fa2019"),
        ("m1", None, "fa2020"),
        ("m1", None, "10", 10),
        ("m9", "fa2017"),
        ("m1.1", "fa2017", "ece408-low"),
        ("m2.1", "fa2017", "other"),
        ("m2.1", "fa2019", "ece408-high"),
        ("m1.1", "fa1999"),
        ("final", "fa1999"),
    ],
)
def test_unknown_programs_and_arguments(arguments):
    with pytest.raises(UsageError):
        course.request(*arguments)


def test_short_names():
    assert zoo.get("baseline", "fa2017").name == "baseline"
    assert zoo.get("ece408-high", "fa2017").edition == "fa2017"
    assert zoo.get("baseline").edition == "fa2017"
    assert zoo.get("baseline", "sp2018").name == zoo.get("sp2018-baseline", "sp2018").name == "sp2018-baseline"
    assert zoo.get("ece408", "fa2019") == zoo.get("fa2019-ece408")
    assert zoo.get("fa2020") == zoo.get("fa2020", "fa2020") == zoo.get("sp2023") == zoo.get("fa2025", "fa2021")
    assert zoo.default("fa2022").name == zoo.default("fa2022").short_name == "fa2020"
    assert zoo.get("fa2019-ece408").short_name == "ece408" and zoo.get("ece408-low").short_name == "ece408-low"
    with pytest.raises(UsageError, match="fa2019-ece408"):
        zoo.get("ece408")
    with pytest.raises(UsageError):
        zoo.get("ece408", "fa2024")


def test_names_of_later_terms_select_fa2020():
    one = editions.get("fa2020")
    names = [f"{term}{year}" for year in range(2021, 2026) for term in ("sp", "fa")]
    assert all(editions.get(name) is one for name in names) and set(names) == set(editions.ALIASES)
    for name in ("fa2026", "sp2020"):
        with pytest.raises(UsageError):
            editions.get(name)


@pytest.mark.parametrize(
    "arguments, op_times, last",
    [
        (("course", "m1.1", "--edition", "sp2018"), 0, "EvalMetric: {'accuracy': 0."),
        (("course", "m2.1", "baseline", "50", "--edition", "sp2018"), 2, "Model: baseline"),
        (("course", "m2.1", "ece408", "50", "--edition", "fa2019"), 2, "Model: ece408"),
        (("run", "--edition", "fa2019", "--n", "50", "--backend", "cpu"), 2, "Model: ece408"),
        (("run", "--model", "fa2019-ece408", "--n", "50", "--backend", "cpu"), 2, "Model: fa2019-ece408"),
        (("run", "--edition", "sp2018", "--model", "baseline", "--n", "50"), 0, "EvalMetric: {'accuracy': 0."),
    ],
)
def test_output_of_editions(arguments, op_times, last, invoke):
    code, out, err = invoke(*arguments, "--data", "synthetic")
    lines = out.splitlines()
    assert code == 0, err
    assert lines[2] == "New Inference" and last in lines[3 + op_times]
    assert all(line.startswith("Op Time: ") for line in lines[3 : 3 + op_times])
    assert lines[3 + op_times].endswith(" Data: synthetic") and out.count("Op Time: ") == op_times


@pytest.mark.parametrize("arguments", [("m1", "50"), ("m1", "50", "--edition", "fa2023")])
def test_output_of_minidnn(arguments, invoke):
    code, out, err = invoke("course", *arguments, "--data", "synthetic")
    assert code == 0, err
    lines = out.splitlines()
    layer = [r"Conv-CPU==", r"Op Time: \d+\.\d{6} ms"]
    wanted = ["Loading fashion-mnist data... done", "Loading model... done", *layer, *layer]
    assert all(re.fullmatch(pattern, line) for pattern, line in zip(wanted, lines))
    assert re.fullmatch(r"Test Accuracy: (0\.\d\d?|1) Data: synthetic", lines[6]) and "New Inference" not in out


def test_output_of_minidnn_on_a_gpu():
    """Layer Time is the Op Time plus the transfers before and after it. Both are printed in milliseconds."""
    ours = LayerResult("new0", "New", "tensor-core", True, (0.00421,), (0.05,), (0.004,))
    layers = [ours, LayerResult("activation0", "Activation", None, False, (1.0,), (0.0,), (0.0,)), ours]
    result = SimpleNamespace(layers=layers, backend="gpu", correctness=0.8714, data_source="fashion-mnist")
    layer = ["Conv-GPU==", "Layer Time: 58.210000 ms", "Op Time: 4.210000 ms"]
    assert run.minidnn_lines(result).splitlines() == [*layer, *layer, "Test Accuracy: 0.8714"]


@pytest.fixture
def shirt():
    images, _ = synthetic.load()
    return images[0, 0]


def test_light_backgrounds_are_inverted(shirt, tmp_path):
    path = str(tmp_path / "a.png")
    framed = np.pad(shirt, 6)
    Image.fromarray(255 - framed).save(path)
    assert pictures.read(path)[0, 0, 0] == 0 and pictures.read(path, invert=False)[0, 0, 0] == 255
    Image.fromarray(framed).save(path)
    assert pictures.read(path)[0, 0, 0] == 0 and pictures.read(path, invert=True)[0, 0, 0] == 255


def test_predict(tmp_path, invoke):
    images, _ = synthetic.load()
    for index in range(3):
        Image.fromarray(images[index, 0]).resize((56, 56), Image.NEAREST).save(str(tmp_path / f"{index}.png"))
    paths = [tmp_path / f"{index}.png" for index in range(3)]
    code, out, _ = invoke("predict", *paths, "--show", tmp_path / "sheet.png", "--backend", "cpu", "--no-invert")
    assert code == 0 and all(f"{index}.png" in out for index in range(3))
    assert Image.open(str(tmp_path / "sheet.png")).size[0] > 200


def test_plots_of_a_run(tmp_path, invoke):
    wanted = ("--confusion", tmp_path / "c.png", "--mistakes", tmp_path / "m.png")
    code, _, _ = invoke(
        "run", "--data", "synthetic", "--n", "300", "--backend", "cpu", "--model", "ece408-low", *wanted
    )
    assert code == 0
    for name in ("c.png", "m.png"):
        pixels = np.asarray(Image.open(str(tmp_path / name)).convert("L"))
        assert pixels.std() > 20  # the picture is not empty
