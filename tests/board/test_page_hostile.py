"""Hostile text in submissions, names, logs, findings and verdicts is shown on pages as plain text."""

import json
import re
import shlex
import unicodedata
from pathlib import Path

import filled_board as fill
import pytest
from html_pages import Page
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

pytest.importorskip("fastapi")
from fashion_infer.board import verdicts
from fashion_infer.board.page import rendering
from fashion_infer.board.store import queries

HOSTILE = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onmouseover='alert(1)", "</pre></main><h1>owned",
    "javascript:alert(1)", "{{ 7919 * 6661 }}{% raw %}", "<!-- ", "]]><svg onload=alert(1)>", "&lt;b&gt;",
    "../../etc/passwd", "a\u202egnp.exe", "\x1b[31mred\x1b]0;title\x07", "\x00\x08", "\ufeff\u200b", "x" * 300,
]  # fmt: skip
PAGES = ("/", "/mine", "/queue", "/submissions", "/people", "/class", "/class/audit")


def skeleton(page):
    """Return a page's elements with the names of their attributes. Scripts in attributes fail an assertion."""
    for tag, attributes in page.elements:
        for name, value in attributes:
            assert not name.startswith("on") and name != "style", (tag, name)
            assert not (value or "").lower().lstrip().startswith(("javascript:", "data:", "http", "//")), (name, value)
    return [(tag, [name for name, _ in attributes]) for tag, attributes in page.elements]


def pages(app, text, ranked=True):
    """Return the pages, by (whether the instructor is the viewer, path), of a class whose texts are all `text`."""
    fill.empty(app)
    with app.state.store.write() as session:
        of = fill.a_class(session, cudnn_ms=10.0)
        of.name = text[:60]
        fill.person(session, of, "Ida", "instructor")
        team = fill.models.Team(class_id=of.id, name=text[:200], pseudonym=text[:200])
        session.add(team)
        session.flush()
        who, _ = fill.person(session, of, text[:200], pseudonym=text[:200], team=team)
        found = fill.finding(text, text)
        document = fill.verdict(4.0, [{**found, "advice": text}], text, reason=text)
        document["submission"].update(kernel=text, format=text, name=text)
        document["device"]["name"] = document["sandbox"]["available"] = text
        for mark in document["marks"]:
            mark.update(name=text, message=text)
        same = {"name": text[:200], "reason": text, "log": [text, text]}
        one = fill.judged(session, who, 4.0, ranked=ranked, document=document, **same).id
        before = fill.NOW - fill.timedelta(hours=2)
        two = fill.judged(session, who, status="refused", when=before, document={}, **same).id
        fill.waits(session, who, name=text[:200], log=[text])
        session.add(
            fill.models.AuditEntry(class_id=of.id, actor=text[:200], action=text[:40], what=text, address=text[:64])
        )
    found = {}
    for name, paths in (("Ida", PAGES), (text[:200], PAGES[:3])):
        client = fill.client_of(app, name)
        for path in (*paths, f"/submissions/{one}", f"/submissions/{two}"):
            answer = client.get(path)
            assert answer.status_code == 200, (name, path)
            key = path.replace(one, "ONE").replace(two, "TWO")
            found[name == "Ida", key] = answer.text
    return found


@pytest.fixture(scope="module")
def harmless(board_app):
    return {ranked: pages(board_app, "harmless", ranked) for ranked in (True, False)}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_does_not_change_a_pages_elements(board_app, harmless, text):
    ranked = len(text) % 2 == 0
    for key, page in pages(board_app, text, ranked).items():
        found = Page(page)
        assert skeleton(found) == skeleton(Page(harmless[ranked][key])), key
        said = "".join(found.words)
        assert not set(said) & set("\x00\x08\x1b\x07\u202e\ufeff\u200b"), key
        assert str(7919 * 6661) not in said


def test_text_with_markup_is_shown_as_text(board_app):
    text = "<b>bold & sons</b>"
    for key, page in pages(board_app, text).items():
        assert text in "".join(Page(page).words) and text not in page, key


