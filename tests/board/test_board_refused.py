"""Requests that are not signed in leave only a bounded amount of data on the board, however many are sent."""

import contextlib
import logging
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import filled_board as fill
import pytest
import requests
import uvicorn
from sqlalchemy import func, select

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient

from fashion_infer.board import BoardSettings, connections, logs
from fashion_infer.board.service import create_app
from fashion_infer.board.store import audit, people, sessions
from fashion_infer.board.store.audit import A_MINUTE, RefusedSignIns, SignInAttempt, network_of
from fashion_infer.board.store.models import AuditEntry, Base, WebSession


class Clock:
    """A clock that advances only when the test sets it."""

    now = 0.0

    def __call__(self):
        return self.now


def refusals(store):
    """Return (actor, address, number of times) of each entry about refused sign-ins in the audit log."""
    with store.read() as session:
        rows = session.execute(
            select(AuditEntry.actor, AuditEntry.address, AuditEntry.times)
            .where(AuditEntry.action == "sign in refused")
            .order_by(AuditEntry.id)
        )
        return [tuple(row) for row in rows]


class TestCountedRefusals:
    def test_refusals_of_an_address_share_one_row_per_day(self, kit):
        for day in range(2):
            for _ in range(3):
                with kit.store.write() as session:
                    audit.count(
                        session, "somebody", "sign in refused", 5, None, "192.0.2.1", at=kit.now + timedelta(days=day)
                    )
        assert refusals(kit.store) == [("somebody", "192.0.2.1", 15)] * 2

    def test_addresses_above_the_daily_limit_share_one_row(self, kit):
        with kit.store.write() as session:
            for number in range(audit.MOST_A_DAY + 50):
                audit.count(session, "somebody", "sign in refused", 1, None, f"10.0.{number // 250}.{number % 250}")
        found = refusals(kit.store)
        assert len(found) == audit.MOST_A_DAY + 1 and found[-1] == ("somebody", "", 50)
        with kit.store.write() as session:  # other actions are counted separately
            audit.count(session, "Ann", "refused", 1, kit.class_id, "10.0.0.1", "/class")
        assert len(refusals(kit.store)) == audit.MOST_A_DAY + 1

    def test_a_class_sees_its_own_entries_and_those_of_no_class(self, small):
        with small.store.write() as session:
            other = people.new_class(session, "d", "fa2017", "cpu", "")
            for class_id in (small.class_id, other.id, None):
                for actor in ("Bob", "Ann", "Bob"):
                    audit.count(session, actor, "sign in refused", 1, class_id, "10.0.0.1")
            found = [audit.entries(session, of) for of in (small.of_class(session), other)]
        for of, entries in zip((small.class_id, other.id), found):
            counted = [(one.class_id, one.actor, one.times) for one in entries if one.action == "sign in refused"]
            assert counted == [(None, "Ann", 1), (None, "Bob", 2), (of, "Ann", 1), (of, "Bob", 2)]

    def test_many_refusals_are_written_in_few_transactions(self, kit, monkeypatch):
        clock, writes, write = Clock(), [], kit.store.write
        monkeypatch.setattr(kit.store, "write", lambda: writes.append(1) or write())
        refused = RefusedSignIns(kit.store, clock)
        for number in range(5000):
            clock.now = number / 50  # 50 refusals per second, for 100 s
            refused.add(SignInAttempt(f"10.{number % 7}.0.1"))
        assert len(writes) <= 20
        refused.write()
        assert sum(times for _, _, times in refusals(kit.store)) == 5000 and len(refusals(kit.store)) == 7

    def test_from_many_threads(self, kit):
        refused = RefusedSignIns(kit.store, Clock())
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: refused.add(SignInAttempt("10.0.0.1")), range(1600)))
        refused.write()
        assert sum(times for _, _, times in refusals(kit.store)) == 1600

    def test_attempts_per_minute_are_limited_by_address_and_by_person(self, small):
        clock = Clock()
        refused = RefusedSignIns(small.store, clock)
        assert [refused.add(SignInAttempt("10.0.0.1")) for _ in range(A_MINUTE + 1)] == [None] * A_MINUTE + [60]
        assert refused.add(SignInAttempt("10.0.0.2")) is None
        clock.now = 45.0
        assert refused.add(SignInAttempt("10.0.0.1")) == 15
        clock.now = 61.0
        # Many addresses try to sign in as one person.
        tries = [SignInAttempt(f"10.0.1.{number}", "Ann", small.class_id) for number in range(A_MINUTE + 1)]
        found = [refused.add(one) for one in tries]
        assert found == [None] * A_MINUTE + [59]
        assert refused.add(SignInAttempt("10.0.2.1", "Bob", small.class_id)) is None

    @pytest.mark.parametrize("address, found", [
        ("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("", ""), ("testclient", "testclient"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"), ("2001:db8:1:2::", "2001:db8:1:2::/64"),
    ])  # fmt: skip
    def test_which_addresses_are_counted_as_one(self, address, found):
        assert network_of(address) == found


