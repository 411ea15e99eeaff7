"""Fit data/synthetic.npz, the statistical model behind the built-in synthetic set.

    python scripts/fit_synthetic.py [--components 48] [--to data/synthetic.npz]

Each class of the 60,000 training images gets a mean and its strongest principal components, scaled by the
standard deviation of their coefficients and quantised to int8. The committed file is the reference: eigenvectors may
differ in their last bits between LAPACKs, so that a fit on another machine can differ in a few roundings.
"""

import argparse
from pathlib import Path

import numpy as np

from fashion_infer.data.dataset import load_split
from fashion_infer.data.synthetic import CLASSES, COEFFICIENT_SD, FRACTION_BITS, MEAN_BITS, differences

ROOT = Path(__file__).resolve().parents[1]
SIZE_LIMIT = 500 * 1000  # bytes: the file is committed and is part of the wheel


def fit_class(images, components):
    """Fit one class.

    Parameters
    ----------
    images : numpy.ndarray, shape (n, 784), uint8
    components : int
        Number of principal components to keep.

    Returns
    -------
    mean : numpy.ndarray, shape (784,), uint16
        The mean image, in units of 1/2**MEAN_BITS of a grey level.
    shapes : numpy.ndarray, shape (components, 784), int8
        The components, strongest first, each scaled so that its largest entry is 127.
    multipliers : numpy.ndarray, shape (components,), int32
        Effect of one step of a coefficient on an entry of 1, in 2**-FRACTION_BITS grey levels.
    """
    pixels = images.astype(np.float64)
    mean = pixels.mean(axis=0)
    variances, vectors = np.linalg.eigh(np.cov(pixels, rowvar=False))
    strongest = slice(None, -components - 1, -1)  # eigh sorts in ascending order
    vectors = vectors[:, strongest].T
    peaks = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None], axis=1)[:, 0]
    # Dividing by the signed peak also fixes the sign, which is arbitrary in an eigenvector.
    shapes = np.rint(127 * vectors / peaks[:, None]).astype(np.int8)
    deviations = np.sqrt(variances[strongest]) * np.abs(peaks)  # grey levels at the peak
    multipliers = np.rint(2**FRACTION_BITS * deviations / 127 / COEFFICIENT_SD).astype(np.int32)
    return np.rint(mean * 2**MEAN_BITS).astype(np.uint16), shapes, multipliers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--components", type=int, default=48, help="principal components per class")
    parser.add_argument("--data-dir", help="folder of the Fashion-MNIST files")
    parser.add_argument("--to", type=Path, default=ROOT / "data" / "synthetic.npz")
    options = parser.parse_args()

    images, labels = load_split("train", options.data_dir)
    images = images.reshape(len(images), -1)
    fitted = [fit_class(images[labels == label], options.components) for label in range(CLASSES)]
    mean, components, multipliers = (np.stack(part) for part in zip(*fitted))
    packed = differences(components)
    np.savez_compressed(str(options.to), mean=mean, differences=packed, multipliers=multipliers)
    size = options.to.stat().st_size
    print(f"{options.to}: {size} bytes, {options.components} components per class")
    if size > SIZE_LIMIT:
        raise SystemExit(f"too large: at most {SIZE_LIMIT} bytes")


if __name__ == "__main__":
    main()
