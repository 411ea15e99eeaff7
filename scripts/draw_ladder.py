"""Draws docs/ladder.svg, the picture of the README, from docs/kernels.json: run it without arguments.

One dot a kernel on a logarithmic axis; the colours follow the reader's light or dark scheme.
"""

import json
import math
from pathlib import Path
from xml.sax.saxutils import escape

DOCS = Path(__file__).resolve().parent.parent / "docs"
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
    (DOCS / "ladder.svg").write_text(picture(json.loads((DOCS / "kernels.json").read_text())), encoding="utf-8")


def picture(measured):
    """The SVG of the first layer of a file of `bench conv --json`."""
    layer = measured["cases"][0]
    rows = {row["name"]: row for row in layer["rows"] if row.get("status", "ok") == "ok"}
    kernels = sorted((row for row in rows.values() if row["kind"] == "ours"), key=lambda row: row["step"])
    bottom = TOP + ROW * len(kernels)
    shape, device = layer["shape"], measured["device"]["name"]
    title = f"{shape['B']:,} images, {shape['M']} filters of {shape['K']} x {shape['K']}, on an {device}"
    # Its own paper: a page's scheme may be another than the system's, which is the one that the picture follows.
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
        parts += [text(LEFT - 12, y + 4, f"{row['step']}. {row['name']}", "end")]
        parts += [f'<circle cx="{x:.1f}" cy="{y}" r="5"/>', text(x + 10, y + 4, f"{row['median_ms']:.3g}", "")]
    size = f'width="{WIDTH}" height="{bottom + 30}" viewBox="0 0 {WIDTH} {bottom + 30}"'
    body = "\n".join(parts)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">'
    return f"{head}\n<style>{STYLE}</style>\n{body}\n</svg>\n"


def across(ms):
    """A time's place on the axis, in pixels."""
    return LEFT + (WIDTH - LEFT - RIGHT) * math.log(ms / FIRST) / math.log(LAST / FIRST)


def text(x, y, words, kind):
    """A line of text."""
    return f'<text x="{x:.1f}" y="{y}" class="{kind}">{escape(words)}</text>'


def line(ms, bottom, kind):
    """A vertical line over all rows, at a time."""
    return f'<line x1="{across(ms):.1f}" x2="{across(ms):.1f}" y1="{TOP - 6}" y2="{bottom}" class="{kind}"/>'


if __name__ == "__main__":
    main()
