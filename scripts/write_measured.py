"""Draws the charts of docs/ again from the JSON beside them, and writes kernels.md: run it without arguments.

Nothing is measured: it is for when the form of charts and pages has changed. `fashion-infer bench` writes all three at
once. The pages of whole networks stay: they say how their figures were measured then, which has changed since. The
JSON is written again without what its measurements do not have, what follows from the times, which `records.restored`
works out, and what nothing here reads, with a contender's summary said once; and without indentation.
"""

import json
from pathlib import Path

from fashion_infer.measure import records
from fashion_infer.present import files
from fashion_infer.present.bench import conv
from fashion_infer.present.charts import kernels, throughput

DOCS = Path(__file__).resolve().parent.parent / "docs"
NETWORKS = ("results-cpu", "results-cpu-avx2", "results-gpu", "results-gpu-editions")
LEFT_OUT = ("samples_ms", "images_s", "tflop_s", "percent_of_limit", "faster_than")


def main():
    for name in NETWORKS:
        throughput.draw(str(DOCS / f"{name}.svg"), measured(name))
    write_kernels(DOCS)
    for name in ("kernels", *NETWORKS):
        leave_out_empty(DOCS / f"{name}.json")


def write_kernels(folder):
    """The page of the kernels and its chart, into a folder."""
    result, names = measured("kernels"), ("kernels.md", "kernels.svg", "kernels.json")
    kernels.draw(str(folder / names[1]), result)
    files.write_page(str(folder / names[0]), conv.page(result, *names))


def leave_out_empty(path):
    """Take out of a file's measurements the fields that have no value, but for those that `measure.documents` asks for,
    those that are left out, and summaries that an earlier row of the same name has."""
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