@pytest.fixture
def app(data):
    """A board with Ann, a student, and Ida, an instructor."""
    made = create_app(BoardSettings(data=data))
    with made.state.store.write() as session:
        of = fill.a_class(session, "one")
        fill.person(session, of, "Ann", "student")
        fill.person(session, of, "Ida", "instructor")
    yield made
    made.state.store.close()


def sign_in(app, token):
    client = TestClient(app, follow_redirects=False)
    return client, fill.enter(client, token)


def rows(app):
    with app.state.store.read() as session:
        return {
            table.name: session.scalar(select(func.count()).select_from(table)) for table in Base.metadata.sorted_tables
        }


def test_invalid_tokens_are_limited_but_a_valid_one_works(app):
    """All requests come from the same address, as on a campus, within one minute of the service's clock."""
    app.state.refused = RefusedSignIns(app.state.store, Clock())
    token = fill.new_token(app, "Ann")
    wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
    codes = [sign_in(app, wrong)[1] for _ in range(A_MINUTE + 2)]
    assert codes[0].status_code == 401 and codes[-1].status_code == 429
    assert 0 < int(codes[-1].headers["retry-after"]) <= 60 and "try again in" in codes[-1].text
    client, answer = sign_in(app, token)
    assert answer.status_code == 303 and client.get("/mine").status_code == 200


def test_an_instructor_sees_refused_sign_ins(app):
    token = fill.new_token(app, "Ann")
    for wrong in (token[:-64] + "0" * 64, *["nonsense"] * 3):
        sign_in(app, wrong)
    client, _ = sign_in(app, fill.new_token(app, "Ida"))
    text = client.get("/class/audit").text
    assert re.search(r">Ann</td><td[^>]*>sign in refused</td>", text)
    assert re.search(r">somebody</td><td[^>]*>sign in refused \(3 times that day\)</td>", text)


def test_requests_without_a_session_add_no_rows(app):
    client = TestClient(app, follow_redirects=False, raise_server_exceptions=False)
    before, asked = rows(app), 0

    def every(routes, prefix=""):
        for route in routes:
            inner = getattr(route, "original_router", None)
            if inner is not None:
                yield from every(inner.routes, prefix + (getattr(route.include_context, "prefix", "") or ""))
            elif hasattr(route, "methods"):
                yield prefix + route.path, route.methods

    for path, methods in every(app.router.routes):
        for method in methods - {"HEAD", "OPTIONS"}:
            for token in ("", "fib_" + "0" * 16 + "_" + "0" * 64):
                asked += 1
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                address = re.sub(r"{\w+}", "1", path)
                for body in ({"data": {"csrf": "x", "token": token}}, {"content": b"kernel"}):
                    client.request(method, address, headers=headers, params={"name": "k.cu"}, **body)
    assert asked > 40
    assert rows(app) == before


def test_the_sessions_of_a_person_are_limited(app):
    token, first = fill.new_token(app, "Ann"), None
    for _ in range(sessions.MOST + 5):
        client, _ = sign_in(app, token)
        first = first or client
    with app.state.store.read() as session:
        assert session.scalar(select(func.count()).select_from(WebSession)) == sessions.MOST
    assert client.get("/mine").status_code == 200 and first.get("/mine").status_code == 303


@pytest.fixture
def served(small, data, monkeypatch):
    """The port and the log of a service, in a thread, whose requests have half a second before they time out."""
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    app = create_app(BoardSettings(data=data))
    config = uvicorn.Config(app, port=0, log_config=None, access_log=False, http=connections.LimitedProtocol)
    listening = connections.LimitedSocket.of(config.bind_socket(), None)
    service = uvicorn.Server(config)
    records, handler = [], logging.Handler()
    handler.emit = records.append
    thread = threading.Thread(target=service.run, args=([listening],), daemon=True)
    logging.getLogger().addHandler(handler)
    thread.start()
    while not service.started:
        time.sleep(0.01)
    records.clear()
    yield listening.getsockname()[1], records
    logging.getLogger().removeHandler(handler)
    service.should_exit = True
    thread.join(10)
    app.state.store.close()


