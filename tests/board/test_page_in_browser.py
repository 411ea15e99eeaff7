"""The board's pages in headless Chromium. The tests are skipped without Chromium or playwright."""

import re
import threading
import time

import filled_board as fill
import pytest
from chromium import LOW_CONTRAST

pytest.importorskip("fastapi")
pytestmark = pytest.mark.slow

STUDENT, STAFF = "student001", "Ada Instructor"
PAGES = {
    STUDENT: ("/", "/mine", "/queue", "DONE", "RUNS"),
    STAFF: ("/", "/submissions", "/people", "/class", "/class/audit", "WRONG"),
}


class Board:
    """A board's service with a filled class, on a free port, in a thread."""

    def __init__(self, folder):
        import uvicorn

        from fashion_infer.board import BoardSettings
        from fashion_infer.board.service import create_app

        self.app = create_app(BoardSettings(data=str(folder)))
        self.store = self.app.state.store
        self.tokens = fill.semester(self.store, 12, 4, 3)
        self.cookies = {name: fill.sign_in(self.store, name)[0] for name in PAGES}
        self.server = uvicorn.Server(uvicorn.Config(self.app, port=0, log_level="error"))
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{self.server.servers[0].sockets[0].getsockname()[1]}"
        with self.store.read() as session:
            student = session.query(fill.models.Person).filter_by(name=STUDENT).one()
            own = session.query(fill.models.SubmissionRow).filter_by(person_id=student.id)
            self.paths = {
                path: f"/submissions/{own.filter_by(status=status).first().id}"
                for path, status in (("DONE", "judged"), ("RUNS", "running"))
            }
            wrong = session.query(fill.models.Judgement).filter_by(status="incorrect").first()
            self.paths["WRONG"] = f"/submissions/{wrong.submission_id}"

    def stop(self):
        self.server.should_exit = True
        self.thread.join(10)


@pytest.fixture(scope="module")
def board(browser, tmp_path_factory):
    served = Board(tmp_path_factory.mktemp("board"))
    yield served
    served.stop()


@pytest.fixture
def opened(new_page, board):
    """A function that opens a page, signed in as a person."""

    def open_(name=None, width=1000, scheme="light", **options):
        page = new_page(width, scheme, **options)
        if name:
            page.context.add_cookies([{"name": "board", "value": board.cookies[name], "url": board.url}])
        page.go = lambda path: page.goto(board.url + board.paths.get(path, path), wait_until="load")
        return page

    return open_


@pytest.mark.parametrize("scheme, low, high", [("light", 200, 255), ("dark", 0, 60)])
@pytest.mark.parametrize("name", PAGES)
def test_pages_load_without_errors_and_are_readable(opened, board, name, scheme, low, high):
    page = opened(name, scheme=scheme)
    for path in PAGES[name]:
        page.go(path)
        back = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert all(low <= part <= high for part in back), path
        assert page.evaluate(LOW_CONTRAST) == [], path
    assert page.said == []
    assert {url.split("/", 3)[2] for url in page.asked} == {board.url.split("/")[2]}


@pytest.mark.parametrize("width", [390, 768, 1920])
def test_no_page_scrolls_sideways(opened, width):
    """No table scrolls either, except on the pages of submissions, where verdicts have wide tables."""
    for name, paths in PAGES.items():
        page = opened(name, width, "dark", is_mobile=width < 500, has_touch=width < 500)
        for path in paths:
            page.go(path)
            assert page.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [width, width], path
            wide = page.locator(".wide").evaluate_all("boxes => boxes.map(box => box.scrollWidth > box.clientWidth)")
            assert path.isupper() or not any(wide), path
        page.go("/")
        chart = page.locator(".plot img")
        chart.evaluate("image => image.decode()")
        assert chart.evaluate("image => image.currentSrc").endswith("width=narrow") == (width <= 640)
        # The chart's small text is 8 pt. At the chart's natural size a pixel is 0.75 pt.
        assert 8 / 0.75 * chart.evaluate("image => image.clientWidth / image.naturalWidth") >= 9  # pixels
    page = opened(None, width, is_mobile=width < 500)
    page.go("/login")
    assert page.evaluate("[document.body.scrollWidth, document.documentElement.scrollHeight]") == [width, 800]


