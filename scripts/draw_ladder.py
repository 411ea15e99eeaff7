"""Draws docs/ladder.svg from docs/kernels.json, and writes the tables of measured times: run it without arguments.

The picture has one dot per kernel on a logarithmic axis. The colours follow the reader's light or dark scheme. A table
is written into its page between `<!-- NAME, by scripts/draw_ladder.py -->` and `<!-- end -->`; NAME is one of TABLES.
"""

import json
import math
import re
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
DOCS, LADDER = ROOT / "docs", ROOT / "custom_ops" / "conv" / "cuda"
PAGES = (ROOT / "README.md", DOCS / "results.md", LADDER / "README.md")
WIDTH, LEFT, RIGHT, TOP, ROW = 640, 178, 50, 84, 22
FIRST, LAST = 0.2, 50  # milliseconds at the ends of the axis
TICKS = (1, 10)
STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600 } .faint { fill: #59636e } .end { text-anchor: end } .middle { text-anchor: middle }
  .paper { fill: #ffffff } line { stroke: #d1d9e0 }
  .peer { stroke: #9a6700; stroke-dasharray: 5 4 } .peer-name { fill: #9a6700 }
  .limit { stroke: #cf222e; stroke-dasharray: 5 4 } .limit-name { fill: #cf222e } circle { fill: #0969da }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } text { fill: #f0f6fc } .faint { fill: #9198a1 } line { stroke: #3d444d }
    circle { fill: #4493f8 }
    .peer { stroke: #d29922 } .peer-name { fill: #d29922 } .limit { stroke: #f85149 } .limit-name { fill: #f85149 }
  }
"""


def main():
    (DOCS / "ladder.svg").write_text(picture(measured("kernels")), encoding="utf-8")
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")


def measured(name):
    """Return the contents of docs/NAME.json."""
    return json.loads((DOCS / f"{name}.json").read_text(encoding="utf-8"))


def with_tables(page):
    """Return a page's text with its tables rewritten."""
    region = re.compile(r"(<!-- (\w+), by scripts/draw_ladder.py -->\n).*?(<!-- end -->)", re.DOTALL)
    return region.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}", page)


def table(columns, rows):
    """Return a Markdown table. Columns whose title starts with ">" have numbers."""
    rules = ["--:" if column.startswith(">") else "---" for column in columns]
    lines = [[column.lstrip(">") for column in columns], rules, *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def medians(case):
    """Return a case's median times in milliseconds by contender; None for a contender that was not timed."""
    return {row["name"]: row["median_ms"] for row in case["rows"]}


def steps():
    """Return the table of the ladder on fa2017's layer: times of the steps, and ratios to the previous step's time."""
    case, rows, before = measured("kernels")["cases"][0], [], None
    for row in (row for row in case["rows"] if row["kind"] == "ours" and row["step"]):
        (path,) = (path for path in LADDER.glob(f"{row['step']:02d}_*") if path.is_dir() or path.suffix == ".cu")
        file, time = path.name + "/" * path.is_dir(), row["median_ms"]
        ratio = f"{before / time:.2f}" if before else ""
        rows.append([row["step"], f"[{file}]({file})", f"`{row['name']}`", row["summary"], f"{time:.3f}", ratio])
        before = time
    fill, cudnn = (medians(case)[name] for name in ("fill", "cudnn fp32"))
    library = medians(case)["tensor-core"]
    said = (
        f"\nIn the same run, writing the output once took {fill:.3f} ms, cuDNN {cudnn:.3f} ms, and `tensor-core`, the\n"
        f"library that `auto` takes from, {library:.3f} ms.\n"
    )
    return table([">step", "file", "`--kernel`", "idea", ">ms", ">step before / this step"], rows) + said


def layers():
    """Return the table of the times of all steps on all layers of the course, in milliseconds."""
    cases = measured("kernels")["cases"]
    several = {case["edition"] for case in cases if case["number"] > 1}
    titles = [f">{case['edition']}" + f" {case['number']}" * (case["edition"] in several) for case in cases]
    times = [medians(case) for case in cases]
    rows = [
        [f"`{row['name']}`" if row["kind"] == "ours" else row["name"], *(cell(each[row["name"]]) for each in times)]
        for row in cases[0]["rows"]
        if row["name"] != "copy"
    ]
    return table(["`--kernel`", *titles], rows)


def cell(ms):
    """Format a time with at least three digits."""
    return "" if ms is None else f"{ms:.0f}" if ms >= 100 else f"{ms:.3g}"


def kernels():
    """Return the first page's table: five steps on fa2017's layer."""
    case = measured("kernels")["cases"][0]
    times = medians(case)
    shown = ("global-accumulate", "image-grid", "compile-time", "register-tile", "tensor-core")
    rows = [
        [row["name"], row["summary"], f"{row['median_ms']:.3f}", f"{times['cudnn fp32'] / row['median_ms']:.2f}"]
        for row in case["rows"]
        if row["name"] in shown
    ]
    said = (
        f"One layer, {case['batch']:,} images, on an {measured('kernels')['device']['name']}. Writing its output and\n"
        f"computing nothing takes {times['fill']:.3f} ms, cuDNN {times['cudnn fp32']:.3f} ms.\n\n"
    )
    return said + table(["`--kernel`", "idea", ">ms", ">times faster than cuDNN"], rows)


def networks():
    """Return the table of times of fa2017's network with 10,000 images, for each machine: ours and the peers'."""
    names = {"torch": "PyTorch", "torch-compile": "compiled", "onnxruntime": "ONNX Runtime", "mxnet": "MXNet"}
    rows = []
    for title, name, where in (
        ("NVIDIA H200, images and scores on the device", "results-gpu", "device"),
        ("the same, from pinned host memory to predictions on the host", "results-gpu", "host"),
        ("two Zen 4 cores (AVX-512)", "results-cpu", "memory"),
        ("two Zen 3 cores (AVX2)", "results-cpu-avx2", "memory"),
    ):
        cases = measured(name)["cases"]
        case = next(case for case in cases if (case["where"], case["batch"]) == (where, 10000))
        times = {contender.replace(" fp32", ""): ms for contender, ms in medians(case).items()}
        peers = [f"{names[peer]} {cell(ms)}" for peer, ms in times.items() if peer in names]
        rows.append([title, cell(times["fashion-infer"]), ", ".join(peers)])
    return table(["machine", ">ours, ms", "others, ms"], rows)


TABLES = {"steps": steps, "layers": layers, "kernels": kernels, "networks": networks}


def picture(measured):
    """Return the SVG picture of the first layer in a result of `bench conv --json`."""
    layer = measured["cases"][0]
    rows = {row["name"]: row for row in layer["rows"] if row["status"] == "ok"}
    ours = [row for row in rows.values() if row["kind"] == "ours"]
    kernels = sorted(ours, key=lambda row: row["step"] or len(ours))
    bottom = TOP + ROW * len(kernels)
    shape, device = layer["shape"], measured["device"]["name"]
    title = f"{shape['B']:,} images, {shape['M']} filters of {shape['K']} x {shape['K']}, on an {device}"
    # Draw a background. The picture follows the system's colour scheme, but the page around it may have another scheme.
    parts = ['<rect width="100%" height="100%" rx="8" class="paper"/>', text(16, 28, title, "title")]
    for tick in TICKS:
        parts += [line(tick, bottom, ""), text(across(tick), bottom + 18, f"{tick} ms", "faint middle")]
    cudnn = min((row for row in rows.values() if row["name"].startswith("cudnn")), key=lambda row: row["median_ms"])
    marks = (("limit", rows["fill"], "the limit, writing the output:"), ("peer", cudnn, "cuDNN:"))
    for place, (kind, row, label) in enumerate(marks):
        parts += [line(row["median_ms"], bottom, kind)]
        parts += [
            text(
                across(row["median_ms"]) + 5,
                TOP - 26 + 16 * place,
                f"{label} {row['median_ms']:.3g} ms",
                f"{kind}-name",
            )
        ]
    for index, row in enumerate(kernels):
        x, y = across(row["median_ms"]), TOP + ROW * index + ROW // 2
        parts += [text(LEFT - 12, y + 4, f"{row['step']}. {row['name']}" if row["step"] else row["name"], "end")]
        parts += [f'<circle cx="{x:.1f}" cy="{y}" r="5"/>', text(x + 10, y + 4, f"{row['median_ms']:.3g}", "")]
    size = f'width="{WIDTH}" height="{bottom + 30}" viewBox="0 0 {WIDTH} {bottom + 30}"'
    body = "\n".join(parts)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">'
    return f"{head}\n<style>{STYLE}</style>\n{body}\n</svg>\n"


def across(ms):
    """Return the horizontal position of a time in the picture, in pixels."""
    return LEFT + (WIDTH - LEFT - RIGHT) * math.log(ms / FIRST) / math.log(LAST / FIRST)


def text(x, y, words, kind):
    """Return the SVG element of a line of text."""
    return f'<text x="{x:.1f}" y="{y}" class="{kind}">{escape(words)}</text>'


def line(ms, bottom, kind):
    """Return the SVG element of a vertical line over all rows at a time."""
    return f'<line x1="{across(ms):.1f}" x2="{across(ms):.1f}" y1="{TOP - 6}" y2="{bottom}" class="{kind}"/>'


if __name__ == "__main__":
    main()
