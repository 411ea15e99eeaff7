"""Profiling with made-up records and fake modules: tables, timelines and sources of records."""

import csv
import json
import math
import sys
import tempfile
import types
from enum import IntEnum
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fashion_infer import devices
from fashion_infer.errors import DeviceError
from fashion_infer.graph.layers import ConvolutionShape
from fashion_infer.inference.layer_times import LayerResult
from fashion_infer.library import kernels
from fashion_infer.library.op_times import OpTime
from fashion_infer.present import profile as present
from fashion_infer.profiling import mxnet, records, tables
from fashion_infer.profiling.cupti import CuptiSource
from fashion_infer.profiling.figures import Figures, Throughput, from_dict, throughputs
from fashion_infer.profiling.records import API, COPY, KERNEL, NODE, STAGE, Record
from fashion_infer.system import compilers, installation, process

MANGLED = "_ZN4fops3runEPKff"


def made(kind, name, start, duration, lane="a", size=0):
    return Record(kind, name, start, duration, lane, size)


def test_a_table():
    table = tables.tabulate(
        "GPU activities", [made(KERNEL, "k", 0, 100), made(COPY, "c", 5, 600), made(KERNEL, "k", 9, 300)]
    )
    assert table.rows == [tables.Row("c", 0.6, 600, 1, 600, 600), tables.Row("k", 0.4, 400, 2, 100, 300)]
    assert table.rows[1].avg == 200 and table.time == 1000
    shown = present.activities(table)
    assert [cell.text for cell in shown.rows[1]] == ["40.00%", "400ns", "2", "200ns", "100ns", "300ns", "k"]


def test_the_table_of_kernels_has_no_copies():
    found = [made(KERNEL, "k", 0, 300), made(COPY, "[CUDA memcpy HtoD]", 5, 600), made(KERNEL, "l", 9, 100)]
    table = tables.kernels(tables.tabulate("GPU activities", found))
    assert [(row.name, row.share) for row in table.rows] == [("k", 0.75), ("l", 0.25)]


def test_figures_survive_json():
    figures = Figures(
        [tables.tabulate("CPU activities", [made(NODE, "n", 0, 5)]), tables.tabulate("API calls", [])],
        process.Usage(1.0, 0.5, 0.25, 1 << 20),
        [Throughput("new0", "naive", 0.5, 100, 200)],
        {"fill_gb_s": 1.5},
        None,
        3,
    )
    assert from_dict(json.loads(json.dumps(figures.as_dict()))) == figures


@pytest.mark.parametrize(
    "times, names", [([90, 10], "a"), ([89, 11], "ab"), ([1] * 10, "abcdefghi"), ([0, 0], ""), ([], "")]
)
def test_rows_that_make_up_90_percent(times, names):
    table = tables.tabulate("t", [made(KERNEL, "abcdefghij"[i], 0, time) for i, time in enumerate(times)])
    assert "".join(row.name for row in tables.majority(table)) == names


@pytest.mark.parametrize(
    "nanoseconds, text", [(0, "0ns"), (999.7, "1000ns"), (2912, "2.9120us"), (22403000, "22.403ms"), (93e9, "93.000s")]
)
def test_times_have_nvprofs_format(nanoseconds, text):
    assert tables.duration(nanoseconds) == text


def test_csv(tmp_path):
    name = 'void f<1, "x">(float)'
    table = tables.tabulate("GPU activities", [made(KERNEL, name, 0, 1500)])
    tables.write_csv(str(tmp_path / "t.csv"), [table, tables.tabulate("API calls", [])])
    header, row = list(csv.reader((tmp_path / "t.csv").open(newline="")))
    assert header[0] == "Type" and header[-1] == "Name"
    assert row == ["GPU activities", "100.0000", "0.000001500", "1", *["0.000001500"] * 3, name]


