"""Creates jobs for the tests, and reads their results with PyArrow."""

import numpy as np
from pyarrow import parquet

from fashion_infer.inference import model as models
from fashion_infer.request import BlockRequest
from fashion_infer.scale import job, sources

CPU = BlockRequest("ece408-high", backend="cpu", threads=1)


def planned(of, out=None, model="ece408-high", invert=None, held=None, **options):
    request = CPU.but(model=model, out=out, **options)
    return job.plan(request, models.load(request), of, invert, held)


def drawn(n, out=None, **options):
    """Return a job on the CPU for n images of the built-in set."""
    return planned([sources.drawn(n)], out, **options)


def table(folder):
    """Return all results in a folder as one table, in the order of the file names."""
    return parquet.read_table(str(folder))


def column(found, name):
    """Return a column as a NumPy array; for "scores" it is (n, 10)."""
    values = found[name].combine_chunks()
    return np.asarray(values.flatten()).reshape(len(values), -1) if name == "scores" else np.asarray(values)
