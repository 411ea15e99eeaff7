"""The report without a browser: figures, pages and folder."""

import copy
import json
import re
import subprocess
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from command_line import parsed
from html_pages import Page

from fashion_infer import verification
from fashion_infer.bench import ceilings as limits
from fashion_infer.bench.records import BenchCase, ConvolutionShape, Measurement
from fashion_infer.errors import DataError, UsageError
from fashion_infer.explain.findings import KernelFinding
from fashion_infer.present import content
from fashion_infer.present.charts import roofline
from fashion_infer.present.render import documents
from fashion_infer.present.report import pages, sections
from fashion_infer.profiling.figures import Throughput
from fashion_infer.report import folder, gather
from fashion_infer.report.gather import ReportRequest

NAMES = ["correctness", "mistakes", "baseline", "ladder", "roofline", "network", "op-times", "profile", "environment"]
BAD = verification.Check("ece408-low", "shipped", "fused", "custom", "cpu", "synthetic", 2000, 0.6, 0.5)
PICTURES = ["confusion.svg", "mistakes.svg", "ladder.svg", "roofline.svg", "network.svg"]


@pytest.fixture
def text(small_report):
    return small_report.page.read_text(encoding="utf-8")


@pytest.fixture
def written(small_report):
    return (small_report.folder / "report.md").read_text(encoding="utf-8")


def unfolded(parts):
    return [one for part in parts for one in (unfolded(part.parts) if part.kind == "folded" else [part])]


def rendered(measured, pictures=PICTURES):
    made = pages.page(measured, "out", pictures)
    return {section.name: unfolded(section.parts) for section in made.sections}, made


def texts(parts):
    return " ".join(part.text for part in parts if hasattr(part, "text"))


def facts(page):
    return [part.text for part in page.head if hasattr(part, "text")]


class TestPages:
    def test_html_has_all_sections(self, text):
        page = Page(text)
        assert [attributes["id"] for attributes in page.all("section")] == NAMES
        assert [attributes["href"] for attributes in page.all("a")] == [f"#{name}" for name in NAMES]
        ids = [value for _, attributes in page.elements for name, value in attributes if name == "id"]
        assert len(ids) == len(set(ids))

    def test_html_loads_no_other_files(self, text):
        assert not re.search(r"https?:", text) and "file:" not in text
        page = Page(text)
        for attributes in [*page.all("img"), *page.all("image"), *page.all("use")]:
            (where,) = (attributes[name] for name in ("src", "href", "xlink:href") if name in attributes)
            assert where.startswith(("data:image/png;base64,", "#"))
        assert not page.all("iframe") and not any("src" in attributes for attributes in page.all("script"))
        assert [attributes["href"] for attributes in page.all("link")] == ["data:,"]
        assert not re.search(r"url\((?!#)", text) and "@import" not in text

    def test_pictures_are_the_files_and_have_alt_text(self, small_report, text, written):
        images = [attributes for attributes in Page(text).all("div") if attributes.get("role") == "img"]
        assert len(images) == len(PICTURES) and all(len(attributes["aria-label"]) > 20 for attributes in images)
        for name in PICTURES:
            drawn = (small_report.folder / name).read_text(encoding="utf-8")
            assert ElementTree.fromstring(drawn).get("viewBox")
            assert drawn[drawn.index("</style>") + 8 :].strip() in text
        assert re.findall(r"!\[.+\]\((.+)\)", written) == PICTURES

    def test_markdown_has_the_same_tables_and_commands(self, small_report, text, written):
        parts = [part for section in rendered(small_report.measured)[0].values() for part in section]
        tables = [part for part in parts if part.kind == "table"]
        assert written.count("\n### ") == len(tables) == len(Page(text).all("table"))
        lines = [line for line in written.splitlines() if line.startswith("|")]
        assert len(lines) == sum(2 + len(table.rows) for table in tables)
        commands = [part.text for part in parts if part.kind == "command"]
        assert commands and all(f"\n    {command}\n" in written for command in commands)

    def test_special_characters_in_cells(self, tmp_path):
        table = content.table("a|b <i>", ["name", ">n"], [["void f<int>(a|b)\nsecond_line", (1.5, "1.50")], [None, 2]])
        section = content.Section("s", "S", [table, content.Missing("<script>alert(1)</script>")])
        made = content.Page("R", [content.Text("*")], [section])
        page = documents.html_page(made, tmp_path)
        assert "f&lt;int&gt;(a|b)" in page and "<script>alert" not in page and 'data-value="1.5"' in page
        assert Page(page).all("td")
        assert "| void f\\<int\\>(a\\|b)<br>second\\_line | 1.50 |\n|  | 2 |" in documents.markdown_page(made)

    def test_names_in_a_text_are_code(self, tmp_path):
        parts = [content.Text("run `f<x>`"), content.table("", ["a"], [["`b`"]])]
        made = content.Page("R", parts, [])
        page = documents.html_page(made, tmp_path)
        assert (
            "<code>f&lt;x&gt;</code>" in page and "<code>b</code>" in page and "`" not in page.partition("<script>")[0]
        )
        assert "run `f<x>`" in documents.markdown_page(made)