def test_nested_calls_count_once():
    outer, inner = made(API, "cudaLaunchKernel", 10, 20), made(API, "cuLaunchKernel", 12, 5)
    elsewhere, later = made(API, "cuInit", 12, 5, "b"), made(API, "cuCtxSync", 30, 5)
    assert records.outermost([inner, later, outer, elsewhere]) == [outer, elsewhere, later]


def test_demangle():
    assert records.demangle(MANGLED) == "fops::run(float const*, float)"
    assert records.demangle("[CUDA memcpy HtoD]") == "[CUDA memcpy HtoD]"
    assert records.demangle("_Znonsense") == "_Znonsense"


def test_trace(tmp_path):
    found = [
        made(KERNEL, "k", 2_000, 1_000, "device 0, stream 7"),
        made(COPY, "[CUDA memcpy HtoD]", 1_000, 500, "device 0, stream 7", 1000),
        made(API, "cudaMemcpyAsync", 1_000, 2_500, "thread 1"),
        made(STAGE, "new0", 500, 9_500, "stages"),
        made(NODE, "New(new0)", 400, 9_700, "thread 2"),
    ]
    tables.write_timeline(str(tmp_path / "t.json"), found)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert list(processes.values()) == ["stages", "MXNet", "host calls", "GPU"]
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    slices = {e["name"]: e for e in events if e["ph"] == "X"}
    assert {name: processes[e["pid"]] for name, e in slices.items()} == {
        "k": "GPU",
        "[CUDA memcpy HtoD]": "GPU",
        "cudaMemcpyAsync": "host calls",
        "new0": "stages",
        "New(new0)": "MXNet",
    }
    kernel, copy = slices["k"], slices["[CUDA memcpy HtoD]"]
    assert (kernel["ts"], kernel["dur"]) == (1638 / 1024, 1.0)  # 1.6 us, rounded to 1/1024 us
    assert threads[kernel["pid"], kernel["tid"]] == "device 0, stream 7"
    assert kernel["tid"] == copy["tid"] and copy["args"] == {"bytes": 1000, "GB/s": 2.0}


@settings(suppress_health_check=[HealthCheck.too_slow])  # for a busy machine
@given(st.integers(0, 10**10), st.lists(st.sampled_from([0, 1, 1000]) | st.integers(0, 10**9), min_size=1, max_size=20))
def test_consecutive_slices_do_not_overlap_in_a_viewer(start, lengths):
    """Viewers add times in float64 or round them down, and nest a slice in one that seems to contain its start."""
    found, at = [made(API, "first", 0, 1, "host")], start
    for number, length in enumerate(lengths):
        found.append(made(STAGE, str(number), at, length, "stages"))
        at += length
    laid = [e for e in tables.timeline(found) if e["ph"] != "M" and e["cat"] == STAGE]
    assert {int(e["name"]) for e in laid} == set(range(len(lengths)))
    for e in laid:
        assert abs(1000 * e.get("dur", 0) - lengths[int(e["name"])]) < 2
    slices = [e for e in laid if e["ph"] == "X"]
    assert all(e["dur"] > 0 for e in slices) and all(e["ph"] == "i" for e in laid if "dur" not in e)
    for one, other in zip(slices, slices[1:]):
        origin = slices[0]["ts"]
        assert one["ts"] - origin + one["dur"] <= other["ts"] - origin
        assert int(1000 * one["ts"]) + int(1000 * one["dur"]) <= int(1000 * other["ts"])


