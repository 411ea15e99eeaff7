"""The tests' oracles, compared with the definitions in float64, and the cache of references."""

import inspect
from pathlib import Path

import numpy as np
import profiles
import pytest
import reference
import reference_cache
from hypothesis import given, settings
from hypothesis import strategies as st

from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Relu, Softmax, Tanh


def by_definition(x, weight):
    """Return the cross-correlation, computed product by product in float64."""
    (n, c, h, w), (m, _, k, _) = x.shape, weight.shape
    y = np.zeros((n, m, h - k + 1, w - k + 1))
    for b, f, i, j in np.ndindex(*y.shape):
        for channel, p, q in np.ndindex(c, k, k):
            y[b, f, i, j] += float(x[b, channel, i + p, j + q]) * float(weight[f, channel, p, q])
    return y


@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 7),
    st.integers(1, 7),
    st.integers(1, 3),
    st.integers(1, 5),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=profiles.examples(20))
def test_convolve(b, c, h, w, m, k, as_pixels, seed):
    rng, k = np.random.default_rng(seed), min(k, h, w)
    x = reference.pixels(rng, (b, c, h, w)) if as_pixels else rng.standard_normal((b, c, h, w)).astype(np.float32)
    weight = reference.weights(rng, m, c, k)
    y = reference.convolve(x, weight)
    assert y.dtype == np.float64
    # Adding up to 75 terms in another order changes a float64 sum by up to 75 * 1.1e-16 times the sum of magnitudes.
    np.testing.assert_allclose(
        y, by_definition(x, weight), rtol=0, atol=1e-14 * by_definition(abs(x), abs(weight)).max()
    )


@given(
    st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(1, 4), st.booleans(), st.integers(0, 2**32 - 1)
)
@settings(max_examples=profiles.examples(60))
def test_pools(h, w, size, stride, full, seed):
    """Pools equal a computation from the definition.

    A window starts every `stride` pixels, as long as it is inside the image or, in ceil mode, as long as it begins
    inside the image and is needed to cover it.
    """
    if min(h, w) < size:
        return
    x = np.random.default_rng(seed).standard_normal((2, 3, h, w))
    reach = 1 if full else size
    rows, columns = (range(0, edge - reach + 1, stride) for edge in (h, w))
    if full:  # only windows that are needed to cover the image
        rows, columns = ([at for at in found if at < edge - size + stride] for found, edge in ((rows, h), (columns, w)))
    wanted = [[x[:, :, i : i + size, j : j + size].max(axis=(2, 3)) for j in columns] for i in rows]
    if MaxPool(size, stride, full).fits(h) and MaxPool(size, stride, full).fits(w):
        found = reference.max_pool(x, size, stride, full)
        np.testing.assert_array_equal(found, np.array(wanted).transpose(2, 3, 0, 1))


def test_layers_computed_by_hand():
    x = np.array([[[[1, 2, 9], [3, 4, 9], [9, 9, 9]]], [[[-1, -2, 9], [-3, -4, 9], [9, 9, 9]]]], np.float32)
    assert reference.forward([MaxPool()], [], x).tolist() == [[[[4]]], [[[-1]]]]
    assert reference.forward([MaxPool(full=True)], [], x)[1].tolist() == [[[-1, 9], [9, 9]]]
    assert reference.forward([MaxPool(2, 1)], [], x)[0].tolist() == [[[4, 9], [9, 9]]]
    assert reference.forward([Tanh()], [], x)[0, 0, 0].tolist() == np.tanh([1.0, 2.0, 9.0]).tolist()
    assert reference.forward([Relu()], [], x)[1, 0, 0].tolist() == [0, 0, 9]
    assert np.isnan(reference.forward([Relu()], [], np.full((1, 2), np.nan))).all()
    assert reference.forward([Flatten()], [], x).shape == (2, 9)
    weight, bias = np.eye(9, dtype=np.float32)[:2], np.float32([10, 20])
    assert reference.forward([Dense(2)], [weight, bias], x).tolist() == [[11, 22], [9, 18]]
    assert reference.forward([Dense(2, False)], [weight], x).tolist() == [[1, 2], [-1, -2]]
    scores = reference.forward([Flatten(), Softmax()], [], np.log(np.array([[1.0, 2.0, 5.0]])))
    assert np.allclose(scores, [[1 / 8, 2 / 8, 5 / 8]], rtol=1e-15)


