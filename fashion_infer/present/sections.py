"""The report's sections, said of what was measured."""

from typing import Collection, List

import numpy as np

from ..measure.process import Usage, as_time_prints
from ..measure.rows import COPYING, KERNEL, WRONG
from ..profiling import throughput
from ..profiling.tables import duration, majority
from ..reporting.gather import Measured
from . import bench_report as bench_report
from . import network_sections as network
from . import report_plots as plots
from .content import Command, Missing, Output, Part, Picture, Report, Section, Text, number, table
from .output import run_lines

_MOST_CONFUSED = 10


def report(measured: Measured, out: str, pictures: Collection[str]) -> Report:
    """The whole report.

    Parameters
    ----------
    measured
        From `gather.measure`.
    out
        The folder as the user named it, for the command that makes the report again.
    pictures
        Names of the PNG files that were drawn.
    """
    result = measured.runs[1]
    command = measured.request.command(out)
    facts = [
        f"{result.model} on the first {result.n:,} test images, data: {result.data_source}; "
        f"backend {measured.backend}, {result.threads} CPU threads.",
        f"Measured on {measured.started} in {measured.seconds:.0f} s, all in one run of: {command}",
        "Each figure stands beside the command that makes it again. Times of other machines differ: ratios are what "
        "counts.",
    ]
    if result.notice:
        facts.append(f"{result.notice}.")
    if result.data_source == "synthetic":
        facts.append("The images are the built-in synthetic set: correctness is not that on Fashion-MNIST.")
    if measured.request.quick:
        facts.append("Made with --quick: fewer repeats and smaller batches, so that times scatter more.")
    if measured.wrong:
        facts.append(f"WRONG: {'; '.join(measured.wrong)}.")
    sections = [
        Section("baseline", "Baseline: MXNet's own convolution", _baseline(measured)),
        Section("ladder", "The ladder of kernels", _ladder(measured, pictures)),
        Section("roofline", "Roofline", _roofline(measured, pictures)),
        Section("network", "Whole network, by batch size", _network(measured, pictures)),
        Section("op-times", "Op times, layer by layer", _op_times(measured)),
        Section("profile", "Profile", _profile(measured)),
        Section("correctness", "Correctness", _correctness(measured)),
        Section("mistakes", "What it gets wrong", _mistakes(measured, pictures)),
        Section("environment", "Environment", _environment(measured)),
    ]
    return Report("fashion-infer report", facts, sections)


def _not_measured(measured: Measured) -> List[Part]:
    if measured.backend == "gpu":
        return [Missing("CPU: not measured in this run; --backend cpu does.")]
    return [Missing(f"GPU: not measured: {measured.no_gpu}.")]


def _nothing_measured(measured: Measured, why: str) -> List[Part]:
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
        rows = [[layer.name, layer.operator, number(layer.median, ".6f")] for layer in result.layers]
        parts += [
            Text(f"{baseline.what}, model {result.model}, {result.n:,} images."),
            Command(baseline.command),
            Output("\n".join(run_lines(result))),
            table(f"{baseline.program}, layer by layer", ["layer", "operator", ">time, s"], rows),
        ]
    return parts


def _ladder(measured, pictures) -> List[Part]:
    bench = measured.bench
    if bench is None:
        return _nothing_measured(measured, measured.bench_missing)
    unit = bench_report.header(bench.backend)
    scale = 1 if bench.backend == "gpu" else 1e3
    parts: List[Part] = [
        Text(
            f"{bench.device['name']}, {bench.batch:,} random images a batch, {bench.repeat} timed runs each, taking "
            "turns. Every kernel was first compared with a convolution in float64 (error: largest difference over the "
            "largest magnitude). The limit is the time to write the layer's output and do nothing else."
        ),
        Command(bench.command),
    ]
    if plots.LADDER in pictures:
        fastest = "; ".join(_fastest(layer) for layer in bench.layers)
        parts.append(Picture(plots.LADDER, f"Bar chart of the median time of every kernel and peer. {fastest}."))
    for layer in bench.layers:
        columns = [">step", "kernel", "idea", ">min ms", ">median ms", ">GB/s", f">{unit}", ">% of the limit"]
        columns += [*(f">x {peer}" for peer in layer.peers), ">error"]
        rows = []
        for row in layer.rows:
            name = f"{row.name} (auto)" if row.name == layer.auto else f"{row.name} {row.layout}".rstrip()
            idea = row.summary or {COPYING: "memory alone"}.get(row.kind, "peer")
            if row.median_ms is None:
                idea += f" (WRONG: {row.reason})" if row.status == WRONG else " (does not take this layer)"
            rate = None if row.tflop_s is None else scale * row.tflop_s
            figures = [number(row.min_ms, ".3f"), number(row.median_ms, ".3f"), number(row.gb_s, ".1f")]
            figures += [number(rate, ".1f"), number(row.percent_of_limit, ".1f")]
            ratios = [number(row.faster_than.get(peer), ".2f") for peer in layer.peers]
            rows.append([row.step, name, idea, *figures, *ratios, number(row.error, ".1e")])
        parts.append(table(layer.title, columns, rows))
    if bench.not_compared:
        parts.append(Missing("Not compared with " + ", ".join(f"{k} ({v})" for k, v in bench.not_compared.items())))
    return [*parts, *_not_measured(measured)]


