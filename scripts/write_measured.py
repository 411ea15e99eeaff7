"""Writes all charts and tables made from the measurements in docs/*.json: run it without arguments.

These are the charts, kernels.md and, through draw_ladder.py, the first page's picture and every table between two
comments that name draw_ladder.py. Nothing is measured. The pages about whole networks are unchanged, because they
describe how their figures were measured.
"""

import json
import runpy
from pathlib import Path

from fashion_infer.bench import records
from fashion_infer.present import files
from fashion_infer.present.bench import pages
from fashion_infer.present.charts import benchmarks

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
NETWORKS = ("results-cpu", "results-cpu-avx2", "results-gpu", "results-gpu-editions")


def main():
    for name in NETWORKS:
        benchmarks.draw_networks(str(DOCS / f"{name}.svg"), measured(name))
    write_kernels(DOCS)
    runpy.run_path(str(ROOT / "scripts" / "draw_ladder.py"), run_name="__main__")


def write_kernels(folder):
    """Write the page about the kernels and its chart into a folder."""
    result, page, chart = measured("kernels"), str(folder / "kernels.md"), str(folder / "kernels.svg")
    benchmarks.draw_convolutions(chart, result)
    files.write_page(page, pages.page(result, page, chart, as_json=True))


def measured(name):
    """Return the benchmark in docs/NAME.json."""
    return records.restored(json.loads((DOCS / f"{name}.json").read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
