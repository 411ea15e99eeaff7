"""The package's public names, and the display of a result in a notebook."""

import subprocess
import sys

import pytest

import fashion_infer
from fashion_infer import api, errors, result


def test_public_names_are_those_of_their_modules():
    for name in fashion_infer.__all__:
        rooms = [room for room in (errors, api, result, fashion_infer) if hasattr(room, name)]
        assert getattr(fashion_infer, name) is getattr(rooms[0], name)
        assert name in dir(fashion_infer)
    kinds = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert kinds < set(fashion_infer.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Resolt'"):
        fashion_infer.Resolt  # noqa: B018


@pytest.mark.parametrize("name, heavy", [("__version__", "numpy"), ("UsageError", "numpy"), ("Result", "mxnet")])
def test_importing_a_name_does_not_import_too_much(name, heavy):
    words = f"import sys, fashion_infer; fashion_infer.{name}; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words], check=False).returncode == 0


def test_repr_and_html_of_a_result():
    found = fashion_infer.infer(n=20, data="synthetic", backend="cpu", kernel="naive")
    words = f"ece408-high, 20 images of synthetic, cpu, operator mode: correctness {found.correctness}"
    assert repr(found) == f"<Result: {words}>"
    page = found._replace(model="<b>&")._repr_html_()
    assert page.count("<table>") == 1 and page.count("<tr>") == 1 + len(found.layers)
    assert "<td>naive</td>" in page and "<b>" not in page and "&lt;b&gt;&amp;" in page
    assert f"Correctness: {found.correctness}" in page