class TestFigures:
    def test_sections_have_commands_that_parse(self, small_report):
        parts, made = rendered(small_report.measured)
        of_sections = [[part.text for part in parts[name] if part.kind == "command"] for name in NAMES]
        assert all(of_sections)
        commands = {command for found in of_sections for command in found}
        assert "fashion-infer report --out out --backend cpu --n 300 --quick --data synthetic" in facts(made)
        for command in commands:
            parsed(command.split()[1:])

    def test_op_times_of_both_modes(self, small_report):
        parts, _ = rendered(small_report.measured)
        tables = [part for part in parts["op-times"] if part.kind == "table"]
        assert [run.mode for run in small_report.measured.runs] == ["operator", "fused"]
        for run, table in zip(small_report.measured.runs, tables):
            assert [row[0].text for row in table.rows] == [layer.name for layer in run.layers]
            assert [row[3].value for row in table.rows] == [layer.median for layer in run.layers]
            assert sum(row[6].value for row in table.rows) == pytest.approx(100)
        assert "Predictions that differ between the two modes: 0 of 300." in texts(parts["op-times"])

    def test_mistakes_are_counted(self, small_report):
        parts, _ = rendered(small_report.measured)
        result = small_report.measured.runs[1]
        wrong = (result.predictions != result.labels).sum()
        assert texts(parts["mistakes"]).startswith(f"{wrong} of 300 images are misclassified")
        table = next(part for part in parts["mistakes"] if part.kind == "table")
        first = table.rows[0]
        names = result.class_names
        pair = (result.labels == names.index(first[0].text)) & (result.predictions == names.index(first[1].text))
        assert first[2].value == pair.sum()

    @pytest.mark.parametrize(
        "ceilings, roof",
        [
            ({"fill_gb_s": 10, "copy_gb_s": 8, "fp32_tflop_s": 1.0}, 0.05),  # 5 operations per byte at 10 GB/s
            ({"fill_gb_s": 8, "copy_gb_s": 10, "fp32_tflop_s": 0.02, "fp16_tflop_s": 0.04}, 0.04),
            ({"fill_gb_s": 10}, 0.05),
            ({}, None),
        ],
    )
    def test_the_roof_is_the_lower_limit(self, small_report, tmp_path, ceilings, roof):
        assert limits.roof(5.0, ceilings) == (roof and pytest.approx(roof))
        bench = copy.copy(small_report.measured.convolutions)
        row = Measurement("quick", "ours", step=1, median_ms=1.0, min_ms=1.0, gb_s=1.0, tflop_s=0.01)
        shape = ConvolutionShape(2, 3, 6, 6, 4, 3)
        bench.cases = [BenchCase("x", "memory", 2, 2, [row], number, shape, "quick") for number in (1, 2)]
        roofline.draw(str(tmp_path / "r.png"), bench, ceilings)
        measured = small_report.measured._replace(convolutions=bench, ceilings=ceilings, no_ceilings="no torch")
        parts, _ = rendered(measured)
        last = [part for part in parts["roofline"] if part.kind == "table"][-1]
        assert last.rows[0][4].value == (
            pytest.approx(1 / limits.roof(shape.intensity, ceilings)) if ceilings else None
        )
        assert ("no torch" in texts(parts["roofline"])) == (not ceilings)

    def test_what_is_wrong_is_said_first(self, small_report):
        measured = small_report.measured._replace(checks=[BAD])
        other = measured.runs[0]._replace(predictions=(measured.runs[0].predictions + 1) % 10)
        measured = measured._replace(runs=[other, measured.runs[1]])
        first = "ece408-low (shipped weights, fused mode, custom) on 2000 images"
        assert measured.wrong == [first, "300 predictions differ between the modes"]
        _, made = rendered(measured)
        assert f"WRONG: {'; '.join(measured.wrong)}." in facts(made)

    def test_compare_reads_the_json_files(self, small_report, invoke):
        for name in ("run-operator.json", "run-fused.json", "bench-conv.json", "bench-net.json"):
            file = small_report.folder / name
            code, out, err = invoke("compare", file, file, "--check")
            assert code == 0 and "within the noise" in out and not err


