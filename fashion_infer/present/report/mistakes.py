"""A network's mistakes: the confusion matrix, the most frequent mistakes, and the misclassified images."""

from typing import Callable, Dict, List, Optional

import numpy as np

from ..charts import images as sheets
from ..content import Command, Part, Picture, Text, table

CONFUSION, SHEET = "confusion.svg", "mistakes.svg"
_MOST_CONFUSED = 10


def title(result) -> str:
    return f"{result.model}, correctness {result.correctness} on {result.n} images"


def draw_confusion(path: str, result, class_names) -> None:
    sheets.confusion(path, result.labels, result.predictions, class_names, title(result))


def draw_sheet(path: str, result, images: np.ndarray, class_names) -> None:
    """Draw the misclassified images of a run, out of all its `images` (n,1,s,s) uint8, as SVG or PNG."""
    wrong = result.predictions != result.labels
    chosen = images[wrong], result.predictions[wrong]
    sheets.sheet(path, *chosen, class_names, f"mistakes of {title(result)}", result.labels[wrong])


def charts(measured) -> Dict[str, Callable[[str], None]]:
    """Return functions that draw the pictures, by file name. Without a mistake, there is no sheet."""
    result, names = measured.runs[1], measured.class_names
    found: Dict[str, Callable[[str], None]] = {CONFUSION: lambda path: draw_confusion(path, result, names)}
    if (result.predictions != result.labels).any():
        found[SHEET] = lambda path: draw_sheet(path, result, measured.images.images, names)
    return found


def parts(measured, sheet: Optional[str]) -> List[Part]:
    """Make the section; `sheet` is the file name of the picture with the misclassified images, None without one."""
    result, names = measured.runs[1], measured.class_names
    wrong = int((result.predictions != result.labels).sum())
    files = ("--confusion", CONFUSION, *(("--mistakes", SHEET) if wrong else ()))
    command = measured.request.run_command(result.model, result.n, measured.backend, "fused", 1, *files)
    rows = _most_frequent(result, names)
    worst = f" Most often {rows[0][0]} is taken for {rows[0][1]}, {rows[0][2]} times." if rows else ""
    shares = "in percent of each true class, true by predicted"
    matrix = f"Confusion matrix of {result.model} on {result.n:,} images, {shares}.{worst}"
    found: List[Part] = [
        Text(f"{wrong:,} of {result.n:,} images are misclassified, correctness {result.correctness}."),
        Command(command),
        Picture(CONFUSION, matrix),
    ]
    if rows:
        found.append(table("Most frequent mistakes", ["true class", "predicted", ">images"], rows))
    if sheet:
        shown = "Misclassified images, each with the predicted class and the true class in brackets"
        found.append(Picture(sheet, f"{shown}: the first {min(wrong, sheets.MOST)} of {wrong:,}."))
    return found


def _most_frequent(result, names) -> List[List]:
    """Return [true class, predicted class, number of images] of the pairs of classes that are confused most often."""
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (result.labels, result.predictions), 1)
    np.fill_diagonal(counts, 0)
    most = np.argsort(-counts, axis=None, kind="stable")[:_MOST_CONFUSED]
    pairs = [divmod(int(index), len(names)) for index in most if counts.flat[index]]
    return [[names[true], names[said], int(counts[true, said])] for true, said in pairs]
