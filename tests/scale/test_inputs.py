"""Sources of images in every supported format give the arrays that were written, for blocks of any size."""

import dataclasses
import gzip
import itertools
import struct

import image_files
import numpy as np
import profiles
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from image_files import grey_png
from PIL import Image
from pyarrow import parquet

from fashion_infer.data import pictures, synthetic
from fashion_infer.errors import DataError
from fashion_infer.scale import reading, sources
from fashion_infer.scale.job import MOST_BYTES, Blocks, chunks, default_size


def read_all(names, size, side=28, invert=None):
    """Read all images of some files, block by block; return them as one array."""
    blocks = Blocks(sources.of([str(name) for name in names]), size)
    return np.concatenate([reading.read(blocks.block(i), side, invert).images for i in range(len(blocks))])


def write_parquet(path, values, name="image", **options):
    parquet.write_table(pyarrow.table({"other": pyarrow.array(range(len(values))), name: values}), path, **options)


# Ways to store images (n,28,28) in a column of a table.
COLUMNS = {
    "flat lists": lambda x: pyarrow.array(x.reshape(len(x), -1).tolist(), pyarrow.list_(pyarrow.uint8())),
    "rows of int64": lambda x: pyarrow.array(x.astype(int).tolist()),
    "lists of one size": lambda x: pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(x.reshape(-1)), 784),
    "bytes": lambda x: pyarrow.array([one.tobytes() for one in x]),
    "a tensor": lambda x: pyarrow.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(x)),
    "PNG": lambda x: pyarrow.array([grey_png(one) for one in x]),
    "a struct of PNG": lambda x: pyarrow.array([{"bytes": grey_png(one), "path": "x.png"} for one in x]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_of_parquet(images, tmp_path, kind):
    some = images[0][:90, 0]
    # With row groups of 40 rows, blocks of 25 and of 90 begin and end within row groups.
    write_parquet(tmp_path / "a.parquet", COLUMNS[kind](some), row_group_size=40)
    for size in (25, 90, 1000):
        assert np.array_equal(read_all([tmp_path / "a.parquet"], size, invert=False)[:, 0], some)


def test_a_row_group_with_several_blocks(tmp_path):
    """A row group of 2,500 rows is read correctly in blocks of 1,100 rows. The code reads 1,000 rows at a time."""
    some = np.random.default_rng().integers(0, 256, (2500, 4, 4), dtype=np.uint8)
    write_parquet(tmp_path / "a.parquet", COLUMNS["bytes"](some))
    assert np.array_equal(read_all([tmp_path / "a.parquet"], 1100, side=4)[:, 0], some)


@settings(max_examples=profiles.examples(8))
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=4), size=st.integers(1, 60), data=st.data())
def test_files_of_different_formats(images, tmp_path_factory, lengths, size, data):
    folder, start, names = tmp_path_factory.mktemp("mixed"), 0, []
    for number, length in enumerate(lengths):
        some = images[0][start : start + length, 0]
        form = data.draw(st.sampled_from(["npy", "npy int64", "npz", "idx", "idx.gz", "parquet"]))
        names.append(folder / f"{number}.{form.split()[0]}")
        if form.startswith("npy"):
            np.save(names[-1], some if form == "npy" else some[..., None].astype(np.int64))
        elif form == "npz":
            np.savez_compressed(names[-1], images=some, labels=np.zeros(length, int))
        elif form.startswith("idx"):
            (gzip.open if form.endswith("gz") else open)(names[-1], "wb").write(image_files.idx(some))
        else:
            write_parquet(names[-1], COLUMNS["bytes"](some), row_group_size=7)
        start += length
    assert np.array_equal(read_all(names, size), images[0][:start])


def test_a_folder_is_read_in_order_without_labels_and_hidden_files(images, tmp_path):
    below = tmp_path / "b"
    below.mkdir()
    np.save(tmp_path / "c.npy", images[0][20:30])
    np.save(tmp_path / "labels.npy", images[1][:30])
    np.save(tmp_path / ".hidden.npy", images[0][:5])
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 2049, 0))
    (tmp_path / "a-idx3-ubyte").write_bytes(image_files.idx(images[0][:10, 0]))
    np.save(below / "x.npy", images[0][10:20])
    assert np.array_equal(read_all([tmp_path], 8), images[0][:30])
    assert [source.name for source in sources.of([f"{tmp_path}/c*.npy"])] == [f"{tmp_path}/c.npy"]


def test_pictures_are_read_as_predict_reads_them(images, tmp_path):
    paths = [tmp_path / f"{number:03}.png" for number in range(12)]
    for path, one in zip(paths, images[0]):
        Image.fromarray(one[0]).resize((50, 40)).save(path)
    want = np.stack([pictures.read(str(path)) for path in paths])
    assert np.array_equal(read_all([tmp_path], 5), want) and default_size(sources.of([str(tmp_path)]), 28) == 5000


