"""Signing in, protection against forged forms (CSRF), and the instructors' pages."""

import csv
import html
import io
import re
from datetime import timedelta

import filled_board as fill
import pytest

pytest.importorskip("fastapi")
from fashion_infer.board import marks, verdicts
from fashion_infer.board.page import forms as page_forms
from fashion_infer.board.store import people

CLASS = {"deadline": "2027-01-02T03:04+01:00", "gpu_seconds": "12.5", "cudnn_ms": "10.67", "names_open": "yes"}


@pytest.fixture
def app(board_app):
    """A board with a class of four people. The board is emptied after each test."""
    with board_app.state.store.write() as session:
        of = fill.a_class(session, "one")
        for name, role in (("Ida", "instructor"), ("Ann", "assistant"), ("Mallory", "student"), ("Eve", "student")):
            fill.person(session, of, name, role)
    yield board_app
    fill.empty(board_app)


def post(client, path, **fields):
    return client.post(path, data={"csrf": client.csrf, **fields})


def count(app, table):
    with app.state.store.read() as session:
        return session.query(getattr(fill.models, table)).count()


def the(app, table, **by):
    with app.state.store.read() as session:
        return session.query(getattr(fill.models, table)).filter_by(**by).one()


def test_a_token_opens_a_session_and_signing_out_ends_it(app):
    client = fill.client_of(app)
    answer = fill.enter(client, f"  {fill.new_token(app, 'Eve')}\n")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    said = next(value for name, value in answer.headers.multi_items() if name == "set-cookie" and "board=" in value)
    assert "HttpOnly" in said and "SameSite=lax" in said and "Path=/" in said and "Secure" not in said
    text = client.get("/mine").text
    assert "Eve" in text
    cookie = client.cookies["board"]
    client.csrf = re.search(r'name="csrf" value="([^"]+)"', text)[1]
    assert post(client, "/logout").status_code == 303
    client.cookies.set("board", cookie)  # a saved cookie is invalid after signing out
    assert client.get("/mine").status_code == 303


def test_a_sign_in_form_of_another_site_is_refused(app):
    token, client = fill.new_token(app, "Eve"), fill.client_of(app)
    assert client.post("/login", data={"token": token}).status_code == 403
    client.get("/login")
    assert client.post("/login", data={"token": token, "csrf": "0" * 64}).status_code == 403
    guard = re.search(r'name="csrf" value="(\w+)"', client.get("/login").text)[1]
    crossed = client.post("/login", data={"token": token, "csrf": guard}, headers={"Sec-Fetch-Site": "cross-site"})
    assert crossed.status_code == 403 and "board" not in client.cookies
    assert client.post("/login", data={"token": token, "csrf": guard}).status_code == 303


def test_a_session_ends_when_it_expires_or_its_token_is_revoked(app):
    late, revoked = fill.client_of(app, "Eve"), fill.client_of(app, "Mallory")
    assert late.get("/mine").status_code == revoked.get("/mine").status_code == 200
    with app.state.store.write() as session:
        of_eve = session.query(fill.models.Person).filter_by(name="Eve").one()
        one = session.query(fill.models.WebSession).filter_by(person_id=of_eve.id).one()
        one.expires_at = fill.NOW - timedelta(seconds=1)
        people.revoke(session, session.query(fill.models.Person).filter_by(name="Mallory").one())
    assert late.get("/mine").status_code == revoked.get("/mine").status_code == 303


def forms(app, person):
    """Yield the URL and valid fields of every form except the login. Create a waiting submission of `person` first."""
    with app.state.store.write() as session:
        of = session.query(fill.models.Person).filter_by(name=person).one()
        waits = fill.waits(session, of).id
        other = session.query(fill.models.Person).filter_by(name="Eve").one().id
    given = {"/class": CLASS, "/people": {"people": "New Person"}, "/class/finalise": {"leaders": "1"}}
    for route in page_forms.router.routes:
        if "POST" in route.methods and route.path != "/login":
            yield route.path.format(identifier=waits, person=other), given.get(route.path, {"do": "revoke"})