def _fastest(layer):
    kernels = [row for row in layer.rows if row.kind == KERNEL and row.median_ms is not None]
    if not kernels:
        return f"{layer.title}: no kernel was timed"
    best = min(kernels, key=lambda row: row.median_ms)
    return f"{layer.title}: the fastest kernel is {best.name}, {best.median_ms:.3g} ms"


def _roofline(measured, pictures) -> List[Part]:
    bench = measured.bench
    if bench is None:
        return _nothing_measured(measured, measured.bench_missing)
    parts: List[Part] = [
        Text(
            "Arithmetic intensity counts input, weights and output, each moved once: a layer has one, whatever the "
            "kernel. A kernel above a ceiling of memory kept part of its data in the cache. The roof is the lower of "
            "what the faster of fill and copy allows at that intensity and the fastest matrix product. The points are "
            "those of the ladder; the ceilings are those of the profile below."
        ),
        Command(bench.command),
        Command(measured.profiles[-1].command),
    ]
    if plots.ROOFLINE in pictures:
        shown = "; ".join(f"{layer.title} at {plots.intensity(layer):.1f} operations a byte" for layer in bench.layers)
        parts.append(
            Picture(plots.ROOFLINE, f"Roofline: TFLOP/s of every kernel under the measured ceilings. {shown}.")
        )
    rows = [[plots.ceiling(name), (value, plots.three_digits(value))] for name, value in measured.ceilings.items()]
    if rows:
        parts.append(table("Ceilings", ["ceiling", ">measured"], rows))
    else:
        parts.append(Missing(f"The ceilings were not measured: {measured.no_ceilings}."))
    columns = ["layer", "kernel", ">operations a byte", ">TFLOP/s", ">% of the roof"]
    rows = []
    for layer in bench.layers:
        at = plots.intensity(layer)
        roof = plots.roof(at, measured.ceilings)
        for row in layer.rows:
            if row.tflop_s:
                percent = 100 * row.tflop_s / roof if roof else None
                name = f"{layer.edition} convolution {layer.number}"
                rate = number(row.tflop_s, ".4f")
                rows.append([name, row.name, number(at, ".2f"), rate, number(percent, ".1f")])
    parts.append(table("Kernels and peers under the roof", columns, rows))
    return [*parts, *_not_measured(measured)]


def _network(measured, pictures) -> List[Part]:
    if measured.network is None:
        return _nothing_measured(measured, measured.network_missing)
    return [*network.parts(measured.network, plots.NETWORK in pictures), *_not_measured(measured)]


def _op_times(measured) -> List[Part]:
    parts: List[Part] = []
    for result, command in zip(measured.runs, measured.run_commands):
        total = sum(layer.median for layer in result.layers) or 1.0
        staged = any(sum(layer.upload) + sum(layer.download) for layer in result.layers)
        columns = ["layer", "operator", "kernel", ">op time, s", ">min, s", ">max, s", ">share, %"]
        columns += [">transfers, s"] if staged else []
        rows = []
        for layer in result.layers:
            times = [number(value, ".6f") for value in (layer.median, min(layer.seconds), max(layer.seconds))]
            row = [layer.name, layer.operator, layer.kernel, *times, number(100 * layer.median / total, ".1f")]
            if staged:
                row.append(number(layer.upload[0] + layer.download[0], ".6f") if layer.custom else None)
            rows.append(row)
        passes = len(result.layers[0].seconds)
        title = f"{result.mode} mode: medians of {passes} passes over {result.n:,} images"
        parts += [Command(command), Output("\n".join(run_lines(result))), table(title, columns, rows)]
    changed = int((measured.runs[0].predictions != measured.runs[1].predictions).sum())
    parts.append(Text(f"Predictions that differ between the two modes: {changed} of {measured.runs[0].n:,}."))
    return [*parts, *_not_measured(measured)]


