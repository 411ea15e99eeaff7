"""The report: one page with everything that was measured in one run."""

from pathlib import Path
from typing import Callable, Collection, Dict, List, Optional

from ...bench.conclusions import conclusions
from .. import environment, explanation, profile, run
from ..bench import convolutions
from ..bench import pages as benchmarks
from ..charts import benchmarks as charts_of_benchmarks
from ..charts import images, roofline
from ..content import Command, Folded, Missing, Page, Part, Section, Text
from ..render import documents
from . import sections

_TIMED = "Times are the op times of the section above. "
_OTHER_TIMES = (
    "The ladder times the same kernels in turn with all contenders, on random images and in batches of another size, "
    "so its times an image differ from these."
)
HTML, MARKDOWN = "index.html", "report.md"
LADDER, ROOFLINE, NETWORK = "ladder.svg", "roofline.svg", "network.svg"


def write(folder: Path, measured, out: str) -> str:
    """Draw the pictures, write the page as HTML and Markdown, and return the HTML file's name."""
    content = page(measured, out, draw(folder, measured))
    (folder / HTML).write_text(documents.html_page(content, folder), encoding="utf-8")
    (folder / MARKDOWN).write_text(documents.markdown_page(content), encoding="utf-8")
    return HTML


def draw(folder: Path, measured) -> List[str]:
    charts: Dict[str, Callable[[str], None]] = {}
    if measured.convolutions:
        charts[LADDER] = lambda path: charts_of_benchmarks.draw_convolutions(path, measured.convolutions)
        charts[ROOFLINE] = lambda path: roofline.draw(path, measured.convolutions, measured.ceilings)
    if measured.networks and measured.networks.cases:  # an incorrect network is not timed
        charts[NETWORK] = lambda path: charts_of_benchmarks.draw_networks(path, measured.networks)
    fused = measured.runs[1]
    charts[sections.CONFUSION] = lambda path: images.draw_confusion(path, fused)
    if (fused.predictions != fused.labels).any():
        charts[sections.SHEET] = lambda path: images.draw_mistakes(path, fused)
    for name, chart in charts.items():
        chart(str(folder / name))
    return list(charts)


def page(measured, out: str, pictures: Collection[str]) -> Page:
    def drawn(name: str) -> Optional[str]:
        return name if name in pictures else None

    speed = [
        Section("ladder", "The ladder of kernels", _ladder(measured, drawn(LADDER))),
        Section("roofline", "Roofline", _roofline(measured, drawn(ROOFLINE))),
    ]
    own = measured.kernel and Section("kernel", f"Your kernel: {measured.kernel.verdict.file.name}", _kernel(measured))
    found = [
        *([own, *speed] if own else []),  # without a kernel file, correctness comes before speed
        Section("correctness", "Correctness", _correctness(measured)),
        Section("mistakes", "What it gets wrong", sections.mistakes(measured, drawn(sections.SHEET))),
        Section("baseline", "Baseline: MXNet's own convolution", _baseline(measured)),
        *([] if own else speed),
        Section("network", "Whole network, by batch size", _network(measured, drawn(NETWORK))),
        Section("op-times", "Op times, layer by layer", _op_times(measured)),
        Section("profile", "Profile", _profile(measured)),
        Section("environment", "Environment", _environment(measured)),
    ]
    head: List[Part] = [sections.strip(measured), *_head(measured, out)]
    return Page("fashion-infer report", head, found, "quick" if measured.request.quick else "")


def _kernel(measured) -> List[Part]:
    kernel, (wrong, _) = measured.kernel, measured.faults()
    known = [] if wrong or measured.convolutions is None else conclusions(measured.convolutions)
    said = wrong or [convolutions.sentence(one) for one in known] or [kernel.verdict.sentence]
    parts: List[Part] = [Text(f"{sentence.rstrip('.')}.") for sentence in said]
    parts.append(Command(measured.request.explain_command(measured.model.edition)))
    parts += explanation.findings(kernel.findings, not wrong)
    if not kernel.findings and not kernel.missing:
        parts.append(Text("No faulty line was found." if wrong else "Nothing was found that holds it back."))
    return [*parts, *(Missing(f"{line}.") for line in kernel.missing)]