def attached(path):
    """Return the arguments that attach a file, for the form that uploads one; else no arguments."""
    return {"files": {"file": ("k.cu", b"code")}} if path == "/submit" else {}


def test_every_form_needs_its_sessions_csrf_token(app):
    client, other = fill.client_of(app, "Ida"), fill.client_of(app, "Ann")
    with app.state.store.write() as session:
        session.query(fill.models.Class).one().deadline = None
    paths = list(forms(app, "Ida"))
    assert len(paths) == 7
    before = {table: count(app, table) for table in ("Person", "Token", "WebSession", "AuditEntry")}
    for path, fields in paths:
        for csrf in ({}, {"csrf": ""}, {"csrf": "x"}, {"csrf": other.csrf}, {"csrf": client.csrf.upper()}):
            assert client.post(path, data={**fields, **csrf}, **attached(path)).status_code == 403
        for site in ("cross-site", "same-site"):
            data, headers = {**fields, "csrf": client.csrf}, {"Sec-Fetch-Site": site}
            assert client.post(path, data=data, headers=headers, **attached(path)).status_code == 403
        nobody = fill.client_of(app).post(path, data={**fields, "csrf": client.csrf}, **attached(path))
        assert nobody.headers["location"] == "/login"
        assert client.get(path).status_code in (200, 404, 405)
    assert before == {table: count(app, table) for table in before}
    assert the(app, "Class").cudnn_ms is None and the(app, "SubmissionRow").status == "queued"
    # With the session's CSRF token each form works, so the refusals above had no other reason.
    for path, fields in sorted(paths, key=lambda one: "logout" in one[0]):
        answer = client.post(path, data={**fields, "csrf": client.csrf}, **attached(path))
        assert answer.status_code in (200, 303, 422 if "finalise" in path else 303), path


@pytest.mark.parametrize("name", ["Mallory", "Ann"])
def test_others_cannot_change_a_class_and_their_attempts_are_logged(app, name):
    client = fill.client_of(app, name)
    before = count(app, "Person"), count(app, "Token")
    for path, fields in forms(app, "Eve"):
        if path.startswith(("/class", "/people")):
            assert post(client, path, **fields).status_code == 403
            assert post(client, path, **fields).status_code == 403
            noted = the(app, "AuditEntry", action="refused", what=re.sub(r"\d+", "{person}", path))
            assert (noted.actor, noted.times) == (name, 2)
    assert before == (count(app, "Person"), count(app, "Token"))
    assert not the(app, "Class").names_open


def test_an_instructor_cannot_change_another_class(app):
    with app.state.store.write() as session:
        fill.person(session, fill.a_class(session, "two"), "Olga", "instructor")
    client = fill.client_of(app, "Olga")
    eve = the(app, "Person", name="Eve").id
    for do in ("new", "revoke"):
        assert post(client, f"/people/{eve}/token", do=do).status_code == 404
    with app.state.store.write() as session:
        waits = fill.waits(session, session.query(fill.models.Person).filter_by(name="Eve").one()).id
    assert post(client, f"/submissions/{waits}/cancel").status_code == 404
    post(client, "/class", **CLASS)
    assert the(app, "Class", name="one").cudnn_ms is None and the(app, "Class", name="two").cudnn_ms == 10.67


def test_people_cancel_only_their_own_submissions(app):
    with app.state.store.write() as session:
        waits = fill.waits(session, session.query(fill.models.Person).filter_by(name="Eve").one()).id
    assert post(fill.client_of(app, "Mallory"), f"/submissions/{waits}/cancel").status_code == 404
    assert the(app, "SubmissionRow").status == "queued"
    client = fill.client_of(app, "Eve")
    assert f"/submissions/{waits}/cancel" in client.get(f"/submissions/{waits}").text
    assert post(client, f"/submissions/{waits}/cancel").headers["location"] == f"/submissions/{waits}"
    assert the(app, "SubmissionRow").status == "cancelled"
    again = post(client, f"/submissions/{waits}/cancel")
    assert again.status_code == 422
    assert f"/submissions/{waits}/cancel" not in client.get(f"/submissions/{waits}").text


