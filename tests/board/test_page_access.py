"""Which pages and whose submissions each role may see, in the viewer's class and in another one."""

import re

import filled_board as fill
import pytest

fastapi = pytest.importorskip("fastapi")
from fashion_infer.board.marks import FORMATS  # noqa: E402
from fashion_infer.board.page import routes  # noqa: E402

# Paths of pages, and the roles that may read each page. A test compares the paths with the router's.
PAGES = {
    "/": "all", "/mine": "all", "/queue": "all", "/submissions/{identifier}": "all",
    "/submissions/{identifier}/file": "all", "/submissions/{identifier}/log.txt": "all",
    "/submissions/{identifier}/verdict.json": "staff", "/submissions": "staff", "/people": "staff",
    "/class": "instructor", "/class/audit": "instructor", "/class/{name}.csv": "instructor", "/ranking.svg": "all",
    "/why": "all",
}  # fmt: skip
OPEN = {"/login", "/static/{version}/{name}"}
ROLES = {
    "all": {"student", "assistant", "instructor"},
    "staff": {"assistant", "instructor"},
    "instructor": {"instructor"},
}
# Name: class and role. Each person's submission has the name in its code, log, file name, findings and printed text.
PEOPLE = {
    "Mallory": ("one", "student"),
    "Evelyn": ("one", "student"),
    "Tess": ("one", "student"),
    "Ann": ("one", "assistant"),
    "Ida": ("one", "instructor"),
    "Otto": ("two", "student"),
    "Olga": ("two", "instructor"),
}
TEAM = {"Evelyn", "Tess"}


@pytest.fixture(scope="module")
def board(board_app):
    store = board_app.state.store
    with store.write() as session:
        classes = {name: fill.a_class(session, name, cudnn_ms=10.0) for name in ("one", "two")}
        team = fill.models.Team(class_id=classes["one"].id, name="Team Real Name", pseudonym="bold bats")
        session.add(team)
        session.flush()
        for number, (name, (of, role)) in enumerate(PEOPLE.items()):
            who, _ = fill.person(
                session, classes[of], name, role, f"pseudonym {number}", team if name in TEAM else None
            )
            mark = f"SECRET-{name}"
            found = [fill.finding(f"{mark} is wrong", follows="marked")]
            document = fill.verdict(4.0 + number, found, f"{mark} printed", explain=[fill.explained(f"{mark} source")])
            document["rubric"]["show"]["explain"] = True
            fill.judged(session, who, 4.0 + number, name=f"{mark}.cu", log=[f"{mark} built"], document=document)
            fill.waits(session, who, name=f"{mark}-waits.cu", log=[f"{mark} waits"])
    clients = {name: fill.client_of(board_app, name) for name in PEOPLE}
    with store.read() as session:
        submissions = {one.id: one.person.name for one in session.query(fill.models.SubmissionRow)}
        ids = {one.name: one.id for one in session.query(fill.models.Person)}
    nobody = fill.client_of(board_app)
    return {"app": board_app, "clients": clients, "nobody": nobody, "submissions": submissions, "ids": ids}


def addresses(board):
    """Yield (path, URL) for every page, with every submission and with every person that can be selected."""
    for path in PAGES:
        if "{identifier}" in path:
            yield from ((path, path.format(identifier=identifier)) for identifier in board["submissions"])
        elif "{name}" in path:
            yield from ((path, path.format(name=name)) for name in (*FORMATS, "none"))
        else:
            yield path, path
            yield path, f"{path}?start=1"
            if path == "/submissions":
                yield from ((path, f"{path}?person={number}") for number in board["ids"].values())


def may_read(viewer, author):
    of, role = PEOPLE[viewer]
    return viewer == author or (role != "student" and PEOPLE[author][0] == of)


def test_the_list_has_every_page(board):
    schema = {route.path for route in routes.router.routes if hasattr(route, "methods") and "GET" in route.methods}
    assert schema | {"/login"} == set(PAGES) | OPEN


@pytest.mark.parametrize("viewer", PEOPLE)
def test_code_logs_and_verdicts_are_private(board, viewer):
    """The author and the staff of the author's class see a submission's code, log and verdict, and nobody else does."""
    of, role = PEOPLE[viewer]
    strangers = {name for name, (theirs, _) in PEOPLE.items() if theirs != of}
    seen = set()
    for path, address in addresses(board):
        answer = board["clients"][viewer].get(address)
        if role not in ROLES[PAGES[path]]:
            assert answer.status_code == 403, address
        policy = answer.headers["content-security-policy"]
        assert ("unsafe" in policy) == (path == "/ranking.svg")  # only the picture may have inline styles
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        marks = {name for name in PEOPLE if f"SECRET-{name}" in answer.text or f"code of {name}" in answer.text}
        assert all(may_read(viewer, name) for name in marks), (address, marks)
        assert not [name for name in strangers if name in answer.text], address
        seen |= marks
    assert seen == {name for name in PEOPLE if may_read(viewer, name)}


