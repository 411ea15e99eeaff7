"""The one table of samples: the code of the judge's reason for each planted bug, correct files, and CUDA versions."""

import re
from pathlib import Path

from fashion_infer.system import files

SAMPLES = Path(__file__).resolve().parent / "submissions"
TEMPLATES = SAMPLES.parents[1] / "fashion_infer" / "kernel_files" / "templates"
SHAPES = ((2, 13, 40, 4), (1, 28, 6, 5))
HEAD = (
    'extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K)'
)
# What planted.cpp writes as OUTPUT, for each output, and as PRODUCT, for each product of an output.
_OUTPUT = """#include "loops.h"

CONV_FORWARD {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) \\1
}"""
_PRODUCT = """OUTPUT {
          float total = 0;
          for (int c = 0; c < s.C; ++c)
            for (int p = 0; p < s.K; ++p)
              for (int q = 0; q < s.K; ++q) \\1
          y[s.y(b, m, h, w)] = total;
        }"""


def parts(path):
    """Return the (name, codes, text) of each part of a file with several kernel files."""
    found = re.split(r"^//// ", path.read_text(), flags=re.MULTILINE)[1:]
    return [re.fullmatch(r"(\S+): (.+?)\n(.+)", part, re.DOTALL).groups() for part in found]


def written(name, texts):
    """Write files {name: text} to a folder in build/, unless they are there; return the folder."""
    folder = SAMPLES.parents[1] / "build" / name
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        if not (folder / file).exists() or (folder / file).read_text() != text:
            files.write(folder / file, text)
    return folder


_TEXTS = {}  # the contents of the files in planted.cpp by name
PLANTED = {}  # name of a planted bug -> codes of the judge's reason
RIGHT = {"helper/conv.cpp": "float32"}  # name of a correct file beside the templates -> its class
for _name, _codes, _text in parts(SAMPLES / "planted.cpp"):
    _text = re.sub(r"^PRODUCT (.*)", _PRODUCT, _text, flags=re.MULTILINE)
    _text = re.sub(r"^OUTPUT ((?:.|\n {8})*)", _OUTPUT, _text, flags=re.MULTILINE)
    _TEXTS[_name] = _text.replace("CONV_FORWARD", HEAD)
    if _codes.startswith("correct "):
        RIGHT[_name] = _codes.partition(" ")[2]
    elif _codes != "another test's":
        PLANTED[_name] = _codes


def path_of(name):
    """Return the path of a sample of planted.cpp or RIGHT."""
    if name not in _TEXTS:
        return SAMPLES / "right" / name
    file = name if "." in name else f"{name}.cpp"
    return written("planted-bugs", {"loops.h": _TEXTS["loops.h"], file: _TEXTS[name]}) / file


def codes_of(name):
    return PLANTED[name].split()


_NEEDS_A_HOST = re.compile(r"std::|#pragma|throw|(exit|abort|raise|malloc)\(|static const|immintrin|mxnet")
_CALL = f"\n{HEAD} {{\n  one_thread<<<1, 1>>>(x, k, y, B, M, C, H, W, K);\n}}\n"


def on_gpu():
    """Return the names of the planted bugs whose loops can also be compiled for the GPU."""
    return [name for name in PLANTED if not _NEEDS_A_HOST.search(_TEXTS[name])]


def cuda_form(name):
    """Return the text of a CUDA kernel file in which one GPU thread runs the loops of a bug."""
    loops = _TEXTS["loops.h"].replace("#pragma once\n", "")
    for start in ("  Shape(int", "  size_t ", "inline float"):
        loops = loops.replace(start, start.replace(start.strip(), f"__device__ {start.strip()}"))
    text = _TEXTS[name].replace('extern "C" void conv_forward', "__global__ void one_thread")
    return text.replace('#include "loops.h"\n', loops) + _CALL