def test_settings_are_saved_and_shown(app):
    client = fill.client_of(app, "Ida")
    assert post(client, "/class", **CLASS).headers["location"] == "/class"
    of = the(app, "Class")
    assert (of.deadline.isoformat(), of.gpu_seconds, of.cudnn_ms) == ("2027-01-02T02:04:00+00:00", 12.5, 10.67)
    text = client.get("/class").text
    assert 'value="2027-01-02T02:04"' in text and 'value="12.5"' in text and " checked" in text
    assert "cudnn_ms = 10.67" in the(app, "AuditEntry", action="settings").what
    post(client, "/class", deadline="", gpu_seconds="", cudnn_ms="")
    of = the(app, "Class")
    assert (of.deadline, of.gpu_seconds, of.cudnn_ms, of.names_open) == (None, None, None, False)


@pytest.mark.parametrize("wrong", [
    {"deadline": "tomorrow"}, {"deadline": "2026-12-05T23:59"}, {"deadline": "0001-01-01T00:00+14:00"},
    {"deadline": "9999-12-31T23:59-12:00"}, {"gpu_seconds": "-1"}, {"gpu_seconds": "nan"}, {"gpu_seconds": "1e400"},
    {"cudnn_ms": "0"}, {"cudnn_ms": "<b>"},
])  # fmt: skip
def test_an_invalid_setting_changes_nothing(app, wrong):
    client = fill.client_of(app, "Ida")
    answer = post(client, "/class", **{**CLASS, **wrong})
    assert answer.status_code == 422 and "<b>" not in answer.text
    of = the(app, "Class")
    assert of.cudnn_ms is None and not of.names_open


def test_people_are_added_with_tokens_that_are_shown_once(app):
    client = fill.client_of(app, "Ida")
    answer = post(client, "/people", people="Zoe, student, A team\r\nYan\r\n\r\nXia,assistant")
    tokens = dict(re.findall(r'<p>(\w+) <code class="secret">(fib_\w+)</code>', answer.text))
    assert set(tokens) == {"Zoe", "Yan", "Xia"}
    assert "fib_" not in client.get("/people").text and "fib_" not in client.get("/class/audit").text
    assert the(app, "Person", name="Xia").role == "assistant"
    assert the(app, "AuditEntry", what="Yan as student").actor == "Ida"
    for name, token in tokens.items():
        assert fill.enter(fill.client_of(app), token).status_code == 303, name


@pytest.mark.parametrize("text", [
    "", "Zoe,boss", "Zoe,student,team,more", '"', "\n".join(f"p{n}" for n in range(1001)),
])  # fmt: skip
def test_an_invalid_list_of_people_adds_nobody(app, text):
    before = count(app, "Person"), count(app, "Token")
    answer = post(fill.client_of(app, "Ida"), "/people", people=text)
    assert answer.status_code == 422
    assert count(app, "Person") == before[0] and count(app, "Token") == before[1]


def test_instructors_replace_and_revoke_tokens(app):
    client, eve = fill.client_of(app, "Ida"), the(app, "Person", name="Eve").id
    answer = post(client, f"/people/{eve}/token", do="new")
    token = re.search(r"fib_\w+", answer.text)[0]
    assert fill.enter(fill.client_of(app), token).status_code == 303
    assert post(client, f"/people/{eve}/token", do="revoke").status_code == 303
    assert fill.enter(fill.client_of(app), token).status_code == 401
    own = the(app, "Person", name="Ida").id
    assert post(client, f"/people/{own}/token", do="revoke").status_code == 422
    assert client.get("/class").status_code == 200
    assert post(client, "/people/x/token", do="new").status_code == 404


