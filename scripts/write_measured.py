"""Draws the charts of docs/ again from the JSON beside them, and writes kernels.md: run it without arguments.

It also writes the times of kernels.json into the first page and the ladder's README, and draws the first page's picture
(draw_ladder.py). Nothing is measured: run it when the form of charts and pages has changed, or kernels.json. The pages
of whole networks stay: they say how their figures were measured then, which has changed since.
"""

import json
import re
import runpy
from pathlib import Path

from fashion_infer.bench import records
from fashion_infer.present import files
from fashion_infer.present.bench import pages
from fashion_infer.present.charts import kernels, throughput

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
NETWORKS = ("results-cpu", "results-cpu-avx2", "results-gpu", "results-gpu-editions")


def main():
    for name in NETWORKS:
        throughput.draw(str(DOCS / f"{name}.svg"), measured(name))
    write_kernels(DOCS)
    write_times(ROOT / "README.md", ROOT / "custom_ops" / "conv" / "cuda" / "README.md")
    runpy.run_path(str(ROOT / "scripts" / "draw_ladder.py"), run_name="__main__")


def write_kernels(folder):
    """The page of the kernels and its chart, into a folder."""
    result, names = measured("kernels"), ("kernels.md", "kernels.svg", "kernels.json")
    kernels.draw(str(folder / names[1]), result)
    files.write_page(str(folder / names[0]), pages.page(result, *names))


def write_times(first_page, ladder):
    """fa2017's times into the first page, also under its picture, and into the ladder's README."""
    rows = json.loads((DOCS / "kernels.json").read_text(encoding="utf-8"))["cases"][0]["rows"]
    times = {row["name"]: row["median_ms"] for row in rows}
    before = {}

    def beside_cudnn(row):
        digits = len(row[3].partition(".")[2])
        return f"| {row[1]} | {row[2]} | {times[row[1]]:.{digits}f} | {times['cudnn fp32'] / times[row[1]]:.2f} |"

    def beside_the_step_before(row):
        time = round(times[row[2]], 3)  # as the page has it, for who divides
        ratio = f"{before['step'] / time:.2f} " if before else ""
        before["step"] = time
        return f"{row[1]}{time:.3f} | {ratio}|"

    for page, pattern, written in (
        (first_page, r"^\| ([a-z\d-]+) \| ([^|]+) \| ([\d.]+) \| [\d.]+ \|$", beside_cudnn),
        (ladder, r"^(\| \d+ \| [^|]+ \| `([a-z\d-]+)` \| [^|]+ \| )[\d.]+ \| [\d. ]*\|$", beside_the_step_before),
    ):
        text = re.sub(pattern, written, page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        limits = rf"\g<1>{times['fill']:.3f} ms\g<2> {times['cudnn fp32']:.3f} ms"
        text = re.sub(r"(nothing (?:takes|took) )[\d.]+ ms(,(?: and)? cuDNN) [\d.]+ ms", limits, text)
        first, last, peer, fill = (times[name] for name in ("global-accumulate", "tensor-core", "cudnn fp32", "fill"))
        caption = rf"\g<1>{first:.3g} ms to {last:.3g} ms; cuDNN takes {peer:.3g} ms\g<2>{fill:.3g} ms"
        text = re.sub(
            r"(, from )[\d.]+ ms to [\d.]+ ms; cuDNN takes [\d.]+ ms(, writing the output\s)[\d.]+ ms", caption, text
        )
        page.write_text(text, encoding="utf-8")


def measured(name):
    """What docs/NAME.json has."""
    return records.restored(json.loads((DOCS / f"{name}.json").read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