@settings(deadline=None, max_examples=100)
@given(some.text())
def test_control_characters_are_not_shown(text):
    shown = rendering.line(text)
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Zl", "Zp", "Cs"}
    lines = rendering.log(text)
    assert lines.count("\n") == text.replace("\r\n", "\n").count("\n") and "\r" not in lines and "\x1b" not in lines


short = some.text(max_size=8)
JSON = some.recursive(
    some.none() | some.booleans() | some.floats() | some.integers() | short,
    lambda part: some.lists(part, max_size=3) | some.dictionaries(short, part, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(some.data(), some.booleans())
def test_malformed_verdicts_are_accepted(data, staff):
    document = fill.verdict(4.0, [fill.finding()], "printed")
    for _ in range(data.draw(some.integers(1, 3))):
        place = document
        while isinstance(place, (dict, list)) and place:
            key = data.draw(some.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            if data.draw(some.booleans()) or not isinstance(place[key], (dict, list)) or not place[key]:
                place[key] = data.draw(JSON)
                break
            place = place[key]
    found = verdicts.parts(document, staff)
    for _, tables in found.tables:
        for table in tables:
            assert all(len(row) == len(table.columns) for row in table.rows)
    assert all(isinstance(text, str) for one in found.findings for text in one) and isinstance(found.printed, str)
    assert all(isinstance(text, str) for text in verdicts.lost(document))


@pytest.mark.parametrize("what", ["diagnosis", "times", "printed"])
def test_pages_hide_from_students_what_the_rubric_hides(what):
    signs = {
        "diagnosis": ["3,136 of 25,600,000", "right for n = 100"],
        "times": ["Op Time"],
        "printed": ["I printed this"],
    }
    document = fill.verdict(4.0, [fill.finding(follows="marked")], "I printed this")
    document["rubric"]["show"][what] = False
    for everything in (False, True):
        said = repr(verdicts.parts(document, everything))
        for name, marks in signs.items():
            assert all((mark in said) == (everything or name != what) for mark in marks), (name, everything)


@pytest.mark.parametrize("kernel", ["conv.cpp", "-o x; rm.cu", "it's.cu", 5])
def test_the_explain_command_is_shown_if_the_rubric_allows_it(kernel):
    document = fill.verdict(4.0, [], "")
    document["submission"]["kernel"], document["rubric"]["edition"] = kernel, "fa2020"
    assert "Explain it with" not in dict(verdicts.parts(document, False).facts)
    document["rubric"]["show"]["explain"] = True
    said = dict(verdicts.parts(document, False).facts).get("Explain it with", "")
    words = ["fashion-infer", "kernel", "explain", f"./{kernel}", "--edition", "fa2020"]
    assert shlex.split(said) == (words if isinstance(kernel, str) else [])


def test_source_lines_have_the_findings_that_name_them():
    said = ["it does not build: k.cu:2: expected ;", "k.cu:2 and k.cu:9", "ok.cu:1", "k.cu:20"]
    found = verdicts.source_lines(b"a\r\nb\x0cc\n\xff\n", "k.cu", said)
    assert found == [(1, "a", []), (2, "b\x0cc", said[:2]), (3, "\ufffd", [])]
    assert verdicts.source_lines(b"PK\0", "k.zip", said) == []


def test_every_finding_has_one_section_on_the_page():
    page = Path(__file__).resolve().parents[2] / "docs" / "why.md"
    named = set(re.findall(r"^### `(\w+)`", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert sorted(id for _, id, _ in rendering.why() if id) == sorted(named)


@pytest.mark.parametrize("what", ["diagnosis", "times", "printed"])
def test_the_api_hides_what_the_rubric_hides(what):
    document = fill.verdict(4.0, [fill.finding(follows="marked")], "I printed this")
    document["op_time_ms"] = 4.0625
    document["rubric"]["show"][what] = False
    signs = {"diagnosis": "3,136 of 25,600,000", "times": "4.0625", "printed": "I printed this"}
    for everything in (False, True):
        said = json.dumps(queries.visible(json.dumps(document), everything))
        assert ("bubblewrap" in said) == everything
        for name, sign in signs.items():
            assert (sign in said) == (everything or name != what), (name, everything)