class FakeCupti(types.ModuleType):
    """A fake of the module cupti.cupti. A flush delivers the pending records of the enabled kinds."""

    ActivityKind = IntEnum("Kind", {"MEMCPY": 1, "MEMSET": 2, "DRIVER": 4, "RUNTIME": 5, "CONCURRENT_KERNEL": 10})
    ActivityMemcpyKind = IntEnum("ActivityMemcpyKind", "HTOD DTOH")
    CallbackDomain = types.SimpleNamespace(DRIVER_API=1, RUNTIME_API=2)
    refuses = False

    def __init__(self, pending=()):
        super().__init__("cupti.cupti")
        self.pending, self.enabled = list(pending), set()

    def activity_register_callbacks(self, requested, completed):
        size, count = requested()
        assert size >= 1 << 20 and count == 0
        self.completed = completed

    def activity_enable(self, kind):
        if self.refuses:
            raise RuntimeError("CUDA driver\n is not found")
        self.enabled.add(kind)

    def activity_disable(self, kind):
        self.enabled.remove(kind)

    def activity_flush_all(self, flag):
        assert flag == 1
        self.completed([a for a in self.pending if a.kind in self.enabled])
        for a in self.pending:
            vars(a).clear()  # as CUPTI's records become invalid
        self.pending = []

    def get_timestamp(self):
        return 0

    def get_callback_name(self, domain, number):
        return {
            (2, 1): "cudaMalloc_v3020",
            (2, 2): "cudaLaunchKernel_ptsz",
            (1, 7): "cuLaunchKernel",
            (1, 8): "cuInit",
        }[domain, number]


def activity(kind, start, end, **more):
    return types.SimpleNamespace(kind=kind, start=start, end=end, **more)


def installed(monkeypatch, fake):
    package = types.ModuleType("cupti")
    package.cupti = fake
    monkeypatch.setitem(sys.modules, "cupti", package)
    monkeypatch.setitem(sys.modules, "cupti.cupti", fake)
    return fake


def test_cupti(monkeypatch):
    where = {"device_id": 0, "stream_id": 7}
    pending = [
        activity(10, 100, 400, name=MANGLED, **where),
        activity(1, 10, 60, copy_kind=1, bytes=5000, **where),
        activity(2, 70, 80, bytes=64, **where),
        activity(5, 0, 5, cbid=1, thread_id=3),
        activity(5, 90, 99, cbid=2, thread_id=3),
        activity(4, 92, 95, cbid=7, thread_id=3),
        activity(4, 200, 210, cbid=8, thread_id=3),
        activity(33, 1, 2),
    ]
    fake = installed(monkeypatch, FakeCupti(pending))
    monkeypatch.setattr("fashion_infer.profiling.cupti.time.time_ns", lambda: 1_000_000)
    source = CuptiSource()
    source.start()
    source.start()
    assert fake.enabled == {1, 2, 4, 5, 10}
    source.stop()
    source.stop()
    assert not fake.enabled
    lane = "device 0, stream 7"
    assert source.take() == [
        Record(KERNEL, "fops::run(float const*, float)", 1_000_100, 300, lane, 0),
        Record(COPY, "[CUDA memcpy HtoD]", 1_000_010, 50, lane, 5000),
        Record(records.SET, "[CUDA memset]", 1_000_070, 10, lane, 64),
        Record(API, "cudaMalloc", 1_000_000, 5, "CUDA, thread 1"),
        Record(API, "cudaLaunchKernel", 1_000_090, 9, "CUDA, thread 1"),
        Record(API, "cuInit", 1_000_200, 10, "CUDA, thread 1"),
    ]
    assert source.take() == []


def test_cupti_that_cannot_start(monkeypatch):
    fake = installed(monkeypatch, FakeCupti())
    fake.refuses = True
    with pytest.raises(DeviceError):
        CuptiSource().start()


def test_missing_cupti(monkeypatch, invoke):
    monkeypatch.setitem(sys.modules, "cupti", None)
    monkeypatch.setitem(sys.modules, "cupti.cupti", None)
    monkeypatch.setattr(kernels, "table", lambda backend="cpu": [kernels.Kernel("k", "", "", "float32")])
    monkeypatch.setattr(devices, "choose", lambda *_: devices.Choice("gpu", "cpu", None))
    monkeypatch.setattr(compilers, "count_cuda_devices", lambda: 1)
    status, _, err = invoke("profile", "--data", "synthetic", "--n", "5", "--backend", "gpu")
    assert status == 4 and installation.extra("profile") in err and len(err.splitlines()) == 1


