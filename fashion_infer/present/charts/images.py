"""What a network says of images: its confusion matrix, and a sheet of images with their classes."""

from typing import Optional, Sequence

import numpy as np

from . import figure as figures

MOST = 100  # pictures on one sheet


def confusion(path: str, labels: np.ndarray, predictions: np.ndarray, names: Sequence[str], title: str) -> None:
    """Draw the confusion matrix, rows true and columns predicted, as a PNG."""
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (labels, predictions), 1)
    figure, (axes,) = figures.new(8, 7.5)
    axes.imshow(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1), cmap="Blues", vmin=0, vmax=1)
    for row, column in np.ndindex(counts.shape):
        if counts[row, column]:
            dark = counts[row, column] > counts[row].sum() / 2
            axes.text(column, row, counts[row, column], ha="center", va="center", color="white" if dark else "black")
    axes.set_xticks(range(len(names)))
    axes.set_xticklabels(names, rotation=45, ha="right")
    axes.set_yticks(range(len(names)))
    axes.set_yticklabels(names)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    axes.set_title(title)
    figures.save(figure, path)


def sheet(
    path: str,
    images: np.ndarray,
    predictions: np.ndarray,
    names: Sequence[str],
    title: str,
    labels: Optional[np.ndarray] = None,
) -> None:
    """Draw images with the predicted and, where given, the true class, as a PNG; at most 100 of them.

    Parameters
    ----------
    images
        (n,1,s,s) uint8.
    predictions, labels
        (n,) class numbers.
    """
    shown = min(len(images), MOST)
    if shown < len(images):
        title += f" (the first {shown} of {len(images)})"
    columns = min(10, max(shown, 3))
    rows = max(1, -(-shown // columns))
    figure, cells = figures.new(1.5 * columns, 1.75 * rows + 0.6, rows, columns)
    for index, cell in enumerate(cells):
        cell.axis("off")
        if index < shown:
            cell.imshow(images[index, 0], cmap="gray", vmin=0, vmax=255)
            text = names[predictions[index]]
            colour = "black"
            if labels is not None:
                text += f"\n({names[labels[index]]})"
                colour = "black" if labels[index] == predictions[index] else "crimson"
            cell.set_title(text, fontsize=8, color=colour)
    figure.suptitle(title + ("" if labels is None else "; true class in brackets"), fontsize=10)
    figures.save(figure, path)
