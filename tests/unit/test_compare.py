"""`compare`, on made-up files of measurements whose verdicts were computed by hand."""

import copy
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fashion_infer.bench import documents, verdicts
from fashion_infer.system import process

# Many values are from a few whole numbers, so that there are ties.
VALUES = st.one_of(st.integers(1, 8).map(float), st.floats(0.01, 10, allow_subnormal=False))

RUN = {
    "model": "ece408-high",
    "n": 100,
    "backend": "cpu",
    "context": "cpu",
    "mode": "operator",
    "precision": "float32",
    "operator": "custom",
    "kernel": "auto",
    "batch_size": 100,
    "threads": 2,
    "correctness": 0.85,
    "predictions_sha256": "0123456789abcdef",
    "waited": [],
    "data_source": "synthetic",
    "layers": [
        {"name": "new0", "seconds": [0.010, 0.011, 0.012, 0.013, 0.014]},
        {"name": "softmax", "seconds": [0.001, 0.001, 0.001, 0.001, 0.001]},
    ],
    "versions": {"python": "3.11", "library": "x"},
}
ROW = {"kind": "ours", "status": "ok", "runs": 20, "min_ms": 0.9, "median_ms": 1.0, "samples_ms": []}
BENCH = {"backend": "cpu", "device": {"name": "a CPU"}, "versions": {"library": "x"}, "command": "", "not_compared": {}}
CONV = {
    **BENCH,
    "benchmark": "conv",
    "batches": [10],
    "repeat": 20,
    "logits": [],
    "cases": [
        {
            "edition": "fa2017",
            "number": 1,
            "rows": [
                {**ROW, "name": "fill", "kind": "limit"},
                {**ROW, "name": "naive"},
                {**ROW, "name": "shifted", "min_ms": 0.99},
                {**ROW, "name": "torch", "kind": "peer"},
                {**ROW, "name": "other", "status": "skipped", "runs": 0, "min_ms": None, "median_ms": None},
            ],
        }
    ],
}
OURS = {"name": "fashion-infer", "kind": "ours", "status": "ok", "changed": 0, "runs": 300, "samples_ms": []}
NET = {
    **BENCH,
    "benchmark": "net",
    "batches": [1],
    "logits": [{"edition": "fa2017", "name": "fashion-infer", "checked": 256, "status": "ok", "changed": 0}],
    "cases": [
        {
            "edition": "fa2017",
            "where": "memory",
            "batch": 1,
            "checked": 256,
            "rows": [
                {**OURS, "min_ms": 0.019, "median_ms": 0.020},
                {**OURS, "name": "torch", "kind": "peer", "changed": None, "min_ms": 0.1, "median_ms": 0.2},
            ],
        }
    ],
}


HEADINGS = ("setting that differs", "median, ms", "must not change")


@pytest.fixture
def compare(invoke, tmp_path):
    """Compare two objects as files; return the exit code, the tables' other cells by their first cell, and stderr."""

    def call(a, b, *options):
        files = [tmp_path / name for name in ("a.json", "b.json")]
        for file, content in zip(files, (a, b)):
            file.write_text(content if isinstance(content, str) else json.dumps(content))
        code, out, err = invoke("compare", *files, *options)
        assert "Traceback" not in err and err.count("\n") <= 1
        found, table = {}, ""
        for line in out.splitlines():
            cells = [cell.strip() for cell in line.split("  ") if cell.strip()]
            if len(cells) > 1:
                table = cells[0] if cells[0] in HEADINGS else table
                found.setdefault(cells[0] if table != HEADINGS[2] else f"fact: {cells[0]}", cells[1:])
        return code, found, err

    return call


def changed(document, *path, value):
    made = copy.deepcopy(document)
    *way, last = path
    at = made
    for key in way:
        at = at[key]
    at[last] = value
    return made


def run(*ms):
    return changed(RUN, "layers", 0, "seconds", value=[value / 1e3 for value in ms])


def one_layer(*ms):
    return changed(run(*ms), "layers", value=run(*ms)["layers"][:1])