def event(phase, name, ts, cat="operator", tid=1):
    return {"ph": phase, "name": name, "ts": ts, "cat": cat, "tid": tid, "pid": 0}


def test_parse_of_mxnets_dump():
    events = [
        event("B", "New", 10),
        event("b", "New", 10),
        event("e", "New", 15),
        event("E", "New", 15),
        event("b", "MXForward", 5, "MXNET_C_API"),
        event("C", "MXNet C API Calls", 5, "MXNET_C_API"),
        event("b", "MXWait", 6, "MXNET_C_API"),
        event("e", "MXWait", 16, "MXNET_C_API"),
        event("e", "MXForward", 20, "MXNET_C_API"),
        event("E", "Begun before", 21),
        event("B", "Not over", 22),
        {"ph": "M", "name": "process_name", "pid": 0, "args": {}},
    ]
    text = json.dumps({"traceEvents": events})
    found = mxnet.parse(text)
    assert found == [
        Record(NODE, "New", 10_000, 5_000, "MXNet, thread 1"),
        Record(API, "MXWait", 6_000, 10_000, "MXNet, thread 1"),
        Record(API, "MXForward", 5_000, 15_000, "MXNet, thread 1"),
    ]
    assert mxnet.parse(text.replace("[", "[\n,\n", 1)) == found  # the beginning of a process's second dump


