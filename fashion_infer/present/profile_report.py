"""What `fashion-infer profile` prints, and the files that it writes."""

import json
from pathlib import Path
from typing import Optional, Sequence

import click

from ..errors import DataError
from ..files import replacing
from ..measure.process import as_time_prints
from ..profiling import counters, records, tables, throughput, trace
from ..profiling.session import Profile
from . import output


def show(found: Profile) -> None:
    """Print everything but the counters."""
    device, timed = found.result.backend == "gpu", as_time_prints(found.usage).splitlines()
    for table in (found.activities, found.calls):
        _say(tables.lines(table))
    _say(tables.majority_lines(found.activities.title, found.activities))
    if device:
        kernels = tables.tabulate("kernels", records.of(found.records, records.KERNEL))
        _say(tables.majority_lines("kernels alone", kernels))
    _say(tables.majority_lines(found.calls.title, found.calls))
    _say(["The whole program up to the end of the profiled passes, as /usr/bin/time prints it:", *timed])
    _throughput(found)
    _overhead(found)


def _say(lines: Sequence[str]) -> None:
    click.echo("\n".join(lines) + "\n")


def _throughput(found: Profile) -> None:
    if not found.throughput:
        click.echo("Convolutions: none of the library's ran, and of MXNet's own it has no sizes\n")
        return
    passes = f"medians of {found.overhead[0].passes} passes without the profiler; " if found.overhead else ""
    click.echo(f"Convolutions ({passes}input, weights and output each moved once; two operations a multiply-add):")
    made = output.table("layer", "kernel", ">op time, ms", ">GB/s", ">of fill", ">TFLOP/s", ">of FP32")
    for row in throughput.rows(found.throughput, found.ceilings):
        made.add_row(*row)
    output.show(made)
    if found.ceilings:
        c = found.ceilings
        half = f", float16 on tensor cores {c['fp16_tflop_s']:.0f}" if "fp16_tflop_s" in c else ""
        click.echo(
            f"Ceilings measured here: fill {c['fill_gb_s']:.0f} GB/s, copy {c['copy_gb_s']:.0f} GB/s "
            f"(read plus write), matrix product in float32 {c['fp32_tflop_s']:.3g} TFLOP/s{half}\n"
        )
    else:
        click.echo(f"No ceilings: {found.no_ceilings}\n")


def _overhead(found: Profile) -> None:
    if not found.overhead:
        click.echo("Profiling overhead: not measured")
        return
    click.echo(f"Profiling overhead, medians of {found.overhead[0].passes} passes each, in turn:")
    made = output.table("what", ">without, s", ">profiled, s", ">difference")
    for o in found.overhead:
        made.add_row(o.what, f"{o.without:f}", f"{o.profiled:f}", f"{o.ratio - 1:+.2%}")
    output.show(made)


def show_counters(kernels: Sequence[counters.Kernel]) -> None:
    """Print a table a kernel."""
    for kernel in kernels:
        click.echo(f"{kernel.name} (the longest of {kernel.launches} launches):")
        made = output.table("counter", ">value")
        for counter, value in zip(counters.COUNTERS, kernel.values):
            made.add_row(counter.what, "not on this GPU" if value is None else f"{value:,.{counter.digits}f}")
        output.show(made)


def save(
    found: Profile,
    counted: Sequence[counters.Kernel],
    command: str,
    as_csv: Optional[str],
    as_json: Optional[str],
    timeline: Optional[str],
) -> None:
    """Write the files that have a name, each whole or not at all; DataError where one cannot be written."""
    if as_csv:
        with replacing(as_csv, DataError) as temporary:
            tables.write_csv(temporary, [found.activities, found.calls])
    if as_json:
        names = [counter.what for counter in counters.COUNTERS]
        listed = [{"name": k.name, "launches": k.launches, **dict(zip(names, k.values))} for k in counted]
        made = {"command": command, **found.as_dict(), "counters": listed}
        with replacing(as_json, DataError) as temporary:
            Path(temporary).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    if timeline:
        with replacing(timeline, DataError) as temporary:
            trace.write(temporary, found.records)