def test_finalise_waits_for_the_deadline_and_then_queues_the_leaders(app):
    client = fill.client_of(app, "Ida")
    assert post(client, "/class/finalise", leaders="2").status_code == 422
    with app.state.store.write() as session:
        session.query(fill.models.Class).one().deadline = fill.NOW - timedelta(hours=1)
        for name, ms in (("Eve", 4.0), ("Mallory", 5.0)):
            fill.judged(session, session.query(fill.models.Person).filter_by(name=name).one(), ms)
    for wrong in ("", "0", "-1", "x"):
        assert post(client, "/class/finalise", leaders=wrong).status_code == 422
    assert post(client, "/class/finalise", leaders="1").status_code == 303
    assert count(app, "JobRow") == 5 and the(app, "AuditEntry", action="finalise").actor == "Ida"


def test_forms_with_large_or_invalid_bodies_are_refused(app):
    client = fill.client_of(app, "Ida")
    head = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/people", content=b"people=" + b"x" * 70000, headers=head).status_code == 413
    assert client.post("/people", content=b"&".join(b"a=b" for _ in range(30)), headers=head).status_code == 422
    assert client.post("/people", content=b"\xff\xfe=1", headers=head).status_code == 422
    assert client.post("/people", content=b"{}", headers={"Content-Type": "application/json"}).status_code == 415
    assert client.post("/people", files={"people": b"Zoe"}).status_code == 415
    for size, status in ((1 << 16, 403), ((1 << 16) + 1, 413)):  # the body is sent in pieces, without a Content-Length
        pieces = (part for part in (b"people=", b"x" * (size - 7)))
        assert client.post("/people", content=pieces, headers=head).status_code == status
    assert count(app, "Person") == 4


class TestUpload:
    @pytest.fixture
    def eve(self, app):
        return fill.client_of(app, "Eve")

    def send(self, client, content=b"code", name="k.cu", **fields):
        return client.post("/submit", data={"csrf": client.csrf, **fields}, files={"file": (name, content)})

    def test_an_upload_creates_one_submission(self, app, eve):
        answer = self.send(eve, b"\0\r\n\xff code", name="../../k.cu", final="yes")
        found = the(app, "SubmissionRow")
        assert answer.headers["location"] == f"/submissions/{found.id}"
        assert (found.name, found.size, found.final, found.status) == ("k.cu", 9, True, "queued")
        assert the(app, "Content").content == b"\0\r\n\xff code" and count(app, "JobRow") == 1
        assert the(app, "AuditEntry", action="submit").actor == "Eve"
        assert self.send(eve, b"\0\r\n\xff code", final="yes").headers["location"] == f"/submissions/{found.id}"
        assert count(app, "SubmissionRow") == 1

    def test_the_button_of_a_test(self, app, eve):
        assert 'name="test"' in eve.get("/mine").text
        assert self.send(eve, test="yes", final="yes").status_code == 422
        page = eve.get(self.send(eve, test="yes").headers["location"]).text
        assert the(app, "SubmissionRow").test and the(app, "JobRow").purpose == "test"
        assert verdicts.OF_A_TEST in html.unescape(page)

    def test_uploads_have_the_limits_of_the_api(self, app, eve):
        with app.state.store.write() as session:
            session.query(fill.models.Class).one().most_bytes = 10
        for content, status in ((b"", 422), (b"x" * 11, 413), (b"x" * 200_000, 413)):
            assert self.send(eve, content).status_code == status
        assert self.send(eve, b"x" * 10).status_code == 303
        with app.state.store.write() as session:
            session.query(fill.models.Class).one().deadline = fill.NOW - timedelta(hours=1)
        assert self.send(eve, b"y").status_code == 403 and count(app, "SubmissionRow") == 1

    @pytest.mark.parametrize(
        "body, kind",
        [
            (b"", "multipart/form-data"),
            (b"", "multipart/form-data; boundary=b"),
            (b"--b", "multipart/form-data; boundary=b"),
            (b"x", "text/plain"),
            (b"--b\r\n\r\n\r\n--b--", "multipart/form-data; boundary=b"),
            (b"csrf=x&file=k.cu", "application/x-www-form-urlencoded"),
        ],
    )
    def test_invalid_bodies_are_refused(self, app, eve, body, kind):
        answer = eve.post("/submit", content=body, headers={"Content-Type": kind})
        assert answer.status_code in (403, 422) and count(app, "SubmissionRow") == 0

    def test_an_upload_needs_exactly_one_file(self, app, eve):
        two = [("file", ("a.cu", b"a")), ("file", ("b.cu", b"b"))]
        assert eve.post("/submit", data={"csrf": eve.csrf}, files=two).status_code == 422
        text = {"csrf": eve.csrf, "file": "k.cu"}
        assert eve.post("/submit", data=text, files={"other": b""}).status_code == 422
        assert count(app, "SubmissionRow") == 0


