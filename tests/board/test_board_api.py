"""The HTTP API: permissions, refusals and headers; property tests compare its responses with its own schema."""

import json
import re
import threading
import time
from datetime import timedelta

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from profiles import examples
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from sqlalchemy.exc import OperationalError

from fashion_infer.board import BoardSettings, service
from fashion_infer.board.store import queue
from fashion_infer.board.store.models import now

CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
ALL = ("Ann", "Bob", "Cid", "Ada", "Ina")


class Service:
    """The board's application on a kit's database, and short methods for requests to it."""

    def __init__(self, kit, data):
        self.kit, kit.now = kit, now()  # the service uses the real time
        kit.change(deadline=None)
        self.app = service.create_app(BoardSettings(data=data))
        self.app.state.store.close()
        self.app.state.store = kit.store
        self.client = TestClient(self.app, raise_server_exceptions=False)

    def ask(self, who, method, path, **options):
        """Send a request as a person, or without a token if `who` is None."""
        headers = {"Authorization": f"Bearer {self.kit.tokens[who]}"} if who else {}
        return self.client.request(method, f"/api/v1{path}", headers=headers, **options)

    def send(self, who, content, **query):
        return self.ask(who, "POST", "/submissions", params={"name": "k.cu", **query}, content=content)


@pytest.fixture
def board(kit, data):
    return Service(kit, data)


@pytest.fixture
def little(small, data):
    """The service with SQLite only."""
    return Service(small, data)


def test_an_acknowledged_submission_is_stored(board):
    answer = board.send("Ann", b"\0code")
    assert answer.status_code == 201 and answer.headers["location"] == f"/api/v1/submissions/{answer.json()['id']}"
    assert answer.json()["wait"]["place"] == 1
    with board.kit.store.read() as session:
        assert session.connection().exec_driver_sql("SELECT content FROM contents").scalar() == b"\0code"
    assert board.send("Ann", b"\0code").status_code == 200


@pytest.mark.parametrize("content, query, status", [
    (b"", {}, 422), (b"x" * 100, {}, 413), (b"x", {"name": ""}, 422), (b"x", {"key": "a b"}, 422),
    (b"x", {"class": "other"}, 403), (b"x", {"final": "perhaps"}, 422),
])  # fmt: skip
def test_a_refused_submission_is_not_stored(little, content, query, status):
    little.kit.change(most_bytes=50)
    answer = little.send("Ann", content, **query)
    assert answer.status_code == status, answer.text
    assert little.ask("Ann", "GET", "/submissions").json() == []


def test_a_body_without_length_is_read_up_to_the_limit(little):
    little.kit.change(most_bytes=100_000)
    assert little.send("Ann", (b"x" * 10_000 for _ in range(10_000))).status_code == 413
    said = little.ask("Ann", "POST", "/submissions", params={"name": "k"}, content=b"x")
    assert said.status_code == 201


class TestPermissions:
    @pytest.fixture
    def judged(self, board):
        found = board.send("Ann", b"ann's secret").json()["id"]
        verdict = {
            "printed": "a secret print",
            "rubric": {"show": {"printed": False, "times": False}},
            "times": [1],
            "op_time_ms": 1.0,
            "findings": [{"text": "t", "advice": "a"}],
        }
        board.kit.judge(1.5, verdict=json.dumps(verdict))
        return found

    @pytest.mark.parametrize("path", ["", "/log"])
    def test_a_submission(self, board, judged, path):
        codes = {who: board.ask(who, "GET", f"/submissions/{judged}{path}").status_code for who in ALL}
        assert codes == {"Ann": 200, "Bob": 404, "Cid": 404, "Ada": 200, "Ina": 200}
        assert board.ask(None, "GET", f"/submissions/{judged}{path}").status_code == 401
        none = board.ask("Bob", "GET", f"/submissions/{'2' * 12}{path}")
        assert none.json() == board.ask("Bob", "GET", f"/submissions/{judged}{path}").json()

    def test_cancel(self, board):
        one = board.send("Ann", b"to cancel").json()["id"]
        for who, code in (("Bob", 404), ("Ann", 200), ("Ann", 409)):
            assert board.ask(who, "POST", f"/submissions/{one}/cancel").status_code == code

    @pytest.mark.parametrize("allowed", [True, False])
    def test_what_the_compiler_says(self, board, allowed):
        one = board.send("Ann", b"slow").json()["id"]
        assert board.ask("Ann", "GET", f"/submissions/{one}").json()["verdict"] is None
        document = {"rubric": {"show": {"explain": allowed}}, "explain": [{"code": "alias"}]}
        board.kit.judge(1.5, verdict=json.dumps(document))
        answers = {who: board.ask(who, "GET", f"/submissions/{one}") for who in ALL}
        seen = {who for who, answer in answers.items() if "alias" in answer.text}
        assert seen == ({"Ann", "Ada", "Ina"} if allowed else {"Ada", "Ina"})

    def test_names_in_the_ranking(self, board, judged):
        shown = {who: board.ask(who, "GET", "/ranking").json()[0] for who in ALL}
        assert shown["Ann"]["name"] == "Ann" and shown["Ann"]["own"] and shown["Ann"]["submission_id"]
        assert shown["Ina"]["name"] == shown["Ada"]["name"] == "Ann" and not shown["Ina"]["own"]
        assert shown["Bob"]["name"] != "Ann" and shown["Bob"]["submission_id"] is None
        assert "Ann" not in board.ask("Bob", "GET", "/ranking").text
        board.kit.change(names_open=True)
        shown = board.ask("Bob", "GET", "/ranking").json()[0]
        assert shown["name"] == "Ann" and shown["submission_id"] is None


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic x", "Bearer fib_x_y", "bearer \u00e9", "Bearer " + "x" * 9000]
)
def test_requests_without_a_valid_token_are_refused(little, header):
    for path in ("/me", "/ranking", "/submissions", "/submissions/abc", "/submissions/abc/log"):
        answer = little.client.get(f"/api/v1{path}", headers={"Authorization": header.encode()})
        assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer", path
    answer = little.client.post("/api/v1/submissions?name=x", content=b"x", headers={"Authorization": header.encode()})
    assert answer.status_code == 401