def test_a_uri_of_a_pyarrow_filesystem(images, tmp_path):
    np.save(tmp_path / "with space.npy", images[0][:9])
    Image.fromarray(images[0][0, 0]).save(tmp_path / "x.png")
    assert np.array_equal(read_all([f"file://{tmp_path}"], 4, invert=False)[:9], images[0][:9])
    assert len(sources.of([f"file://{tmp_path}/*.npy"])) == 1


BAD = {
    "cut.npy": lambda x: image_files.npy(x)[:-1],
    "cut-idx3-ubyte": lambda x: image_files.idx(x)[:-1],
    "fortran.npy": lambda x: image_files.npy(np.asfortranarray(x)),
    "flat.npy": lambda x: image_files.npy(x.reshape(-1)),
    "floats.npy": lambda x: image_files.npy(x / 255),
    "cut.parquet": lambda x: b"PAR1" + bytes(50),
    "cut.png": lambda x: grey_png(x[0])[:60],
}


@pytest.mark.parametrize("name", BAD)
def test_damaged_files_raise_a_one_line_error(images, tmp_path, name):
    (tmp_path / name).write_bytes(BAD[name](images[0][:5, 0]))
    with pytest.raises(DataError) as error:
        read_all([tmp_path / name], 3)
    assert name in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "values",
    [
        [[1] * 784, None],
        [[1] * 783] * 2,
        [[1] * 784, [1] * 900],
        [[-1] * 784],
        [[0.5] * 784],
        ["a", "b"],
        [b"abcd", b"abcdefghi"],
    ],
)
def test_columns_without_valid_images(tmp_path, values):
    write_parquet(tmp_path / "a.parquet", pyarrow.array(values))
    with pytest.raises(DataError):
        read_all([tmp_path / "a.parquet"], 3)


def test_a_picture_given_only_by_its_path(images, tmp_path):
    write_parquet(
        tmp_path / "a.parquet",
        pyarrow.array([{"bytes": grey_png(images[0][0, 0]), "path": "x.png"}, {"bytes": None, "path": "y.png"}]),
    )
    with pytest.raises(DataError, match="not its bytes"):
        read_all([tmp_path / "a.parquet"], 3)


def test_a_column_of_another_name(tmp_path):
    write_parquet(tmp_path / "a.parquet", pyarrow.array([[1] * 4]), name="fourth")
    with pytest.raises(DataError):
        sources.of([str(tmp_path / "a.parquet")])


def test_no_files_of_images(tmp_path):
    for name in ("none", "*.parquet"):
        with pytest.raises(DataError):
            sources.of([str(tmp_path / name)])
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(DataError):
        sources.of([str(tmp_path)])


def test_a_file_that_changes_after_planning(images, tmp_path):
    np.save(tmp_path / "a.npy", images[0][:9])
    blocks = Blocks(sources.of([str(tmp_path / "a.npy")]), 4)
    before = sources.digest(blocks.sources)
    np.save(tmp_path / "a.npy", images[0][:8])
    assert sources.digest(sources.of([str(tmp_path / "a.npy")])) != before
    with pytest.raises(DataError):
        reading.read(blocks.block(2), 28)


@settings(max_examples=profiles.examples(20))
@given(lengths=st.lists(st.integers(1, 300), min_size=1, max_size=6), size=st.integers(1, 400))
def test_blocks_cover_every_image_once_and_in_order(lengths, size):
    blocks = Blocks([sources.drawn(length) for length in lengths], size)
    want = [(place, image) for place, length in enumerate(lengths) for image in range(length)]
    found, places = [], {id(source): place for place, source in enumerate(blocks.sources)}
    for index in range(len(blocks)):
        block = blocks.block(index)
        assert block.index == index and block.first == len(found) and block.count == blocks.count(index)
        found += [(places[id(p.source)], i) for p in block.parts for i in range(p.start, p.start + p.count)]
    assert found == want == want[: blocks.images]
    assert list(itertools.chain(*chunks(range(len(blocks)), 3))) == list(range(len(blocks)))


@settings(max_examples=profiles.examples(10))
@given(n=st.integers(1, 9000), size=st.integers(1, 3000), pick=st.integers(0, 10**6))
def test_drawn_images_are_the_same_in_any_block(n, size, pick):
    blocks = Blocks([sources.drawn(n)], size)
    block = blocks.block(pick % len(blocks))
    images, labels = reading.read(block, 28)
    whole, known = synthetic.draw(0, block.first + block.count)
    assert np.array_equal(images, whole[block.first :]) and np.array_equal(labels, known[block.first :])


def test_a_block_of_large_images_is_smaller():
    assert default_size([sources.drawn(5)], 28) == 50_000
    assert default_size([sources.drawn(5)], 86) == MOST_BYTES // 86**2
    assert default_size([dataclasses.replace(sources.drawn(5), bytes=10**9)], 28) == 1