class TestRuns:
    # In the first run, new0's median is 12 ms and its quartiles are 11 and 13 ms. Therefore the noise is 2 ms.
    @pytest.mark.parametrize(
        "ms, ratio, noise, verdict",
        [
            ((12, 12, 12, 12, 12), "1.000", "2", "within the noise"),
            ((13.9, 13.9, 13.9, 13.9, 13.9), "1.158", "2", "within the noise"),
            ((14.1, 14.1, 14.1, 14.1, 14.1), "1.175", "2", "slower"),
            ((9.9, 9.9, 9.9, 9.9, 9.9), "0.825", "2", "faster"),
            ((13, 13, 15, 16, 30), "1.250", "3", "within the noise"),  # the quartiles of this run are 13 and 16
            ((13, 13, 15.1, 16, 30), "1.258", "3", "within the noise"),  # two samples of the first run exceed it
            ((14.2, 14.2, 15.1, 17.2, 30), "1.258", "3", "slower"),
        ],
    )
    def test_the_noise_is_the_larger_quartile_range(self, compare, ms, ratio, noise, verdict):
        code, lines, err = compare(RUN, run(*ms))
        assert code == 0 and not err
        assert lines["new0"][0] == "12" and lines["new0"][2:] == [ratio, noise, verdict]
        assert lines["softmax"][2:] == ["1.000", "0.03", "within the noise"]

    def test_the_noise_is_at_least_three_percent(self, compare):
        for ms, verdict in ((10.29, "within the noise"), (10.31, "slower"), (9.69, "faster"), (9.71, "within")):
            found = compare(one_layer(10, 10, 10, 10), one_layer(ms, ms, ms, ms))[1]
            assert found["new0"][4].startswith(verdict)

    def test_the_noise_of_few_passes_is_ten_percent_or_their_range(self, compare):
        assert compare(one_layer(10), one_layer(10.9))[1]["new0"][3:] == ["1", "within the noise"]
        assert compare(one_layer(10), one_layer(11.1))[1]["new0"][3:] == ["1", "slower"]
        assert compare(one_layer(10, 10, 12), one_layer(11.9))[1]["new0"][3:] == ["2", "within the noise"]
        assert compare(one_layer(10, 10, 10, 10), one_layer(10.9))[1]["new0"][3:] == ["1", "within the noise"]

    def test_all_layers_are_summed_pass_by_pass(self, compare):
        a = run(10, 20, 30, 40)
        a["layers"][1]["seconds"] = [0.040, 0.030, 0.020, 0.010]
        assert compare(a, a)[1]["all layers"] == ["50", "50", "1.000", "1.5", "within the noise"]

    def test_runs_with_different_layers(self, compare):
        fused = copy.deepcopy(RUN)
        fused["mode"], fused["layers"][0]["name"] = "fused", "new0+activation0"
        code, lines, _ = compare(RUN, fused, "--check")
        assert code == 0
        assert lines["new0"] == ["12", "only in A"] and lines["new0+activation0"] == ["12", "only in B"]
        assert lines["mode"] == ["operator", "fused"] and lines["all layers"][2] == "1.000"

    def test_names_are_not_interpreted_as_markup(self, compare):
        odd = changed(RUN, "layers", 0, "name", value="[/bold] a:smile: [red]")
        assert compare(odd, odd)[1]["[/bold] a:smile: [red]"][0] == "12"

    def test_a_layer_that_takes_no_time(self, compare):
        nothing = changed(RUN, "layers", 1, "seconds", value=[0, 0, 0, 0, 0])
        assert compare(nothing, RUN)[1]["softmax"] == ["0", "1", "0", "slower"]

    def test_check(self, compare):
        slower = run(15, 15, 15, 15, 15)
        assert compare(RUN, slower)[0] == 0
        code, _, err = compare(RUN, slower, "--check")
        assert code == 1 and "new0" in err and "all layers" in err and "softmax" not in err
        assert compare(slower, RUN, "--check")[0] == 0
        code, lines, err = compare(RUN, changed(RUN, "correctness", value=0.86), "--check")
        assert code == 1 and "correctness" in err
        assert lines["fact: correctness"] == ["0.85", "0.86", "DIFFERS"]
        code, _, err = compare(RUN, changed(RUN, "predictions_sha256", value="f"), "--check")
        assert code == 1 and "predictions" in err

    def test_correctness_of_different_models_is_not_compared(self, compare):
        other = changed(changed(RUN, "correctness", value=0.6), "model", value="ece408-low")
        code, lines, _ = compare(RUN, other, "--check")
        assert code == 0 and lines["fact: correctness"] == ["0.85", "0.6", "not comparable"]

    def test_two_real_runs(self, invoke, compare):
        words = ("run", "--n", 20, "--data", "synthetic", "--backend", "cpu", "--json")
        first = json.loads(invoke(*words)[1])
        code, lines, _ = compare(first, json.loads(invoke(*words)[1]))
        assert len(first["waited"]) == 1
        assert code == 0 and lines["fact: predictions"][2] == "same" and len(first["predictions_sha256"]) == 64