def test_forward_in_slices():
    rng = np.random.default_rng(0)
    layers = [Convolution(2, 3), Tanh(), MaxPool(), Dense(4), Tanh(), Dense(3, False)]
    dense = [rng.standard_normal(shape).astype(np.float32) for shape in ((4, 2), (4,), (3, 4))]
    weights, x = [reference.weights(rng, 2, 1, 3), *dense], reference.pixels(rng, (7, 1, 5, 5))
    for chain in (layers, layers[:3], layers[:4]):
        whole = reference.forward(chain, weights, x)
        np.testing.assert_allclose(reference.forward_in_slices(chain, weights, x, 2, 5), whole, rtol=1e-13)


class TestCache:
    SOURCES = (inspect.getsourcefile(reference),)

    @pytest.fixture
    def oracle(self):
        """A function that doubles an array. Its attribute `calls` counts its calls."""

        def double(layers, weights, x):
            double.calls += 1
            return 2.0 * x

        double.calls = 0
        return double

    def kept(self, oracle, where, *arguments, sources=SOURCES):
        return reference_cache.kept(oracle, *arguments, sources=sources, where=where)

    ARGUMENTS = ([("tanh",)], [np.ones(3, np.float32)], np.arange(4.0))

    def test_computed_once(self, oracle, tmp_path):
        where = tmp_path / "new" / "folder"
        for _ in range(3):
            assert self.kept(oracle, where, *self.ARGUMENTS).tolist() == [0, 2, 4, 6]
        assert oracle.calls == 1 and len(list(where.glob("*.npy"))) == 1

    def test_the_key_depends_on_oracle_and_arguments(self, tmp_path):
        layers, (weight,), x = self.ARGUMENTS
        source = tmp_path / "oracle.py"
        source.write_text("return 2 * x")
        keys = [
            reference_cache.key([source], *arguments)
            for arguments in (
                (layers, [weight], x),
                ([("pool",)], [weight], x),
                (layers, [np.nextafter(weight, 2, dtype=np.float32)], x),
                (layers, [weight.astype(np.float64)], x),
                (layers, [weight, weight], x),
                (layers, [weight.reshape(3, 1)], x),
                (layers, [weight], x[::-1]),
            )
        ]
        source.write_text("return 3 * x")
        keys.append(reference_cache.key([source], layers, [weight], x))
        assert len(set(keys)) == 8
        assert reference_cache.key([source], layers, [weight.copy()], x.copy()) == keys[-1]

    @pytest.mark.parametrize("damage", [lambda c: c[:-1], lambda c: c[:40], lambda c: b"", lambda c: c[:-8] + bytes(8)])
    def test_a_damaged_file_is_computed_again(self, oracle, tmp_path, damage):
        self.kept(oracle, tmp_path, *self.ARGUMENTS)
        [path] = tmp_path.glob("*.npy")
        whole = path.read_bytes()
        path.write_bytes(damage(whole))
        assert path.read_bytes() != whole
        assert self.kept(oracle, tmp_path, *self.ARGUMENTS).tolist() == [0, 2, 4, 6]
        assert oracle.calls == 2 and path.read_bytes() == whole

    def test_without_a_folder(self, oracle, tmp_path, monkeypatch):
        monkeypatch.setenv("FASHION_INFER_TEST_REFERENCES", "")
        self.kept(oracle, None, *self.ARGUMENTS)
        (tmp_path / "file").touch()
        self.kept(oracle, tmp_path / "file" / "below", *self.ARGUMENTS)
        assert oracle.calls == 2

    def test_the_caches_folder(self, monkeypatch):
        monkeypatch.delenv("FASHION_INFER_TEST_REFERENCES", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
        assert reference_cache.folder() == Path("/somewhere/fashion-infer/test-references")
        monkeypatch.setenv("FASHION_INFER_TEST_REFERENCES", "/else")
        assert reference_cache.folder() == Path("/else")

    def test_the_cache_is_limited(self, oracle, tmp_path, monkeypatch):
        monkeypatch.setattr(reference_cache, "KEPT", 3)
        for number in range(5):
            self.kept(oracle, tmp_path, number, [], np.arange(4.0))
        assert len(list(tmp_path.glob("*.npy"))) == 3