def test_responses_have_the_security_headers(little):
    for path in ("/api/v1/me", "/healthz", "/nowhere", "/api/v1/openapi.json"):
        headers = little.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_health(little):
    assert little.client.get("/healthz").json()["status"] == "ok"
    with little.kit.store.write() as session:
        queue.state_of(session, "cpu").seen_at = now() - timedelta(minutes=2)
    answer = little.client.get("/healthz")
    assert (answer.status_code, answer.json()["silent_dispatchers"]) == (503, ["cpu"])


def test_health_if_no_dispatcher_starts(little, monkeypatch):
    state = little.client.app.state
    assert little.client.get("/healthz").status_code == 200
    monkeypatch.setattr(state, "began", state.began - 120)
    answer = little.client.get("/healthz")
    assert (answer.status_code, answer.json()["silent_dispatchers"]) == (503, ["all"])


def test_a_failed_database_is_503_without_internal_details(little, monkeypatch):
    def away(*arguments, **options):
        raise OperationalError("SELECT secret", {}, Exception("host db.internal refused"))

    monkeypatch.setattr(little.kit.store, "read", away)
    answer = little.ask("Ann", "GET", "/me")
    assert answer.status_code == 503 and answer.headers["retry-after"]
    assert "secret" not in answer.text and "internal" not in answer.text


def test_a_request_for_a_log_waits_for_the_next_line(little):
    one = little.send("Ann", b"x").json()["id"]
    first = little.ask("Ann", "GET", f"/submissions/{one}/log").json()
    last = first["lines"][-1]["number"]

    def write():
        time.sleep(0.4)
        with little.kit.store.write() as session:
            queue.log(session, one, ["a line"])

    threading.Thread(target=write).start()
    found = little.ask("Ann", "GET", f"/submissions/{one}/log", params={"after": last, "wait": 20}).json()
    assert [line["text"] for line in found["lines"]] == ["a line"] and not found["ended"]
    assert little.ask("Ann", "GET", f"/submissions/{one}/log", params={"after": 10**6, "wait": 0}).json()["lines"] == []


def test_every_endpoint_of_the_schema_needs_a_token(little):
    schema = little.client.get("/api/v1/openapi.json").json()
    for path, methods in schema["paths"].items():
        for method, what in methods.items():
            if path.startswith("/api/"):
                assert what["security"], (path, method)
                found = re.sub(r"\{\w+\}", "abc", path)
                assert little.client.request(method, f"{found}?name=x").status_code == 401, path


@pytest.fixture
def schema(little):
    """The API's schema with only the endpoints that a person's token may use."""
    little.kit.change(most_pending=10**6, most_an_hour=10**6, most_bytes=1000)
    for number in range(3):
        little.send("Ann", f"{number}".encode())
    little.kit.judge()
    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", little.app)


def test_responses_conform_to_the_schema(schema, little):
    tried = set()
    for found in schema.get_all_operations():
        operation = found.ok()
        if not operation.path.startswith("/api/"):
            continue
        tried.add((operation.method, operation.path))

        @given(case=operation.as_strategy())
        @settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
        def holds(case):
            case.headers = {**dict(case.headers or {}), "Authorization": f"Bearer {little.kit.tokens['Ann']}"}
            if case.query and "wait" in case.query:
                case.query["wait"] = 0
            case.validate_response(case.call(), checks=CHECKS)

        holds()
    assert len(tried) == 7