DRAWS = {
    "normal": lambda rng, n: rng.normal(10, 0.5, n),
    "two modes": lambda rng, n: rng.choice([10.0, 12.0], n) + rng.normal(0, 0.1, n),
    "outliers": lambda rng, n: 10 + rng.pareto(1.5, n),
}


class TestRanks:
    @pytest.mark.parametrize("name", DRAWS)
    @pytest.mark.parametrize("repeats", [10, 20])
    def test_fifty_comparisons_without_a_false_alarm(self, name, repeats, tmp_path):
        rng = np.random.default_rng(repeats)
        files = [str(tmp_path / name) for name in "ab"]
        for _ in range(50):
            for file in files:
                layers = [{"name": f"layer{i}", "seconds": list(DRAWS[name](rng, repeats))} for i in range(5)]
                Path(file).write_text(json.dumps({**RUN, "layers": layers}))
            assert verdicts.compare_files(*map(documents.read, files), check=True).faults() == []

    @pytest.mark.parametrize("name", DRAWS)
    def test_twice_the_time_is_always_found(self, name):
        rng = np.random.default_rng(1)
        for _ in range(50):
            a, b = (tuple(factor * DRAWS[name](rng, 20)) for factor in (1, 2))
            assert verdicts.slower(a, b) and not verdicts.slower(b, a)

    @given(st.lists(VALUES, min_size=2, max_size=30), st.lists(VALUES, min_size=2, max_size=30))
    def test_p_equals_scipys(self, a, b):
        stats = pytest.importorskip("scipy.stats")
        wanted = stats.mannwhitneyu(b, a, alternative="greater", method="asymptotic").pvalue
        if len({*a, *b}) == 1:
            wanted = 1.0  # SciPy divides by a variance of zero
        assert verdicts.p_of_larger(a, b) == pytest.approx(wanted, rel=1e-9, abs=1e-12)

    def test_samples_of_benchmarks_are_compared(self, compare):
        """A median that differs by more than the noise counts as slower only if the samples confirm the difference."""
        a, b = copy.deepcopy(CONV), copy.deepcopy(CONV)
        a["cases"][0]["rows"][1].update(samples_ms=[0.9, 1.0, 1.4] * 12)
        b["cases"][0]["rows"][1].update(samples_ms=[0.95, 1.2, 1.3] * 12, min_ms=1.15, median_ms=1.2)
        what = "fa2017 convolution 1: naive"
        assert compare(a, b, "--check")[1][what][4] == "within the noise"
        assert compare(CONV, b)[1][what][4] == "slower"
        b["cases"][0]["rows"][1]["samples_ms"] = [1.1, 1.2, 1.5] * 12
        assert compare(a, b, "--check")[0::2][0] == 1

    def test_check_needs_more_than_one_repeat(self, compare):
        one = one_layer(10)
        assert compare(one, one)[0] == 0
        for pair in ((one, RUN), (RUN, one)):
            code, lines, err = compare(*pair, "--check")
            assert code == 2 and not lines and "--repeat" in err
        single = changed(CONV, "cases", 0, "rows", 1, "runs", value=1)
        assert compare(CONV, single, "--check")[0] == 2
        peer = changed(CONV, "cases", 0, "rows", 3, "runs", value=1)
        assert compare(CONV, peer, "--check")[0] == 0