class FromElsewhere(requests.adapters.HTTPAdapter):
    """Connects from another address of this machine."""

    def init_poolmanager(self, *given, **named):
        super().init_poolmanager(*given, source_address=("127.0.0.2", 0), **named)


POST = b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"


@pytest.mark.parametrize("sent", [
    b"", b"GET /login HTTP/1.1\r\n", POST + b"Content-Length: 9\r\n\r\na=",
    POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\na=\r\n",
])  # fmt: skip
@pytest.mark.parametrize("drip", [False, True])
def test_an_incomplete_request_is_closed(served, sent, drip):
    port, records = served
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(sent)
        connection.settimeout(0.1 if drip else 20)
        received = None
        while received != b"" and time.monotonic() < begin + 20:
            try:
                received = connection.recv(1000)
            except TimeoutError:
                if sent:
                    with contextlib.suppress(OSError):
                        connection.sendall(b"a")
            except OSError:
                received = b""
    assert received == b"" and time.monotonic() < begin + 20 and len(records) <= 1


def test_half_open_connections_of_one_address_leave_the_board_responsive(served, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 60)
    port, records = served
    with contextlib.ExitStack() as opened:
        for _ in range(2000):
            one = opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            with contextlib.suppress(OSError):
                one.sendall(b"GET /login HTTP/1.1\r\n")
        elsewhere = requests.Session()
        elsewhere.mount("http://", FromElsewhere())
        url = f"http://127.0.0.1:{port}"
        assert elsewhere.get(f"{url}/healthz", timeout=30).status_code < 500
        assert elsewhere.post(f"{url}/login", data={"token": "no"}, timeout=30).status_code < 500
        elsewhere.close()
    kinds = {record.getMessage() for record in records}
    assert kinds <= {"a connection was refused: too many are open"}


def test_a_proxys_connections_are_limited_in_all_only(monkeypatch):
    monkeypatch.setattr(connections, "MOST", 20)
    for proxies, most in ((None, 10), ("127.0.0.0/8", 20)):
        with contextlib.ExitStack() as opened:
            plain = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
            listening = opened.enter_context(connections.LimitedSocket.of(plain, proxies))
            for _ in range(30):
                opened.enter_context(socket.create_connection(listening.getsockname()))
            accepted = []
            with contextlib.suppress(BlockingIOError):
                while True:
                    accepted.append(opened.enter_context(listening.accept()[0]))
            assert len(accepted) == most
            accepted.pop().close()
            opened.enter_context(socket.create_connection(listening.getsockname()))
            opened.enter_context(listening.accept()[0])


def test_few_lines_of_a_kind_are_logged_per_minute():
    few = logs.FewLines()
    made = [logging.LogRecord("x", logging.WARNING, "", 0, "refused %s", (number,), None) for number in range(500)]
    assert sum(map(few.filter, made)) <= 60
    assert few.filter(logging.LogRecord("x", logging.INFO, "", 0, "serving", (), None))


def test_a_complete_request_may_wait_longer(served, small):
    small.change(deadline=None)
    one = small.submit("Ann")
    port, _ = served
    head = {"Authorization": f"Bearer {small.tokens['Ann']}"}
    url = f"http://127.0.0.1:{port}/api/v1/submissions/{one}/log"
    with requests.Session() as session:
        last = session.get(url, headers=head).json()["lines"][-1]["number"]
        for _ in range(2):  # on one connection
            answer = session.get(url, headers=head, params={"after": last, "wait": 1.5}, timeout=30)
            assert answer.status_code == 200 and answer.json()["lines"] == []


def test_invalid_requests_log_at_most_one_line_each(served):
    port, records = served
    requests_ = [
        b"\0\xff\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /api/v1/me HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /submissions/x HTTP/1.1\r\nHost: x\r\nCookie: board=\xff\r\n\r\n",
        POST + b"Content-Length: 3\r\n\r\n%%%",
        b"GET /" + b"a" * 100_000,
        POST + b"Content-Length: 99999999\r\n\r\na",
        POST + b"Content-Length: 9\r\n\r\na",
        b"GET /login HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"POST /submit HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
    ]
    for request in requests_:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection, contextlib.suppress(OSError):
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1000):
                pass
    assert len(records) <= len(requests_)
    lines = [logs.JsonLines().format(record) for record in records]
    assert not [line for line in lines if "\n" in line or "exception" in line], lines