class TestStrip:
    """The strip of facts at the top of the report, compared with figures computed from the measurements."""

    def facts(self, measured):
        return {fact.name: fact for fact in sections.strip(measured).facts}

    def bench(self, small_report, ours, peers, **values):
        """Return the report's convolutions with other times in ms: 0.5 for the floor, `ours`, and `peers` per layer."""
        bench = copy.deepcopy(small_report.measured.convolutions)
        shape, bench.cases = bench.cases[0].shape, []
        for number, (one, other) in enumerate(zip(ours, peers), 1):
            rows = [Measurement("fill", "limit", median_ms=0.5), Measurement("theirs", "peer", median_ms=other)]
            rows.insert(1, Measurement("mine", "ours", median_ms=one, **values))
            bench.cases.append(BenchCase("x", "memory", 3, 3, rows, number, shape, "mine"))
            bench.cases[-1].rate({})
        return bench

    def test_facts_about_a_kernel_file(self, small_report):
        finding = KernelFinding("c", "reads far apart", "mine", 3, "sum += x;", 0.5, "turn it", "quick", None, {})
        verdict = SimpleNamespace(file=SimpleNamespace(name="mine"), precision="float32", sentence="mine is incorrect")
        known = SimpleNamespace(verdict=verdict, right=True, findings=(finding,), missing=("no ncu",))
        measured = small_report.measured._replace(
            kernel=known, convolutions=self.bench(small_report, (2.0,), (8.0,), file="./mine"), checks=[BAD]
        )
        facts = self.facts(measured)
        assert facts["Against the best peer"].figure == "4.0 times faster"  # not of the network: it runs our kernels
        assert facts["Distance to the write floor"].figure == "4.0 times slower"
        assert (facts["Your kernel"].figure, facts["Our kernels and networks"].figure) == ("correct", "WRONG")
        parts, made = rendered(measured)
        assert [section.name for section in made.sections][:4] == ["kernel", "ladder", "roofline", "correctness"]
        (table,) = [part for part in parts["kernel"] if part.kind == "table"]
        (row,) = table.rows
        assert row[0].text.startswith("reads far apart") and (row[2].text, row[3].value) == ("sum += x;", 50)
        assert "no ncu" in texts(parts["kernel"])
        measured = measured._replace(kernel=SimpleNamespace(**{**vars(known), "right": False}), checks=[])
        facts = self.facts(measured)
        assert (facts["Your kernel"].figure, facts["Our kernels and networks"].figure) == ("WRONG", "correct")
        assert len(facts) == 3 and measured.wrong == ["mine is incorrect"]  # no speed
        assert "mine is incorrect" in texts(rendered(measured)[0]["kernel"])

    def test_without_networks_convolutions_are_compared(self, small_report):
        measured = small_report.measured._replace(networks=None, no_networks="why")
        facts = self.facts(measured._replace(convolutions=self.bench(small_report, (2.0, 3.0), (8.0, 4.5))))
        assert facts["Against the best peer"].figure == "2.5 times faster"  # 12.5 ms / 5 ms
        assert facts["Distance to the write floor"].figure == "5.0 times slower"  # 5 ms / 1 ms
        facts = self.facts(measured._replace(convolutions=self.bench(small_report, (0.4, 3.0), (8.0, 4.5))))
        assert facts["Distance to the write floor"].figure == "--"  # a floor is invalid if a kernel is faster


@pytest.mark.parametrize(
    "ratio, said",
    [
        (1.62, "1.6 times faster than"),
        (1 / 317.27, "317 times slower than"),
        (5950.0, "5,950 times faster than"),
        (1.02, "as fast as"),
    ],
)
def test_ratios_have_one_direction(ratio, said):
    assert content.compared(ratio) == said


def test_no_figure_has_an_exponent():
    assert content.three_digits(5950.4) == "5,950" and content.three_digits(1.234e7) == "12,300,000"
    assert content.number(59500.4, ".3g") == (59500.4, "59,500")