class TestOtherPrograms:
    def waiting(self, document, *seconds):
        return changed(document, "waited", value=list(seconds))

    # One run has ten passes of 10 ms, the other ten of 15 ms, in each of which threads waited `ms` for a processor.
    @pytest.mark.parametrize(
        "ms, verdict, code",
        [
            (0, "slower", 1),
            (4.5, "slower", 1),  # 15 - 4.5 ms exceeds 10 ms by more than the noise of 0.3 ms
            (4.9, verdicts.BUSY, 0),  # 15 - 4.9 ms does not
            (20, verdicts.BUSY, 0),
        ],
    )
    def test_time_that_threads_waited_is_subtracted(self, compare, ms, verdict, code):
        quiet, busy = (one_layer(*10 * [time]) for time in (10, 15))
        found, lines, err = compare(quiet, self.waiting(busy, *10 * [ms / 1e3]), "--check")
        assert found == code and lines["new0"][-1] == verdict and bool(err) == bool(code)
        # With the runs swapped, the first run is the one that waited.
        _, lines, _ = compare(self.waiting(busy, *10 * [ms / 1e3]), quiet)
        assert lines["new0"][-1] == verdict.replace("slower", "faster")
        # If the faster run waited, the other one is still slower.
        assert compare(self.waiting(quiet, *10 * [ms / 1e3]), busy)[1]["new0"][-1] == "slower"

    def test_different_shares_of_waiting_are_shown(self, compare):
        quiet = one_layer(10, 10, 10)
        # The three passes take 30 ms. Threads wait 0.001 ms in the first run, and 5 + 10 ms in the second: the wait of
        # 20 ms counts only as 10 ms, the time of its pass.
        _, lines, _ = compare(self.waiting(quiet, 0, 0, 1e-6), self.waiting(quiet, 0.005, 0.020, 0))
        assert lines["waiting for a processor"] == ["hardly", "50% of the time"]

    def test_a_gpu_does_not_wait_for_processors(self, compare):
        runs = [changed(one_layer(*10 * [ms]), "backend", value="gpu") for ms in (10, 15)]
        assert compare(runs[0], self.waiting(runs[1], *10 * [1]))[1]["new0"][-1] == "slower"

    def test_a_machine_that_does_not_count_waits(self, compare):
        assert compare(RUN, self.waiting(run(*5 * [15]), *5 * [None]))[1]["new0"][-1] == "slower"

    def test_damaged_waits(self, compare):
        for waits in ([1], [1, 2, 3, 4, -5], "five!", [1, 2, 3, 4, float("nan")]):
            code, _, err = compare(RUN, changed(RUN, "waited", value=waits))
            assert code == 3 and "damaged" in err

    def test_waited_adds_the_threads_waits(self, tmp_path, monkeypatch):
        for thread, text in (("7", "900 1500000000 3\n"), ("8", "900 250000000 3\n")):
            (tmp_path / thread).mkdir()
            (tmp_path / thread / "schedstat").write_text(text)
        monkeypatch.setattr(process, "TASKS", tmp_path)
        assert process.waited() == 1.75
        (tmp_path / "8" / "schedstat").unlink()
        assert process.waited() is None  # a thread without a count: no result
        monkeypatch.setattr(process, "TASKS", tmp_path / "nowhere")
        assert process.waited() is None