def test_axe_finds_no_violation(opened):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for name, paths in {**PAGES, None: ("/login",)}.items():
        page = opened(name, 390, "dark")
        for path in paths:
            page.go(path)
            broken = axe.run(page).response["violations"]
            assert [(rule["id"], node["html"]) for rule in broken for node in rule["nodes"]] == [], path


def test_a_file_is_dropped_and_submitted(opened, board):
    page = opened(STUDENT)
    page.go("/mine")
    drop = """form => {
      const moved = new DataTransfer();
      moved.items.add(new File(["// dropped"], "dropped.cu"));
      const event = kind => new DragEvent(kind, { dataTransfer: moved, bubbles: true, cancelable: true });
      return [event("dragover"), event("drop")].map(one => form.querySelector("button").dispatchEvent(one));
    }"""  # dispatchEvent returns false if the page takes the file, so that the browser does not open it
    assert page.locator(".upload").evaluate(drop) == [False, False]
    page.get_by_role("button", name="Test", exact=True).click()
    page.wait_for_url(re.compile(r"/submissions/\w+$"))
    assert "dropped.cu" in page.locator("h1").inner_text()
    with board.store.read() as session:
        found = session.query(fill.models.SubmissionRow).filter_by(name="dropped.cu").one()
        assert found.person.name == STUDENT and found.test


def test_times_are_shown_in_the_browsers_zone(opened, board):
    page = opened(STAFF, timezone_id="Asia/Tokyo")
    page.go("/login")  # the first page of a session, whose script stores the zone
    page.go("/")
    assert page.locator(".lead time").inner_text().endswith(" JST")


def test_sign_in_and_cancel_by_keyboard_without_javascript(opened, board):
    page = opened(java_script_enabled=False)
    page.go("/mine")
    assert page.url.endswith("/login")
    page.locator("#token").focus()
    page.keyboard.type(board.tokens[STUDENT])
    page.keyboard.press("Enter")
    page.wait_for_url(board.url + "/")
    assert page.locator("tr.you").count() == 1
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to the content" and page.locator(":focus").is_visible()
    with board.store.write() as session:
        student = session.query(fill.models.Person).filter_by(name=STUDENT).one()
        waits = fill.waits(session, student, 9).id
    time.sleep(1.1)  # longer than the service caches the queue
    page.go(f"/submissions/{waits}")
    assert "in the queue" in page.locator(".note").inner_text()
    page.locator("button.danger").focus()
    page.keyboard.press("Enter")
    page.locator("h1 .state", has_text="cancelled").wait_for()
    page.get_by_role("button", name="Sign out").click()
    assert page.url.endswith("/login")
    page.go("/mine")
    assert page.url.endswith("/login") and page.context.cookies() != []


def test_the_focus_is_visible(opened):
    page = opened(STUDENT)
    page.go("/")
    for _ in range(6):
        page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        assert page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2


def test_a_waiting_page_updates_when_the_verdict_arrives(opened, board):
    with board.store.write() as session:
        student = session.query(fill.models.Person).filter_by(name=STUDENT).one()
        waits = fill.waits(session, student, 9, state="running").id
    page = opened(STUDENT)
    page.go(f"/submissions/{waits}")
    assert page.locator("h1 .state").inner_text() == "running"
    with board.store.write() as session:
        session.get(fill.models.SubmissionRow, waits).status = "refused"
        session.query(fill.models.JobRow).filter_by(submission_id=waits).one().state = "done"
        session.add(
            fill.models.Judgement(
                submission_id=waits, purpose="first", status="refused", reason="expected ;", started_at=fill.NOW
            )
        )
    page.locator("h1 .state.bad").wait_for(timeout=8000)
    assert "expected ;" in page.locator("main").inner_text() and page.said == []


def test_hostile_text_is_shown_and_does_not_run(opened, board):
    text = "</pre><img src=x onerror=alert(1)><script>alert(2)</script>\u202e<b>"
    with board.store.write() as session:
        student = session.query(fill.models.Person).filter_by(name=STUDENT).one()
        document = fill.verdict(5000.0, [fill.finding(text, text)], text)
        one = fill.judged(session, student, 5000.0, ranked=False, name=text, document=document, log=[text]).id
    for name in (STUDENT, STAFF):
        page = opened(name)
        for path in (f"/submissions/{one}", "/mine" if name == STUDENT else "/submissions"):
            page.go(path)
            assert page.locator("main img, main script, main b").count() == 0
            assert "onerror=alert(1)" in page.locator("main").inner_text()
        assert page.said == []