class TestNetwork:
    def test_figures_equal_the_benchmarks(self, small_report):
        result = small_report.measured.networks
        parts, _ = rendered(small_report.measured)
        tables = {part.caption: part for part in parts["network"] if part.kind == "table"}
        checks = tables.pop("Logits against float64, before anything is timed")
        assert [row[-1].text for row in checks.rows] == ["ok"]
        rates = tables.pop("Images a second by batch size, from images in memory to scores in memory")
        assert rates.rows[0][0].text == "fashion-infer" and len(rates.rows[0]) == 3
        assert list(tables) == [case.title for case in result.cases] and result.batches == [1, 3]
        for case, column in zip(result.cases, (1, 2)):
            ours = case.rows[0]
            assert rates.rows[0][column].text == f"{ours.images_s:,.0f}"
            (row,) = [row for row in tables[case.title].rows if row[0].text == "fashion-infer"]
            cells = {column.name: cell.value for column, cell in zip(tables[case.title].columns, row)}
            assert (cells["error"], cells["changed"], cells["median ms"]) == (ours.error, 0, ours.median_ms)

    def test_a_network_that_is_wrong(self, small_report, tmp_path):
        network = copy.deepcopy(small_report.measured.networks)
        network.logits[0].status, network.logits[0].reason, network.cases = "wrong", "off by 1e-3", []
        measured = small_report.measured._replace(networks=network)
        assert measured.wrong == ["fashion-infer on fa2017"]
        drawn = pages.draw(tmp_path, measured)
        assert "network.svg" not in drawn
        parts, made = rendered(measured, drawn)
        assert "WRONG: fashion-infer on fa2017." in facts(made)
        checks = next(part for part in parts["network"] if part.kind == "table")
        assert [row[-1].text for row in checks.rows] == ["WRONG: off by 1e-3"]


class TestProfile:
    def test_convolutions_compared_with_ceilings(self, small_report):
        first = small_report.measured.profiles[0]
        rates = Throughput("new0", "naive", 0.002, 60_000_000, 100_000_000)  # 30 GB/s and 0.05 TFLOP/s
        profiled = first._replace(figures=first.figures._replace(throughput=[rates]))
        ceilings = {"fill_gb_s": 40.0, "copy_gb_s": 1.0, "fp32_tflop_s": 0.2}
        run = small_report.measured.runs[0]
        layers = [layer._replace(seconds=(0.002,)) if layer.name == "new0" else layer for layer in run.layers]
        timed = small_report.measured._replace(runs=[run._replace(layers=layers), small_report.measured.runs[1]])
        for known, shares in ((ceilings, ["75.0%", "25.0%"]), ({}, ["", ""])):
            parts, _ = rendered(timed._replace(profiles=[profiled], ceilings=known))
            (row,) = next(p for p in parts["profile"] if "Convolutions" in getattr(p, "caption", "")).rows
            assert [cell.text for cell in row] == ["new0", "naive", "2.000", "30.0", shares[0], "50.0", shares[1]]

    @pytest.mark.parametrize(
        "outcome, reason",
        [
            (subprocess.CompletedProcess([], 4, "", "x\nfashion-infer: there is no CUPTI\n"), "there is no CUPTI"),
            (subprocess.CompletedProcess([], -9, "", ""), "exit code -9"),
            (subprocess.TimeoutExpired("profile", 600), "timed out"),
            (subprocess.CompletedProcess([], 0, "", ""), "Expecting value"),
        ],
    )
    def test_without_a_profiler_op_times_are_shown(self, small_report, monkeypatch, outcome, reason):
        def run(program, **options):
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(gather.subprocess, "run", run)
        measured = small_report.measured
        profile = gather.measure_profile(["profile"], measured.runs[1], "fashion-infer profile")
        assert reason in profile.missing and profile.figures.usage is None and profile.figures.ceilings is None
        (table,) = profile.figures.tables
        assert sum(row.share for row in table.rows) == pytest.approx(1)
        assert [row.time for row in table.rows] == sorted((row.time for row in table.rows), reverse=True)
        assert all(row.min <= row.avg <= row.max and row.calls == 4 for row in table.rows)
        parts, _ = rendered(measured._replace(profiles=[profile]))
        captions = [part.caption for part in parts["profile"] if part.kind == "table"]
        assert f"{reason}" in texts(parts["profile"]) and "Op times, operator mode" in captions