class TestBenches:
    def conv(self, row, **values):
        made = copy.deepcopy(CONV)
        made["cases"][0]["rows"][row].update(values)
        return made

    # naive has a median of 1 ms and a minimum of 0.9 ms: the noise is 0.1 ms. shifted has a minimum of 0.99 ms: the
    # noise is 3%, the least.
    @pytest.mark.parametrize(
        "row, minimum, median, ratio, noise, verdict",
        [
            (1, 1.05, 1.09, "1.090", "0.1", "within the noise"),
            (1, 1.05, 1.11, "1.110", "0.1", "slower"),
            (1, 0.80, 0.89, "0.890", "0.1", "faster"),
            (1, 0.90, 1.19, "1.190", "0.29", "within the noise"),  # the noise of this row: 1.19 - 0.9
            (2, 1.02, 1.029, "1.029", "0.03", "within the noise"),
            (2, 1.02, 1.031, "1.031", "0.03", "slower"),
        ],
    )
    def test_the_noise_is_median_minus_minimum(self, compare, row, minimum, median, ratio, noise, verdict):
        name = CONV["cases"][0]["rows"][row]["name"]
        code, lines, _ = compare(CONV, self.conv(row, min_ms=minimum, median_ms=median))
        line = lines[f"fa2017 convolution 1: {name}"]
        assert code == 0 and line == ["1", f"{median:.4g}", ratio, noise, verdict]

    def test_the_noise_of_three_runs_is_ten_percent(self, compare):
        slow = self.conv(2, runs=3, min_ms=1.09, median_ms=1.09)
        assert compare(CONV, slow)[1]["fa2017 convolution 1: shifted"][3:] == ["0.1", "within the noise"]

    def test_check_fails_only_for_our_kernels(self, compare):
        for row in (0, 3):
            slower = self.conv(row, min_ms=2.0, median_ms=2.0)
            code, lines, _ = compare(CONV, slower, "--check")
            assert code == 0 and "slower" in [line[-1] for line in lines.values()]
        code, _, err = compare(CONV, self.conv(1, min_ms=2.0, median_ms=2.0), "--check")
        assert code == 1 and "naive" in err and "shifted" not in err

    def test_a_kernel_that_became_incorrect(self, compare):
        wrong = self.conv(1, status="wrong", runs=0, min_ms=None, median_ms=None)
        code, lines, err = compare(CONV, wrong, "--check")
        assert code == 1 and "naive" in err
        assert lines["fact: fa2017 convolution 1: naive"] == ["ok", "wrong", "DIFFERS"]

    def test_networks(self, compare):
        code, lines, _ = compare(NET, NET, "--check")
        case = "fa2017 memory, batch 1: fashion-infer"
        assert code == 0 and lines[case] == ["0.02", "0.02", "1.000", "0.001", "within the noise"]
        slower = changed(NET, "cases", 0, "rows", 0, "median_ms", value=0.0225)
        code, lines, _ = compare(NET, slower, "--check")  # the noise is 0.0225 - 0.019 = 0.0035
        assert code == 0 and lines[case][3:] == ["0.0035", "within the noise"]
        slower["cases"][0]["rows"][0]["min_ms"] = 0.0215
        assert compare(NET, slower, "--check")[0] == 1
        for other in (
            changed(NET, "cases", 0, "rows", 0, "changed", value=1),
            changed(NET, "logits", 0, "changed", value=1),
            changed(NET, "logits", 0, "status", value="wrong"),
        ):
            code, _, err = compare(NET, other, "--check")
            assert code == 1 and "differs" in err and "slower" not in err
        peer = changed(NET, "cases", 0, "rows", 1, "min_ms", value=0.2)
        assert compare(NET, changed(peer, "cases", 0, "rows", 1, "median_ms", value=9.0), "--check")[0] == 0

    @pytest.mark.parametrize("name", ["kernels", "results-cpu"])
    def test_files_of_the_documentation(self, invoke, name):
        docs = Path(__file__).resolve().parents[2] / "docs"
        file = next(docs.rglob(f"{name}.json"))
        code, out, err = invoke("compare", file, file, "--check")
        assert code == 0 and "within the noise" in out and not err

    def test_settings_that_differ_are_shown(self, compare):
        _, lines, _ = compare(CONV, changed(CONV, "versions", "library", value="y"))
        assert lines["version of library"] == ["x", "y"] and "backend" not in lines


