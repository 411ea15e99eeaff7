"""Charts show the measured figures, labels do not overlap, and text has enough contrast in both colour schemes."""

import base64
import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fashion_infer.bench.records import BenchCase, BenchResult, ConvolutionShape, Measurement
from fashion_infer.present.charts import benchmarks, figure, images, roofline

SVG = "{http://www.w3.org/2000/svg}"


def contender(name, kind, ms, rate=None):
    times = {"min_ms": ms, "median_ms": ms, "tflop_s": rate, "images_s": 1e5 / ms}
    return Measurement(name, kind, **times)


def benchmark(backend, cases):
    return BenchResult(
        "conv", backend, {"name": "a device"}, {}, "fashion-infer bench conv", [1, 100], 4, {}, [], cases
    )


def convolution(number, times):
    rows = [contender(f"kernel-{i}", "ours", ms, 0.27 / ms) for i, ms in enumerate(times)]
    limit, peer = contender("fill", "limit", 0.123456), contender("peer", "peer", 34.5678, 0.27 / 34.5678)
    return BenchCase(
        "x", "memory", 10, 3, [limit, *rows, peer], number, ConvolutionShape(10, 1, 28, 28, 50, 5), "kernel-0"
    )


@pytest.fixture
def drawn(tmp_path):
    """A function that draws a chart, whose colours must be those of the palette, and returns the chart's texts."""

    def call(draw, *arguments, name="c.svg"):
        path = tmp_path / name
        draw(str(path), *arguments)
        text = path.read_text(encoding="utf-8")
        body = text.partition("</style>")[2]
        assert not re.findall(r"(?:fill|stroke): (?!none|var\()[^;\"]+", body)
        assert not re.findall(r"(?:fill|stroke)=", body)
        root = ElementTree.fromstring(text)
        return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]

    return call


def test_ladder_shows_powers_of_ten_and_times(drawn):
    cases = [convolution(n, [0.54321, 1.4142, 271.828]) for n in (1, 2, 3, 4)]
    texts = drawn(benchmarks.draw_convolutions, benchmark("cpu", cases))
    for tick in ("1 ms", "10 ms", "100 ms"):
        assert texts.count(tick) == 4
    for said in ("0.543", "1.41", "272", "34.6"):
        assert texts.count(said) == 4
    assert texts.count("kernel-1") == 2  # three charts per row, with the kernels' names at the left of each row


@pytest.mark.parametrize("draw", [benchmarks.draw_convolutions, lambda *options: roofline.draw(*options, {})])
def test_a_kernel_file_has_a_colour_of_its_own(tmp_path, draw):
    case = convolution(1, [0.5, 1.4])
    for file in ("", "./mine.cpp"):
        case.rows[1].file = file  # the kernel that auto would run
        draw(str(tmp_path / "c.svg"), benchmark("cpu", [case]))
        body = (tmp_path / "c.svg").read_text(encoding="utf-8").partition("</style>")[2]
        assert ("var(--yours)" in body) == bool(file)


@pytest.mark.parametrize("backend, scale", [("gpu", 1), ("cpu", 1000)])
def test_roofline_shows_ceilings_and_ridge(drawn, backend, scale):
    ceilings = {"fill_gb_s": 50.0, "copy_gb_s": 25.0, "fp32_tflop_s": 0.2}
    bench = benchmark(backend, [convolution(1, [2.0, 4.0])])
    texts = drawn(roofline.draw, bench, ceilings)
    assert {"fill 50 GB/s", "copy 25 GB/s", f"fp32 product: {0.2 * scale:g}"} <= set(texts)
    assert "ridge: 4" in texts  # 200 GFLOP/s / 50 GB/s
    assert f"kernel-0: {0.135 * scale:.3g}" in texts and f"peer: {scale * 0.27 / 34.5678:.3g}" in texts
    assert any("FLOP/s" in text for text in texts) and ("GFLOP/s" in texts) == (backend == "cpu")
    assert drawn(roofline.draw, bench, {}) and drawn(roofline.draw, bench, {"fp32_tflop_s": 0.2})


def test_network_charts_show_ratios_to_our_time(drawn):
    cases = []
    for batch in (1, 100):
        rows = [contender("fashion-infer", "ours", 2.0), contender("slow", "peer", 8.0), contender("fast", "peer", 1.6)]
        cases.append(BenchCase("x", "memory", batch, 3, rows))
    texts = drawn(benchmarks.draw_networks, benchmark("cpu", cases))
    assert {"slow 0.25 x", "fast 1.2 x", "fashion-infer: 1 x"} <= set(texts)
    assert {"1", "100"} <= set(texts)


def test_confusion_is_shown_in_percent_of_the_true_class(drawn):
    labels, predictions = np.repeat([0, 1], [300, 8]), np.repeat([0, 1, 0, 1], [299, 1, 2, 6])
    texts = drawn(images.confusion, labels, predictions, ["a", "b"], "title")
    assert {"100", "<1", "25", "75", "a (300)", "b (8)"} <= set(texts)


def test_sheet_shows_the_pixels_of_each_picture(tmp_path):
    pictures = np.random.default_rng(1).integers(0, 256, (3, 1, 28, 28)).astype(np.uint8)
    path = tmp_path / "s.svg"
    images.sheet(str(path), pictures, np.array([0, 1, 0]), ["a", "b"], "title", np.array([1, 0, 1]))
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    assert sum("".join(e.itertext()) in ("a", "b", "(a)", "(b)") for e in root.iter(f"{SVG}text")) == 6
    (image,) = root.iter(f"{SVG}image")
    data = image.get("{http://www.w3.org/1999/xlink}href").partition(",")[2]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA"))
    grey, seen = pixels[..., 0].astype(int), pixels[..., 3] > 0
    assert seen.sum() == 3 * 28 * 28  # between the pictures the sheet is transparent
    found = [grey[17:45, left : left + 28] for left in (0, 35, 70)]
    for part, picture in zip(found, pictures[:, 0]):
        assert abs(part - picture).max() <= 1  # matplotlib's grey colour map has 256 steps


@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=20))
def test_labels_are_moved_apart_only_if_necessary(values):
    values = sorted(values)
    room = 24
    heights = figure.apart(values, 1.0, 1e6, room)
    step = 1e6 ** (1 / room)
    assert all(b / a >= step * (1 - 1e-9) for a, b in zip(heights, heights[1:]))
    assert heights[0] >= 1 - 1e-9 and heights[-1] <= 1e6 * (1 + 1e-9)
    if all(b / a > step for a, b in zip(values, values[1:])):
        assert heights == pytest.approx(values)


def luminance(colour):
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_of_text_have_contrast(scheme):
    paper = luminance(figure.PALETTE["paper"][scheme])
    for name, colours in figure.PALETTE.items():
        low, high = sorted((paper, luminance(colours[scheme])))
        assert name in ("paper", "rule") or (high + 0.05) / (low + 0.05) >= 4.5, name