def _head(measured, out: str) -> List[Part]:
    result = measured.runs[1]
    parts: List[Part] = [
        Text(
            f"{result.model} on the first {result.n:,} test images, data: {result.data_source}; "
            f"backend {measured.backend}, {result.threads} CPU threads. "
            f"Measured on {measured.started} in {measured.seconds:.0f} s, all in one run of:"
        ),
        Command(measured.request.command(out)),
    ]
    facts = [
        "Each group of figures follows the command that measures it again. Times differ between machines; ratios "
        "differ less."
    ]
    if result.notice:
        facts.append(f"{result.notice}.")
    if result.data_source == "synthetic":
        facts.append("The images are the built-in synthetic set: correctness is not that on Fashion-MNIST.")
    if measured.request.quick:
        facts.append("Quick: this report used --quick, with fewer repeats and smaller batches. Its times are noisier.")
    if measured.wrong:
        facts.insert(0, f"WRONG: {'; '.join(measured.wrong)}.")
    return [*parts, *map(Text, facts)]


def _not_measured(measured) -> List[Part]:
    if measured.backend == "gpu":
        return [Missing("CPU: not measured in this run; --backend cpu does.")]
    return [Missing(f"GPU: not measured: {measured.no_gpu}.")]


def _nothing_measured(measured, why: str) -> List[Part]:
    return [Missing(f"{measured.backend.upper()}: not measured: {why}."), *_not_measured(measured)]


def _baseline(measured) -> List[Part]:
    parts: List[Part] = []
    if not measured.baselines:
        parts.append(Missing(f"{measured.model.edition} ships no baseline model."))
    for baseline in measured.baselines:
        if baseline.result is None:
            parts.append(Missing(f"{baseline.what}: not measured: {baseline.missing}."))
            continue
        result = baseline.result
        parts += [Text(f"{baseline.what}, model {result.model}, {result.n:,} images."), Command(baseline.command)]
        parts += run.parts(result, f"{baseline.program}, layer by layer")
    return parts


def _ladder(measured, picture: Optional[str]) -> List[Part]:
    if measured.convolutions is None:
        return _nothing_measured(measured, measured.no_convolutions)
    return [*benchmarks.parts(measured.convolutions, picture), *_not_measured(measured)]


def _roofline(measured, picture: Optional[str]) -> List[Part]:
    if measured.convolutions is None:
        return _nothing_measured(measured, measured.no_convolutions)
    commands = [measured.convolutions.command, measured.profiles[-1].command]
    parts = sections.roofline(measured.convolutions, measured.ceilings, measured.no_ceilings, commands, picture)
    return [*parts, *_not_measured(measured)]


def _network(measured, picture: Optional[str]) -> List[Part]:
    if measured.networks is None:
        return _nothing_measured(measured, measured.no_networks)
    compiler = "PyTorch's compiler takes minutes and was not timed here; `bench net` times it."
    return [*benchmarks.parts(measured.networks, picture), Text(compiler), *_not_measured(measured)]


def _op_times(measured) -> List[Part]:
    parts: List[Part] = []
    for result, command in zip(measured.runs, measured.run_commands):
        passes = len(result.layers[0].seconds)
        caption = f"{result.mode} mode: medians of {passes} passes over {result.n:,} images"
        parts += [Command(command), *run.parts(result, caption)]
    parts.append(Text(f"Predictions that differ between the two modes: {measured.changed} of {measured.runs[0].n:,}."))
    other_times = [Text(_OTHER_TIMES)] if measured.convolutions else []
    return [*parts, *other_times, *_not_measured(measured)]


def _profile(measured) -> List[Part]:
    parts: List[Part] = []
    for found, result in zip(measured.profiles, measured.runs):
        parts += [Text(f"{result.mode} mode:"), Command(found.command)]
        if found.missing:
            because = f"No profiler: {found.missing}."
            parts.append(Missing(f"{because} The table shows the op times above; each call is a pass."))
        times = {layer.name: layer.median for layer in result.layers}
        rates = [each._replace(seconds=times.get(each.layer, each.seconds)) for each in found.figures.throughput]
        figures = found.figures._replace(throughput=rates)
        parts += profile.parts(figures, measured.ceilings, result.mode, measured.backend, _TIMED)
    return [*parts, *_not_measured(measured)]


def _correctness(measured) -> List[Part]:
    passed = [check for check in measured.checks if check.ok]
    failed = [check for check in measured.checks if not check.ok]
    said = f"{len(passed)} of {len(measured.checks)} checks passed: `got` must be exactly equal to `expected`."
    parts: List[Part] = [Text(said), Command(measured.verify_command)]
    parts += [run.checks(failed, "Checks that failed")] if failed else []
    return [*parts, Folded(f"Checks that passed: {len(passed)}", [run.checks(passed, "Checks that passed")])]


def _environment(measured) -> List[Part]:
    return [
        Command("fashion-infer doctor"),
        environment.findings(measured.findings, "What this machine has"),
        Command("fashion-infer run --json"),
        environment.versions(measured.versions, "Versions"),
    ]