class TestRefusals:
    def test_usage(self, compare):
        assert compare(RUN, CONV)[0] == 2 and compare(RUN, NET)[0] == 2
        assert compare(RUN, changed(RUN, "n", value=200))[0] == 2
        assert compare(CONV, changed(CONV, "batches", value=[20]))[0] == 2
        assert compare(CONV, changed(CONV, "cases", 0, "edition", value="sp2018"))[0] == 2

    @pytest.mark.parametrize("text", ["", "{", '{"a": 1}', "[]", "3", '{"kind": "x", "files": []}', "[" * 100000])
    def test_files_of_other_kinds(self, compare, text):
        for pair in ((text, RUN), (RUN, text)):
            code, lines, err = compare(*pair)
            assert code == 3 and not lines and (".json is not " in err)

    @pytest.mark.parametrize(
        "damaged",
        [
            changed(RUN, "layers", value=[]),
            changed(RUN, "layers", 0, "seconds", value=[]),
            changed(RUN, "layers", 0, "seconds", value=["a"] * 5),
            changed(RUN, "layers", 0, "seconds", value=[-1] * 5),
            changed(RUN, "layers", 0, "seconds", value=[float("nan")] * 5),
            changed(RUN, "layers", 1, "name", value="new0"),
            changed(RUN, "correctness", value=None),
            changed(RUN, "versions", value=3),
            {key: value for key, value in RUN.items() if key != "threads"},
            changed(CONV, "cases", 0, "rows", 1, "min_ms", value=2.0),
            changed(CONV, "cases", 0, "rows", 1, "runs", value=0),
            changed(CONV, "cases", 0, "rows", value=None),
            changed(NET, "cases", value=[{}]),
            changed(CONV, "cases", 0, "rows", 1, "samples_ms", value=[1.0, "x"]),
        ],
    )
    def test_damaged_files(self, compare, damaged):
        code, lines, err = compare(damaged, damaged)
        assert code == 3 and "damaged" in err and not lines


class TestHistory:
    """Benchmarks that are saved by name. `save` multiplies the times in the file, so that verdicts are certain."""

    CONV = ("bench", "conv", "--backend", "cpu", "--batch", "3", "--kernels", "naive", "--against", "none")

    @pytest.fixture(autouse=True)
    def _folder(self, monkeypatch, tmp_path):
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        self.folder = tmp_path / "fashion-infer" / "benchmarks"

    def save(self, invoke, name, factor=1.0):
        assert invoke(*self.CONV, "--save", name)[0] == 0
        file = self.folder / f"{name}.json"
        data = json.loads(file.read_text())
        for row in data["cases"][0]["rows"]:
            row.update(min_ms=factor * row["min_ms"], median_ms=factor * row["median_ms"])
            row["samples_ms"] = [factor * ms for ms in row["samples_ms"]]
        file.write_text(json.dumps(data))

    @pytest.mark.parametrize(
        "factor, allowed, code", [(1e-3, "5%", 1), (1e-3, "1000000000%", 0), (1e3, "5", 0), (1e-3, None, 0)]
    )
    def test_fail_above(self, invoke, factor, allowed, code):
        self.save(invoke, "before", factor)
        words = ("--fail-above", allowed) if allowed else ()
        found, _, err = invoke(*self.CONV, "--against-saved", "before", *words)
        assert found == code and (code == 0 or "naive is slower" in err) and "fill is slower" not in err

    def test_the_last_two_are_compared(self, invoke):
        assert invoke("compare", "--last")[0] == 2
        self.save(invoke, "first")
        assert invoke("compare", "--last")[0] == 2
        self.save(invoke, "second", 1e3)
        for number, name in enumerate(("first", "second")):
            os.utime(self.folder / f"{name}.json", (number, number))
        assert invoke("bench", "saved")[:2] == (0, "first\nsecond\n")
        assert invoke("compare", "--last", "--fail-above", "5%")[0] == 1
        os.utime(self.folder / "first.json", (9, 9))  # now `first`, the faster benchmark, is the newer one
        assert invoke("compare", "--last", "--fail-above", "5%")[0] == 0
        assert invoke("compare", self.folder / "second.json", "--last", "--fail-above", "5%")[0] == 0

    def test_incomparable_benchmarks_are_refused_before_measuring(self, invoke):
        self.save(invoke, "before")
        code, out, err = invoke("bench", "net", "--backend", "cpu", "--against-saved", "before")
        assert code == 2 and not out and err.count("\n") == 1
        self.folder.joinpath("broken.json").write_text("{")
        code, out, err = invoke(*self.CONV, "--against-saved", "broken")
        assert code == 3 and not out and err.count("\n") == 1
