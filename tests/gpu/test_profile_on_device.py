"""The profiler on a CUDA device: its tables and timeline show the kernels that ran."""

import json

import pytest

from fashion_infer.errors import DeviceError
from fashion_infer.library import kernels


@pytest.fixture(autouse=True)
def _cupti():
    pytest.importorskip("cupti")
    try:
        if not kernels.table("gpu"):
            pytest.skip("the library has no CUDA part")
    except DeviceError as error:
        pytest.skip(str(error))


def test_tables_and_timeline(invoke, tmp_path):
    profile, timeline = tmp_path / "p.json", tmp_path / "t.json"
    options = ("--data", "synthetic", "--n", "300", "--batch-size", "100", "--turns", "1", "--no-ceilings")
    kernel = ("--backend", "gpu", "--kernel", "global-accumulate")
    status, _, err = invoke("profile", *options, *kernel, "--json", profile, "--trace", timeline)
    assert status == 0, err
    found = json.loads(profile.read_text())
    activities, calls = ({row["name"]: row for row in table["rows"]} for table in found["tables"])
    ours = next(row for name, row in activities.items() if "global_accumulate" in name)
    assert ours["calls"] == 6  # three batches, each after a launch on a single image
    assert activities["[CUDA memcpy DtoH]"]["calls"] == 3 and "[CUDA memcpy HtoD]" in activities
    assert calls["cudaLaunchKernel"]["calls"] == 6 and "cuLaunchKernel" not in calls
    slices = [event for event in json.loads(timeline.read_text())["traceEvents"] if event["ph"] == "X"]
    assert {event["cat"] for event in slices} >= {"kernel", "copy", "api", "node"}