def test_what_the_compiler_says_is_for_owner_and_staff(board):
    for viewer, client in board["clients"].items():
        for identifier, author in board["submissions"].items():
            answer = client.get(f"/submissions/{identifier}").text
            judged = may_read(viewer, author) and f"SECRET-{author}.cu" in answer
            assert (f"SECRET-{author} source" in answer) == judged
            assert (f"code of {author}" in answer) == (viewer == author)  # others read it by a recorded download


@pytest.mark.parametrize("viewer", PEOPLE)
def test_anothers_submission_looks_like_a_missing_one(board, viewer):
    client = board["clients"][viewer]
    for path in (path for path in PAGES if "{identifier}" in path):
        nothing = client.get(path.format(identifier="nosuchthing"))
        for identifier, author in board["submissions"].items():
            if not may_read(viewer, author):
                answer = client.get(path.format(identifier=identifier))
                assert (answer.status_code, answer.text) == (nothing.status_code, nothing.text)
                assert answer.status_code in (403, 404)


@pytest.mark.parametrize("viewer", [name for name, (_, role) in PEOPLE.items() if role == "student"])
def test_students_see_names_only_in_a_class_with_open_names(board, viewer):
    of = PEOPLE[viewer][0]
    others = {name for name in PEOPLE if name != viewer} | {"Team Real Name"}
    for _, address in addresses(board):
        text = board["clients"][viewer].get(address).text
        assert not [name for name in others if name in text], address
    try:
        with board["app"].state.store.write() as session:
            session.query(fill.models.Class).filter_by(name=of).one().names_open = True
        text = board["clients"][viewer].get("/").text
        shown = {name for name, (theirs, _) in PEOPLE.items() if theirs == of and name not in TEAM}
        assert all(name in text for name in shown - {viewer})
        assert not [name for name, (theirs, _) in PEOPLE.items() if theirs != of and name in text]
        assert ("Team Real Name" in text) == (of == "one")
    finally:
        with board["app"].state.store.write() as session:
            session.query(fill.models.Class).filter_by(name=of).one().names_open = False


def test_staff_see_another_class_in_the_queue_by_pseudonyms(board):
    for name in ("Ida", "Olga"):
        text = board["clients"][name].get("/queue").text
        for other, (of, _) in PEOPLE.items():
            assert (other in text) == (of == PEOPLE[name][0])


def test_staff_see_names_beside_pseudonyms(board):
    text = board["clients"]["Ann"].get("/").text
    assert "pseudonym 0" in text and "Mallory" in text and "bold bats" in text and "Team Real Name" in text
    assert "Otto" not in text


def test_without_a_session_every_page_redirects_to_login(board):
    for _, address in addresses(board):
        answer = board["nobody"].get(address)
        assert answer.status_code == 303 and answer.headers["location"] == "/login"
        assert "SECRET" not in answer.text


@pytest.mark.parametrize("cookie", ["", "x", "x" * 5000, "é", "cookie of Eve'--", "\x00"])
def test_invalid_cookies_open_no_session(board, cookie):
    answer = board["nobody"].get("/mine", headers={"Cookie": f"board={cookie}".encode()})
    assert answer.status_code == 303


@pytest.mark.parametrize("start", ["-1", "x", "1e9", "99999999999999999999", "٣", "0x10", "%00"])
def test_invalid_numbers_in_a_url(board, start):
    answer = board["clients"]["Ida"].get(f"/submissions?start={start}")
    assert answer.status_code == 200
    assert board["clients"]["Ida"].get(f"/submissions?person={start}").status_code == 404


def test_files_and_logs_are_downloads(board):
    client, own = board["clients"]["Mallory"], board["submissions"]
    identifier = next(number for number, name in own.items() if name == "Mallory")
    for end in ("file", "log.txt"):
        headers = client.get(f"/submissions/{identifier}/{end}").headers
        assert (
            headers["content-disposition"].startswith("attachment") and "sandbox" in headers["content-security-policy"]
        )
        assert re.match(r"application/octet-stream|text/plain", headers["content-type"])


def test_code_read_by_staff_is_in_the_audit_log(board):
    identifier = next(number for number, name in board["submissions"].items() if name == "Mallory")
    board["clients"]["Ann"].get(f"/submissions/{identifier}/file")
    text = board["clients"]["Ida"].get("/class/audit").text
    assert re.search(rf"Ann</td><td class=\"word\">read code</td><td class=\"long\">{identifier}", text)
    assert identifier not in board["clients"]["Olga"].get("/class/audit").text


def test_only_the_pages_static_files_are_served(board):
    client = board["nobody"]
    version = re.search(r"/static/(\w+)/page.css", client.get("/login").text)[1]
    for name in ("page.css", "page.js", "icon.svg"):
        answer = client.get(f"/static/{version}/{name}")
        assert answer.status_code == 200 and "immutable" in answer.headers["cache-control"]
        assert client.get(f"/static/old/{name}").headers["cache-control"] == "no-cache"
    for name in ("routes.py", "..%2Froutes.py", "%2e%2e%2froutes.py", "page.css%00", "templates"):
        assert client.get(f"/static/{version}/{name}").status_code == 404