class TestFolder:
    def put(self, path, **files):
        with folder.replacing(path) as new:
            for name, text in files.items():
                (new / name).write_text(text)

    def test_new_empty_and_earlier_folders(self, tmp_path):
        path = tmp_path / "r"
        assert folder.check(str(path)) == path
        path.mkdir()
        self.put(folder.check(str(path)), a="1", b="1")
        self.put(folder.check(str(path)), a="2")
        assert sorted(p.name for p in path.iterdir()) == ["a", "report.json"] and (path / "a").read_text() == "2"
        assert [p.name for p in tmp_path.iterdir()] == ["r"]

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_a_failure_keeps_the_earlier_report(self, tmp_path, error):
        path = tmp_path / "r"
        self.put(path, a="1")

        def fail():
            with folder.replacing(path) as new:
                (new / "a").write_text("2")
                raise error

        with pytest.raises(error):
            fail()
        assert (path / "a").read_text() == "1" and [p.name for p in tmp_path.iterdir()] == ["r"]

    def test_a_failed_rename_restores_the_earlier_report(self, tmp_path, monkeypatch):
        path = tmp_path / "r"
        self.put(path, a="1")
        rename = folder.Path.rename

        def refuse(self, target):
            if self.name == "new":
                raise OSError(16, "Device or resource busy")
            return rename(self, target)

        monkeypatch.setattr(folder.Path, "rename", refuse)
        with pytest.raises(DataError):
            self.put(path, a="2")
        assert (path / "a").read_text() == "1" and [p.name for p in tmp_path.iterdir()] == ["r"]

    def test_files_created_meanwhile_are_kept(self, tmp_path):
        path = tmp_path / "r"

        def late():
            with folder.replacing(path):
                path.mkdir()
                (path / "notes").touch()

        with pytest.raises(UsageError):
            late()
        assert [p.name for p in tmp_path.iterdir()] == ["r"] and (path / "notes").exists()

    def test_folders_that_are_refused(self, tmp_path, invoke, monkeypatch):
        def refused(out):
            code, stdout, err = invoke("report", "--out", out)
            assert code == 2 and err.count("\n") == 1 and not stdout
            return err

        (tmp_path / "file").touch()
        refused(tmp_path / "file")
        refused(tmp_path / "x" / "r")
        mine = tmp_path / "mine"
        self.put(mine, a="1")
        (mine / "notes.txt").touch()
        assert "notes.txt" in refused(mine)
        for text in ("{}", "[", '{"kind": "fashion-infer report", "files": 3}'):
            (mine / "report.json").write_text(text)
            refused(mine)
        inside = tmp_path / "inside"
        inside.mkdir()
        monkeypatch.chdir(inside)
        refused(".")
        refused(tmp_path)


class TestCommand:
    def test_a_failed_check_exits_with_1(self, small_report, invoke, monkeypatch, tmp_path):
        monkeypatch.setattr(gather, "measure", lambda *_: small_report.measured._replace(checks=[BAD]))
        code, out, err = invoke("report", "--out", tmp_path / "r", "--quick")
        assert code == 1 and out == f"{tmp_path / 'r' / 'index.html'}\n"
        assert "ece408-low" in err
        assert json.loads((tmp_path / "r" / "report.json").read_text())["files"][0] == "bench-conv.json"

    def test_the_estimate_grows_with_load_and_a_kernel_file(self, monkeypatch):
        def seconds(load, **options):
            monkeypatch.setattr(gather.os, "getloadavg", lambda: (load * gather.os.cpu_count(), 0.0, 0.0))
            return gather.estimate(ReportRequest(**options))

        assert seconds(2.0) == pytest.approx(3 * seconds(0.0))
        assert seconds(0.0, kernel="./conv.cpp") > seconds(0.0) > seconds(0.0, quick=True)


class TestMissingHardware:
    def test_a_gpu_without_pytorch(self, small_report, tmp_path):
        why = "a benchmark on the GPU needs PyTorch"
        measured = small_report.measured._replace(convolutions=None, networks=None, backend="gpu", no_gpu="")
        measured = measured._replace(no_convolutions=why, no_networks=why)
        drawn = pages.draw(tmp_path, measured)
        assert sorted(drawn) == ["confusion.svg", "mistakes.svg"]
        parts, made = rendered(measured, drawn)
        for name in ("ladder", "roofline", "network"):
            assert "needs PyTorch" in texts(parts[name])
        assert Page(documents.html_page(made, tmp_path))