def test_marks_are_exported_for_a_learning_platform(app):
    with app.state.store.write() as session:
        person = {name: session.query(fill.models.Person).filter_by(name=name).one() for name in ("Eve", "Mallory")}
        fill.judged(session, person["Eve"], 4.0)
        document = fill.verdict(findings=[fill.finding(text="only the last row is wrong")])
        two = timedelta(hours=2)
        fill.judged(session, person["Eve"], 9.0, ranked=False, final=True, document=document, when=fill.NOW - two)
    client = fill.client_of(app, "Ida")
    rows = {name: list(csv.DictReader(io.StringIO(client.get(f"/class/{name}.csv").text))) for name in marks.FORMATS}
    # A person's marks come from the submission marked as final, although another submission is ranked.
    assert [(row["name"], row["points"]) for row in rows["marks"]] == [("Eve", "10"), ("Mallory", "")]
    assert [(row["name"], row["place"], row["points"], row["points_of_that"]) for row in rows["ranking"]] == [
        ("Eve", "1", "100", "10"),
        ("Mallory", "", "", ""),
    ]
    possible, *canvas = rows["canvas"]
    assert possible["fashion-infer one"] == "100"
    assert [(row["SIS Login ID"], row["fashion-infer one"]) for row in canvas] == [("Eve", "10"), ("Mallory", "")]
    assert [(row["username"], row["fashion-infer one"]) for row in rows["moodle"]] == [("Eve", "10"), ("Mallory", "")]
    feedback = [[row["feedback"] for row in rows["moodle"]], [row["Notes"] for row in canvas]]
    assert feedback[0] == feedback[1] and "Rank 1" in feedback[0][0] and "the last row" in feedback[0][0]
    assert feedback[0][1]  # of a student without a submission
    assert client.get("/class/none.csv").status_code == 404


def test_only_staff_see_that_files_are_the_same(app):
    with app.state.store.write() as session:
        for person in session.query(fill.models.Person).filter_by(role="student"):
            session.get_one(fill.Content, fill.judged(session, person).id).content = b"int x;"
    assert "same file as Eve" in fill.client_of(app, "Ida").get("/").text
    assert "same file" not in fill.client_of(app, "Eve").get("/").text


def test_a_deadline_without_offset_is_in_the_browsers_zone(app):
    client = fill.client_of(app, "Ida")
    for zone, hour in (("UTC", 3), ("America/Chicago", 9), ("Asia/Kolkata", 21)):
        assert post(client, "/class", deadline="2027-01-02T03:04", zone=zone).status_code == 303
        assert the(app, "Class").deadline.hour == hour, zone
        client.cookies.set("zone", zone)
        page = client.get("/class").text
        assert 'value="2027-01-02T03:04"' in page and f"Deadline ({zone})" in page
    assert post(client, "/class", deadline="2027-01-02T03:04", zone="../north").status_code == 422