@pytest.mark.parametrize("written", [None, "", '{"traceEvents": [\n    {"name": "a"'])
def test_a_dump_that_mxnet_could_not_write(written, tmp_path, monkeypatch):
    """A missing or incomplete dump is an error. MXNet itself reports none if the disk is full."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    source = mxnet.MXNetSource()
    profiler = types.SimpleNamespace(set_state=lambda _: None, dump=lambda finished: None)
    monkeypatch.setattr(source, "_mx", types.SimpleNamespace(profiler=profiler))
    if written is not None:
        Path(source._path).write_text(written)
    with pytest.raises(DeviceError, match=f"make room in {tmp_path}, or set TMPDIR"):
        source.take()
    source.close()


def test_nodes_get_their_layers_names():
    layers = [("new0", "New"), ("activation0", "Activation"), ("activation1", "Activation")]
    nodes = [made(NODE, name, i, 1) for i, name in enumerate(["New", "Activation", "Activation", "WaitForVar"] * 2)]
    names = [node.name for node in mxnet.with_layer_names(nodes, layers)]
    assert names == ["New(new0)", "Activation(activation0)", "Activation(activation1)", "WaitForVar"] * 2
    known = [node.name for node in mxnet.with_layer_names(nodes[:2], layers)]
    assert known == ["New(new0)", "Activation"]  # unknown layer


CONV = ConvolutionShape(10, 1, 28, 28, 50, 5)
DENSE = ConvolutionShape(10, 7200, 1, 1, 500, 1)


def test_stages_are_consecutive():
    one = "conv", OpTime(2, 4, "fused", CONV, 2e-6, 1e-6, 0.0, 1)
    two = "dense", OpTime(5, 9, "fused", DENSE, 3e-6, 0.0, 0.5e-6)
    passes = [made(NODE, mxnet.NETWORK, 50_000, 10_000), made(NODE, mxnet.NETWORK, 10_000, 6_000)]
    found = mxnet.stage_records([one, two, one, two], passes)
    assert [(r.name, r.start, r.duration) for r in found] == [
        ("[upload]", 10_000, 1000),
        ("conv", 11_000, 2000),
        ("dense", 13_000, 3000),
        ("[download]", 16_000, 500),
        ("[upload]", 50_000, 1000),
        ("conv", 51_000, 2000),
        ("dense", 53_000, 3000),
        ("[download]", 56_000, 500),
        ("[between the stages]", 56_500, 3500),
    ]


def layer(name, kernel, seconds, log, operator="New"):
    return LayerResult(
        name, operator, kernel, operator == "New", seconds, (0.0,) * len(seconds), (0.0,) * len(seconds), log
    )


def test_throughput():
    slices = (OpTime(2, 2, "naive", CONV, 1.0, 0, 0, 1),) * 2
    (found,) = throughputs([layer("new0", "naive", (2.0, 4.0, 2.0), (slices,) * 3)])
    assert found.seconds == 2.0
    assert found.operations == 2 * (2 * 10 * 50 * 24 * 24 * 25)
    assert found.bytes == 2 * (10 * 784 + 4 * (50 * 25 + 10 * 50 * 24 * 24))
    assert math.isclose(found.gb_s, found.bytes / 2e9) and math.isclose(found.tflop_s, found.operations / 2e12)


def test_bytes_of_a_fused_stage():
    conv, dense = OpTime(2, 3, "fused", CONV, 1.0, 0, 0, 1), OpTime(4, 4, "fused", DENSE, 1.0, 0, 0)
    layers = [layer("new0+pool", "fused", (1.0,), ((conv,),)), layer("fc", "fused", (1.0,), ((dense,),), "Dense")]
    (found,) = throughputs(layers)
    assert found.bytes == 10 * 784 + 4 * (50 * 25 + 10 * 7200)


def test_layers_without_a_log_have_no_throughput():
    assert throughputs([layer("c", None, (1.0,), ((),)), layer("a", None, (1.0,), ((),), "Activation")]) == []


@pytest.mark.parametrize("wall, text", [(7.891, "0:07.89"), (75.999, "1:15.99"), (3725.9, "1:02:05")])
def test_usage_has_the_format_of_time(wall, text):
    used = process.Usage(wall, 6.004, 0.5, 250 * 1024 * 1024, 1, 2, 3, 4, 0)
    first, second = process.as_time_prints(used).splitlines()
    share = int(100 * 6.504 / wall)
    assert first == f"6.00user 0.50system {text}elapsed {share}%CPU (0avgtext+0avgdata 256000maxresident)k"
    assert second == "3inputs+4outputs (1major+2minor)pagefaults 0swaps"


@pytest.mark.parametrize("mode", ["operator", "fused"])
def test_profile_on_the_cpu(invoke, tmp_path, mode):
    paths = [tmp_path / name for name in ("t.csv", "t.json")]
    options = [f"{flag}={path}" for flag, path in zip(("--csv", "--trace"), paths)]
    asked = ["--data", "synthetic", "--n", "250", "--backend", "cpu", "--mode", mode, "--repeat", "2", "--turns", "1"]
    status, out, err = invoke("profile", *asked, "--no-ceilings", "--json", *options)
    assert status == 0, err
    found = json.loads(out)
    activities, calls = found["tables"]
    name = "New(new0)" if mode == "operator" else "new0+activation0+pooling0"
    ours = next(row for row in activities["rows"] if row["name"] == name)
    assert ours["calls"] == (6 if mode == "operator" else 2)  # 2 passes; in operator mode each has 3 slices
    assert abs(sum(row["share"] for row in activities["rows"]) - 1) < 1e-9 and activities["majority"]
    assert any(row["name"] == "MXExecutorForward" for row in calls["rows"])
    assert len(found["run"]["layers"][0]["seconds"]) == 2  # without the passes without the profiler
    assert paths[0].read_text().splitlines()[1].startswith("CPU activities,")
    slices = [e for e in json.loads(paths[1].read_text())["traceEvents"] if e["ph"] == "X"]
    assert name in {e["name"] for e in slices} and "MXExecutorForward" in {e["name"] for e in slices}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.csv", "t.json"]


def test_profile_of_mxnets_own_convolution(invoke):
    run = ("profile", "--data", "synthetic", "--n", "20", "--backend", "cpu", "--model", "baseline", "--op", "builtin")
    status, out, err = invoke(*run, "--turns", "0", "--no-ceilings")
    assert status == 0, err
    assert all(word in out for word in ("Convolution(", "CPU activities:", "API calls:", "maxresident"))
