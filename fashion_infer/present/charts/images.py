"""Predictions as pictures: a confusion matrix, and a sheet of images with their classes."""

from typing import Optional, Sequence

import numpy as np

from . import figure as figures

MOST = 100  # largest number of pictures on one sheet


@figures.themed
def confusion(path: str, labels: np.ndarray, predictions: np.ndarray, names: Sequence[str], title: str) -> None:
    """Draw the confusion matrix in percent of each true class (row), with emphasis on mistakes."""
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (labels, predictions), 1)
    share = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    worst = max((share - np.diag(np.diag(share))).max(), 1.0)
    figure, (axes,) = figures.new(figures.WIDTH, figures.WIDTH)
    for row, column in np.ndindex(counts.shape):
        if not counts[row, column]:
            continue
        right, value = row == column, share[row, column]
        # The square is at most half opaque, so that the text is readable on it in both colour schemes.
        strength = 0.12 if right else 0.08 + 0.42 * value / worst
        axes.add_patch(_square(column, row, figures.LIGHT["ours" if right else "auto"], strength))
        said = f"{value:.0f}" if value >= 0.5 else "<1"
        colour = figures.LIGHT["faint" if right or value < 0.5 else "ink"]
        figures.label(axes, said, (column, row), colour, ha="center", fontweight=None if right else "bold")
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), [f"{name} ({n:,})" for name, n in zip(names, counts.sum(axis=1))])
    axes.tick_params(length=0, labelcolor=figures.LIGHT["ink"])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel("predicted, in percent of the true class")
    axes.set_ylabel("true class (images)")
    figure.suptitle(title, fontsize=9, fontweight="bold", ha="left", x=0.01)
    figures.save(figure, path)


def _square(x: int, y: int, colour: str, strength: float):
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.47, y - 0.47), 0.94, 0.94, facecolor=colour, alpha=strength, linewidth=0)


@figures.themed
def sheet(
    path: str,
    images: np.ndarray,
    predictions: np.ndarray,
    names: Sequence[str],
    title: str,
    labels: Optional[np.ndarray] = None,
) -> None:
    """Draw at most `MOST` images (n,1,s,s) uint8, each with its predicted class and, with `labels`, its true class."""
    shown = min(len(images), MOST)
    if shown < len(images):
        title += f" (the first {shown} of {len(images)})"
    columns = min(10, max(shown, 3))
    rows = max(1, -(-shown // columns))
    side = images.shape[-1]
    across, down = round(1.25 * side), round(1.6 * side)  # space for two lines of text above each image
    # Draw all images as one array, transparent between them, because a hundred axes would take seconds.
    paper = np.ma.masked_less(np.full((rows * down, columns * across), -1.0), 0)
    figure, (axes,) = figures.new(columns, 1.28 * rows + 0.4)
    for index in range(shown):
        row, column = divmod(index, columns)
        top, left = (row + 1) * down - side, column * across
        paper[top : top + side, left : left + side] = images[index, 0]
        text, colour = names[predictions[index]], "ink"
        if labels is not None:
            text += f"\n({names[labels[index]]})"
            colour = "ink" if labels[index] == predictions[index] else "limit"
        axes.text(left, top - side / 25, text, fontsize=7, color=figures.LIGHT[colour], va="bottom", linespacing=1.1)
    axes.imshow(paper, cmap="gray", vmin=0, vmax=255, interpolation="none")
    axes.axis("off")
    said = title + ("" if labels is None else "; true class in brackets")
    figure.suptitle(said, fontsize=9, fontweight="bold", ha="left", x=0.01)
    figures.save(figure, path)


def title(result) -> str:
    return f"{result.model}, correctness {result.correctness} on {result.n} images"


def draw_confusion(path: str, result) -> None:
    confusion(path, result.labels, result.predictions, result.class_names, title(result))


def draw_mistakes(path: str, result) -> None:
    wrong = result.predictions != result.labels
    chosen = result.images[wrong], result.predictions[wrong]
    sheet(path, *chosen, result.class_names, f"mistakes of {title(result)}", result.labels[wrong])
