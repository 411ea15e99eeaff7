"""Grades the ladder's own kernels, and compares each verdict's time with what `bench conv` measures.

Run on a GPU machine:

    python scripts/grade_ladder.py [--edition fa2017] [--n 10000] [--tries 1]

A kernel passes when the two times differ by no more than 3% or 8 microseconds. With several tries, the order of every
pair of kernels whose benchmark times differ by 5% or more is counted: it must be the same in all of them.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from fashion_infer.grading import marks, rubric
from fashion_infer.grading.device import Gpu
from fashion_infer.grading.intake.building import Plugin
from fashion_infer.grading.referee import Machine, Referee
from fashion_infer.grading.referee.inputs import Seed
from fashion_infer.grading.sandbox import required
from fashion_infer.library import bindings
from fashion_infer.measure import conv
from fashion_infer.system import compilers, resources

_SHARE, _MICROSECONDS, _APART = 0.03, 8.0, 1.05
# A plug-in that passes on to a kernel of the library.
_SOURCE = """
#include "fashion_ops_plugin.h"
static int run(fops_plugin_call* call) {
  call->op_seconds = -1;
  return fops_conv_forward_gpu(KERNEL, &call->conv, call->x, call->k, call->y, call->stream);
}
static const fops_kernel_plugin plugin = {FOPS_PLUGIN_ABI, FOPS_GPU, 0, 0, 1, KERNEL, "", "", 0, run};
const fops_kernel_plugin* fops_kernel_plugin_main(void) { return &plugin; }
"""


def main() -> int:
    """Exit code 0 when every kernel and every pair passes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edition", default="fa2017")
    parser.add_argument("--n", type=int, default=10000)
    parser.add_argument("--tries", type=int, default=1)
    options = parser.parse_args()
    measured = conv.measure(conv.Request((options.edition,), "gpu", "ladder", "none", options.n))
    rows = {row.name: row for row in measured.cases[0].rows if row.kind == "ours" and row.timed}
    if len(measured.cases) > 1:
        sys.exit("an edition with one convolution, please: the benchmark's times are a layer's")
    asked = rubric.changed(rubric.default(options.edition), "gpu", options.n)._replace(precision="half")
    machine = Machine(required(), gpu=Gpu(0))
    wrong, times = 0, {name: [] for name in rows}
    with tempfile.TemporaryDirectory() as folder:
        plugins = {name: _plugin(Path(folder), name) for name in rows}
        for _ in range(options.tries):
            for name, plugin in plugins.items():
                found = Referee(plugin, asked, Seed.fresh(), machine).observe()
                op = marks.of(asked, found).op_ms
                if op is None:
                    print(f"{name}: refused: {[finding.text for finding in found.findings]}")
                    return 1
                times[name].append(op)
                bench = rows[name].median_ms
                off = op - bench
                ok = abs(off) <= max(_SHARE * bench, _MICROSECONDS / 1e3)
                wrong += not ok
                line = f"{name:<20} bench {bench:9.4f} ms  verdict {op:9.4f} ms  {1e3 * off:+9.1f} us"
                print(f"{'ok ' if ok else 'NO '} {line}")
    for a, row in rows.items():
        for b, other in rows.items():
            if other.median_ms >= _APART * row.median_ms:
                same = sum(one < two for one, two in zip(times[a], times[b]))
                if same < options.tries:
                    wrong += 1
                    print(f"NO  {a} before {b} in {same} of {options.tries} tries")
    return 1 if wrong else 0


def _plugin(folder: Path, kernel: str) -> Plugin:
    library = bindings.library_path()
    source, target = folder / "plugin.c", folder / f"{kernel}.so"
    source.write_text(_SOURCE)
    subprocess.run(
        [compilers.find_cxx() or "c++", "-x", "c", "-shared", "-fPIC", f'-DKERNEL="{kernel}"',
         f"-I{resources.resource_dir('include')}", str(source), "-x", "none", str(library),
         f"-Wl,-rpath,{library.parent}", "-o", str(target)],
        check=True,
    )  # fmt: skip
    return Plugin("plugin", target, 0.0, False, read=(str(library),))


if __name__ == "__main__":
    sys.exit(main())
