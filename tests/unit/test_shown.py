"""Untrusted text on a terminal: control sequences in the text have no effect."""

import re
import unicodedata

import profiles
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fashion_infer.present.content import table
from fashion_infer.system.text import shown


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("plain [text] ü 漢 é", "plain [text] ü 漢 é"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("caf\udce9", r"caf\xe9"),
        ("\ud800", r"\ud800"),
        ("a\u202eb\u2028c\u200bd", r"a\u202eb\u2028c\u200bd"),
    ],
)
def test_special_characters_are_escaped(text, wanted):
    assert shown(text) == wanted


@settings(max_examples=profiles.examples(100))
@given(st.text(alphabet=st.characters()))
@example("\x1b]0;title\x07")
def test_no_control_characters_remain(text):
    said = shown(text)
    assert not [c for c in said if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    said.encode("utf-8")
    kept = "".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp"))
    assert re.sub(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt])", "", said) == re.sub(
        r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt])", "", kept
    )


def test_tables_escape_their_cells():
    row = table("", ["picture", ">size"], [["a\x1bb", (1.0, "1")]]).rows[0]
    assert row[0].text == r"a\x1bb" and row[1].value == 1.0
