"""Draws the charts of docs/ again from the JSON beside them, and writes kernels.md: run it without arguments.

It also writes the times of kernels.json into the first page and the ladder's README, and draws the first page's picture
(draw_ladder.py). Nothing is measured: it is for when the form of charts and pages has changed, or kernels.json. The
pages of whole networks stay: they say how their figures were measured then, which has changed since. The JSON is
written again without what its measurements do not have, what follows from the times, which `records.restored` works
out, and what nothing here reads, with a contender's summary said once; and without indentation.
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
LEFT_OUT = ("samples_ms", "images_s", "tflop_s", "percent_of_limit", "faster_than")


def main():
    for name in NETWORKS:
        throughput.draw(str(DOCS / f"{name}.svg"), measured(name))
    write_kernels(DOCS)
    for name in ("kernels", *NETWORKS):
        leave_out_empty(DOCS / f"{name}.json")
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


def leave_out_empty(path):
    """Take out of a file's measurements the fields that have no value, but for those that `bench.documents` asks for,
    those that are left out, summaries that an earlier row of the same name has, our float32, and a status that is ok.
    Why one is skipped goes too: no page says it."""
    data = json.loads(path.read_text(encoding="utf-8"))
    told = {}  # summaries, by name
    for case in data["cases"]:
        for row in case["rows"]:
            for field in (*LEFT_OUT, *(["gb_s"] if row["kind"] != "limit" else [])):
                row.pop(field, None)
            summary = row.get("summary", told.get(row["name"]))
            if summary == told.get(row["name"]):
                row.pop("summary", None)
            told[row["name"]] = summary
            if row["kind"] == "ours" and row.get("precision") == "float32":
                del row["precision"]
            if row.get("status") == records.OK:
                del row["status"]
            if row.get("status") == records.SKIPPED:
                row.pop("reason", None)
            empty = {name for name, value in row.items() if value in (None, "", [], {})}
            for field in empty - {"median_ms"}:
                del row[field]
    files.write_json(str(path), data)
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("".join(f"{line.lstrip()}\n" for line in lines), encoding="utf-8")  # indentation is 4 KB


def measured(name):
    """What docs/NAME.json has."""
    return records.restored(json.loads((DOCS / f"{name}.json").read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
