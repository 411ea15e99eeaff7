"""`kernel explain` names faults that are planted in GPU kernels. The tests need compute-sanitizer and ncu."""

import planted_kernels as planted
import pytest
from profiles import drawn

from fashion_infer.errors import DeviceError
from fashion_infer.explain import ncu, slow_gpu, wrong
from fashion_infer.graph.layers import ConvolutionShape
from fashion_infer.kernel_files import formats
from fashion_infer.system.programs import find_tool


def needs(tool):
    try:
        find_tool(tool)
    except DeviceError as error:
        pytest.skip(str(error))


def test_the_faulty_line_is_named(tmp_path):
    needs("compute-sanitizer")
    sample, named = drawn(list(planted.WRONG.items()), 3), 0
    for name, (_, text) in sample:
        path = tmp_path / f"{name}.cu"
        path.write_text(text)
        found, _ = wrong.findings(planted.verdict(formats.recognise(path), name), 60)
        named += bool(found) and found[0].line in planted.marked(text)
    assert named >= len(sample) - 1  # no tool shows the line for uninitialised shared memory


def test_the_cause_of_slowness_is_named(tmp_path):
    needs("ncu")
    sample, named = drawn(list(planted.SLOW.items()), 3), 0
    for name, ((images, channels, side, filters, taps), text) in sample:
        path = tmp_path / f"{name}.cu"
        path.write_text(text)
        file, shape = formats.recognise(path), ConvolutionShape(images, channels, side, side, filters, taps)
        found, _ = slow_gpu.findings(ncu.measure(file, shape, 60), path, file.format)
        named += bool(found) and found[0].code in planted.SAME.get(name, {name})
    assert named >= len(sample) - 1