def _profile(measured) -> List[Part]:
    parts: List[Part] = []
    columns = [">Time(%)", ">Time", ">Calls", ">Avg", ">Min", ">Max", "Name"]
    for profile in measured.profiles:
        parts += [Text(f"{profile.mode} mode:"), Command(profile.command)]
        if profile.missing:
            parts.append(
                Missing(f"No profiler: {profile.missing}. The table is of the op times above, a call being a pass.")
            )
        for made in profile.tables:
            rows = []
            for row in made.rows:
                times = [(ns, duration(ns)) for ns in (row.avg, row.min, row.max)]
                share = number(100 * row.share, ".2f")
                rows.append([share, (row.time, duration(row.time)), row.calls, *times, row.name])
            parts.append(table(f"{made.title}, {profile.mode} mode", columns, rows))
            most = ", ".join(row.name for row in majority(made)) or "nothing"
            parts.append(Text(f"90% of the time of the {made.title}, {profile.mode} mode: {most}."))
        parts += _profiled(profile, measured.ceilings) if profile.found else []
    return [*parts, *_not_measured(measured)]


def _profiled(profile, ceilings) -> List[Part]:
    """What `profile` says beside its tables. The ceilings are the other mode's too."""
    found = profile.found
    parts: List[Part] = [
        Text(f"The program in {profile.mode} mode up to the end of the profiled passes, as /usr/bin/time prints it:"),
        Output(as_time_prints(Usage(**found["usage"]))),
    ]
    columns = ["layer", "kernel", ">op time, ms", ">GB/s", ">% of fill", ">TFLOP/s", ">% of FP32"]
    rows = []
    for t in found["throughput"]:
        shares = throughput.shares(t["gb_s"], t["tflop_s"], ceilings)
        of_fill, of_fp32 = (None if share is None else 100 * share for share in shares)
        figures = [1e3 * t["seconds"], t["gb_s"], of_fill, t["tflop_s"], of_fp32]
        rows.append([t["layer"], t["kernel"], *map(number, figures, [".3f", ".1f", ".1f", ".3f", ".1f"])])
    if rows:
        parts.append(table(f"Convolutions, {profile.mode} mode", columns, rows))
    rows = [
        [o["what"], number(o["without"], ".6f"), number(o["profiled"], ".6f"), number(100 * (o["ratio"] - 1), "+.2f")]
        for o in found["overhead"]
    ]
    if rows:
        columns = ["what", ">without, s", ">profiled, s", ">difference, %"]
        parts.append(table(f"What profiling costs, {profile.mode} mode", columns, rows))
    return parts


def _correctness(measured) -> List[Part]:
    rows = [
        [c.model, c.weights, c.mode, c.operator, c.backend, c.source, c.n, c.expected, c.got, "ok" if c.ok else "WRONG"]
        for c in measured.checks
    ]
    columns = ["model", "weights", "mode", "op", "backend", "data", ">n", ">expected", ">got", "verdict"]
    passed = sum(c.ok for c in measured.checks)
    return [
        Text(f"{passed} of {len(measured.checks)} checks passed: got must equal expected, to the last image."),
        Command(measured.verify_command),
        table("Models at every n with a known correctness", columns, rows),
    ]


def _mistakes(measured, pictures) -> List[Part]:
    result, names = measured.runs[1], measured.class_names
    wrong = int((result.predictions != result.labels).sum())
    files = ("--confusion", plots.CONFUSION, *(("--mistakes", plots.MISTAKES) if wrong else ()))
    command = measured.request.run_command(result.model, result.n, measured.backend, "fused", 1, *files)
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (result.labels, result.predictions), 1)
    np.fill_diagonal(counts, 0)
    most = np.argsort(-counts, axis=None, kind="stable")[:_MOST_CONFUSED]
    pairs = [divmod(int(index), len(names)) for index in most if counts.flat[index]]
    rows = [[names[true], names[said], int(counts[true, said])] for true, said in pairs]
    worst = f" Most often {rows[0][0]} is taken for {rows[0][1]}, {rows[0][2]} times." if rows else ""
    parts: List[Part] = [
        Text(f"{wrong:,} of {result.n:,} images are misclassified, correctness {result.correctness}."),
        Command(command),
        Picture(
            plots.CONFUSION, f"Confusion matrix of {result.model} on {result.n:,} images, true by predicted.{worst}"
        ),
    ]
    if rows:
        parts.append(table("Most frequent mistakes", ["true class", "predicted", ">images"], rows))
    if plots.MISTAKES in pictures:
        shown = "Misclassified images, each with the predicted class and the true class in brackets"
        parts.append(Picture(plots.MISTAKES, f"{shown}: the first {min(wrong, 100)} of {wrong:,}."))
    return parts


def _environment(measured) -> List[Part]:
    rows = [[{True: "ok", False: "NO", None: "not here"}[f.ok], f.what, f.found, f.advice] for f in measured.findings]
    return [
        Command("fashion-infer doctor"),
        table("What this machine has", ["state", "what", "found", "what to do"], rows),
        Command("fashion-infer run --json"),
        table("Versions", ["what", "version"], [list(item) for item in measured.versions.items()]),
    ]
