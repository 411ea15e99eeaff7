"""A running board: command line, graders, dispatcher, Ray and sandbox, also with injected faults."""

import importlib.util
import json
import os
import random
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import board_faults
import board_trial
import psutil
import pytest
import requests
from attacks.verdicts import ATTACKS
from profiles import drawn, pick
from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError

from fashion_infer import board
from fashion_infer.board import BoardSettings, credentials, server, verdicts
from fashion_infer.board.client import Client
from fashion_infer.board.queue import graders
from fashion_infer.board.queue.dispatcher import Dispatcher
from fashion_infer.board.queue.graders import LocalGraders
from fashion_infer.board.store import people, queue
from fashion_infer.board.store.expectation import expected, slots_of
from fashion_infer.board.store.models import JobRow, Judgement, LogLine, QueueRow, SubmissionRow
from fashion_infer.board.store.queue import Claimed
from fashion_infer.board.upload import packed
from fashion_infer.errors import DeviceError, UsageError
from fashion_infer.grading.sandbox import available
from fashion_infer.system import installation

HONEST = Path(board.__file__).parents[1] / "kernel_files" / "templates" / "conv.cpp"


def claimed(content, name="k.cu", rubric="", backend="cpu", purpose="first"):
    """Return a claimed job, as the dispatcher gives it to a grader."""
    return Claimed("a.lease", "s", purpose, backend, rubric, name, content)


class TestGraderProcess:
    def test_a_grader_yields_log_lines_and_an_outcome(self):
        *lines, last = graders.run(claimed(b"ms=2.5"), board_trial.FAKE)
        assert [event.kind for event in lines] == ["log", "log"] and lines[1].text.endswith("judging k.cu")
        assert (last.kind, last.outcome.status) == ("outcome", "judged")
        assert (last.outcome.op_ms, last.outcome.ranked) == (2.5, True)

    @pytest.mark.parametrize("content, kind, status", [
        (b"refuse", "outcome", "refused"), (b"fail", "unable", "failed"), (b"crash", "unable", "failed"),
        (b"ms=inf", "unable", "failed"), (b"ms=nan", "unable", "failed"),  # infinity and NaN are not valid times
    ])  # fmt: skip
    def test_refused_and_failed_submissions(self, content, kind, status):
        *_, last = graders.run(claimed(content), board_trial.FAKE)
        assert (last.kind, last.outcome.status) == (kind, status) and last.text

    @pytest.mark.slow
    @pytest.mark.skipif(not available().isolated, reason="no sandbox")
    def test_the_real_grader_times_a_test_once_and_explains_it(self):
        """A test shows what the compiler says, although the rubric does not, and has one run, although it wants two."""
        rubric = (ATTACKS / "rubric.toml").read_text().replace("runs = 1", "runs = 2")
        *_, last = graders.run(claimed(HONEST.read_bytes(), "conv.cpp", rubric, purpose="test"))
        verdict = json.loads(last.outcome.verdict)
        assert (last.outcome.status, last.outcome.points) == ("judged", 100)
        assert len({sample["run"] for sample in verdict["samples"] if sample["timed"]}) == 1
        (found,) = verdicts.explained(verdict)
        assert "conv.cpp:" in found.text and found.source in HONEST.read_text()

    def test_a_grader_that_hangs_is_ended(self):
        begin = time.monotonic()
        *_, last = graders.run(claimed(b"seconds=60"), board_trial.FAKE, longest=0.5)
        assert time.monotonic() - begin < 20 and last.kind == "unable"

    def test_a_missing_grader_program(self):
        *_, last = graders.run(claimed(b"x"), "/no/such/program")
        assert last.kind == "unable" and last.outcome.status == "failed"

    def test_a_grader_is_killed_when_its_parent_is(self, tmp_path):
        code = (
            "import subprocess, time; from fashion_infer.board.queue import lifeline; "
            "print(lifeline.start(['sleep', '60']).pid, flush=True); time.sleep(60)"
        )
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
            child = int(parent.stdout.readline())
            time.sleep(0.5)
            parent.kill()
        end = time.monotonic() + 10
        while time.monotonic() < end and Path(f"/proc/{child}").exists() and "Z" not in state(child):
            time.sleep(0.05)
        assert not Path(f"/proc/{child}").exists() or "Z" in state(child)


def state(process):
    """Return the state of a process, which is "Z" if the process has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


class TestDispatcher:
    @pytest.fixture
    def dispatcher(self, small):
        small.change(deadline=None)
        return Dispatcher(small.store, LocalGraders(board_trial.FAKE, 2), "me")

    def run_until_empty(self, small, dispatcher, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            dispatcher.step()
            with small.store.read() as session:
                if not session.scalar(select(JobRow.id).where(JobRow.state.in_(("queued", "running"))).limit(1)):
                    return
            time.sleep(0.02)
        raise AssertionError("the queue does not run dry")

    def test_each_outcome_sets_the_submissions_status(self, small, dispatcher):
        wanted = {"judge": "judged", "wrong": "incorrect", "refuse": "refused", "fail": "failed", "crash": "failed"}
        ids = {end: small.submit("Ann", f"{end} {n}".encode()) for n, end in enumerate(wanted)}
        self.run_until_empty(small, dispatcher)
        assert {end: small.status(one) for end, one in ids.items()} == wanted
        with small.store.read() as session:
            assert session.scalar(select(func.count()).select_from(Judgement)) == 5
            lines = session.scalars(select(LogLine.text).where(LogLine.submission_id == ids["fail"])).all()
            assert sum("again" in line for line in lines) == 2

    def test_without_graders_no_wait_is_expected(self, small, dispatcher):
        """A backend has no graders before the dispatcher's first report, and after it if its number of graders is 0."""
        one = small.submit("Ann", b"x")
        with small.store.read() as session:
            assert expected(session, session.get_one(SubmissionRow, one)).start_in is None
        dispatcher.step()
        with small.store.read() as session:
            assert slots_of(session, "cpu") == 2 and slots_of(session, "gpu") == 0
            assert {state.backend for state in session.scalars(select(QueueRow))} == {"cpu", "gpu"}

    def test_a_cancelled_grader_ends_and_frees_its_slot(self, small):
        small.change(deadline=None)
        dispatcher = Dispatcher(small.store, LocalGraders(board_trial.FAKE, 1), "me")
        this, ends = psutil.Process(), time.monotonic() + 60
        before = set(this.children(recursive=True))
        for number in range(3):
            one = small.submit("Ann", b"seconds=600 %d" % number)
            while not (running := set(this.children(recursive=True)) - before) or small.status(one) != "running":
                assert time.monotonic() < ends
                dispatcher.step()
            assert len(running) == 1
            with small.store.write() as session:
                assert queue.cancel(session, session.get_one(SubmissionRow, one), "Ann")
            while any(state(process.pid) != "Z" for process in running):
                assert time.monotonic() < ends
                dispatcher._kept = 0.0  # so that the next step checks the leases again
                dispatcher.step()
        last = small.submit("Ann", b"ms=1")
        self.run_until_empty(small, dispatcher)
        assert small.status(last) == "judged"

    def test_a_job_stopped_before_its_start_does_not_run(self):
        graders = LocalGraders(board_trial.FAKE, 1)
        job = claimed(b"seconds=600")
        graders.stop(job.lease)
        graders.start(job)
        end = time.monotonic() + 30
        while not any(event.kind != "log" for _, event in graders.new_messages()):
            assert time.monotonic() < end
            time.sleep(0.02)

    def test_the_dispatcher_retries_after_database_errors(self, small, dispatcher, monkeypatch):
        one, fails, write = small.submit("Ann", b"x"), [3], small.store.write

        def failing():
            if fails[0]:
                fails[0] -= 1
                raise OperationalError("x", {}, Exception("gone"))
            return write()

        monkeypatch.setattr(small.store, "write", failing)
        monkeypatch.setattr(time, "sleep", lambda seconds, sleep=time.sleep: sleep(min(seconds, 0.02)))
        dispatcher.run(lambda: small.status(one) != "judged")
        assert small.status(one) == "judged"


@pytest.fixture
def own_home(monkeypatch, tmp_path):
    """A temporary folder. The client saves its tokens below it, because XDG_CONFIG_HOME points there."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in (credentials.URL, credentials.TOKEN):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


class TestClient:
    @pytest.mark.parametrize("url", ["ftp://x", "board.example", "http://", "http://board.example:8408"])
    def test_urls_that_are_refused(self, url):
        with pytest.raises(UsageError):
            Client(url, "t")

    def test_tokens_are_saved_per_board_for_the_user_only(self, own_home):
        path = credentials.remember("https://b.example/", "t1")
        assert path.stat().st_mode & 0o777 == 0o600
        there = ("https://b.example", "t1", None)
        assert credentials.known(None) == there == credentials.known("https://b.example")
        credentials.remember("https://c.example", "t2")
        assert credentials.known(None).token == "t2" and credentials.known("https://b.example/").token == "t1"
        with pytest.raises(UsageError):
            credentials.known("https://d.example")

    def test_packing_does_not_depend_on_file_times(self, tmp_path):
        for name in ("a", "b"):
            (tmp_path / name / "team").mkdir(parents=True)
            for file in ("conv.cpp", "x.h", ".secret"):
                (tmp_path / name / "team" / file).write_text(file)
                os.utime(tmp_path / name / "team" / file, (1e9 + ord(name), 1e9))
        one, two = packed(str(tmp_path / "a" / "team")), packed(str(tmp_path / "b" / "team"))
        assert one == two and one.name == "team.zip" and b"secret" not in one.content
        (tmp_path / "a" / "k.cpp").write_text('#include "other.h"')
        assert packed(str(tmp_path / "a" / "k.cpp")) == ("k.cpp", b'#include "other.h"')
        (tmp_path / "a" / "other.h").write_text("int x;")
        assert packed(str(tmp_path / "a" / "k.cpp")).name == "k.zip"


def test_without_the_extra_one_line_says_what_to_do(monkeypatch, invoke, tmp_path):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "fastapi" else found(name, *a))
    for words in (("serve",), ("class", "list"), ("export",)):
        code, out, err = invoke("board", *words, "--data", str(tmp_path / "none"))
        assert (code, out) == (4, "")
        assert installation.extra("board") in err and err.count("\n") == 1
    assert not (tmp_path / "none").exists()


def test_without_ray_a_board_runs_with_ray_off(monkeypatch, invoke, tmp_path):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "ray" else found(name, *a))
    code, out, err = invoke("board", "serve", "--data", str(tmp_path / "none"))
    assert (code, out) == (4, "") and "--ray off" in err and err.count("\n") == 1
    monkeypatch.setattr(server, "serve", lambda settings, notice: None)
    assert invoke("board", "serve", "--ray", "off", "--data", str(tmp_path / "none"))[0] == 0
    assert invoke("board", "class", "new", "x", "--data", str(tmp_path / "some"))[0] == 0


def test_an_older_python_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    with pytest.raises(DeviceError):
        board.require()


@pytest.mark.parametrize("settings", [BoardSettings(host="0.0.0.0"), BoardSettings(certificate="x")])
def test_unsafe_settings_are_refused(settings):
    with pytest.raises(UsageError):
        server.serve(settings)


@pytest.mark.parametrize("words", [
    ("class", "new", "x", "--deadline", "2026-12-05T23:59"), ("class", "set", "none", "--most-pending", "2"),
    ("finalise",), ("restore", "/no/such"),
])  # fmt: skip
def test_mistakes_are_one_line(words, invoke, data):
    code, out, err = invoke("board", *words, "--data", data)
    assert code in (2, 3) and err.count("\n") == 1 and not out


@pytest.mark.parametrize("words", drawn([
    ("class", "list"), ("class", "set", "x", "--most-pending", "2"), ("join", "people.csv"), ("finalise",), ("export",),
    ("backup", "b.sqlite"), ("restore", "none.sqlite"), ("restore", "people.csv"), ("class", "new", "x/y"),
    ("class", "new", "x", "--edition", "fa1999"), ("class", "new", "x", "--rubric", "none"),
    ("class", "new", "x", "--deadline", "tomorrow"),
], 4))  # fmt: skip
@pytest.mark.parametrize("name", ["none", "none/below", "two\nlines", "folder", "file/below", "x" * 300, "loop"])
def test_a_failed_command_creates_no_board(words, name, invoke, own_home, monkeypatch):
    monkeypatch.chdir(own_home)
    (own_home / "people.csv").write_text("netid,name\na,A\n")
    (own_home / "file").touch()
    (own_home / "folder").mkdir()
    (own_home / "loop").symlink_to("loop")
    before = sorted(own_home.rglob("*"))
    code, out, err = invoke("board", *words, "--data", name)
    codes = (2, 3) if words[0] == "restore" or words[:2] == ("class", "new") else (2,)
    assert code in codes and err.count("\n") == 1 and not out
    assert sorted(own_home.rglob("*")) == before


@pytest.mark.parametrize("name", ["a?b", "a%20b", "a#b", "a b", "a:b@c", "é"])
def test_special_characters_in_the_folders_name(name, invoke, own_home, monkeypatch):
    monkeypatch.chdir(own_home)
    for words in (("class", "new", "x"), ("backup", "q?.sqlite"), ("restore", "q?.sqlite")):
        assert invoke("board", *words, "--data", name + "2" * (words[0] == "restore"))[0] == 0
    assert invoke("board", "class", "list", "--data", name + "2")[1].startswith("x: ")
    boards = {f"{folder}/board.sqlite" for folder in (name, name + "2")}
    assert {str(path) for path in Path().rglob("*.sqlite*")} == {*boards, "q?.sqlite"}
    assert {path.name for path in Path().iterdir()} == {name, name + "2", "q?.sqlite"}
    assert stat.S_IMODE(os.stat(name).st_mode) == 0o700


@pytest.fixture(scope="module")
def trial():
    with board_trial.trial(4, options=("--ray", "off", "--cpu-slots", "2"), seconds=0.1) as made:
        yield made


class TestTrial:
    """The commands for students and instructors, on one running board."""

    @pytest.fixture
    def submit(self, trial, own_home, run_program, monkeypatch):
        """A function that submits a file of some text as a person; it returns the finished process."""

        def call(who, text, *words):
            (own_home / "k.cu").write_text(text)
            monkeypatch.setenv("FASHION_INFER_BOARD_TOKEN", trial.tokens[who])
            return run_program("submit", own_home / "k.cu", "--to", trial.url, *words, timeout=120)

        return call

    def test_the_board_says_only_where_it_is(self, trial):
        first, *more = (trial.folder / "log").read_text().splitlines()
        assert trial.url in first and all(trial.url in line or "warning" in line for line in more)

    def test_submit_waits_for_the_result(self, submit):
        done = submit("p000", "ms=3.5", "--final", "--class", "trial")
        lines = done.stdout.splitlines()
        assert done.returncode == 0, done.stderr
        assert "10 of 10 points, Op Time 3.500 ms" in lines[-2] and lines[-1].endswith(": rank 1, final")
        assert done.stderr.count("\n") == 1

    def test_an_incorrect_submission_is_explained_as_on_the_page(self, trial, submit, run_program):
        done = submit("p001", "wrong")
        assert done.returncode == 0, done.stderr
        said = done.stdout[done.stdout.index("Incorrect: ") :]
        assert "the last row differs (layer 1)" in said and "check bounds" in said and "correct: 0 of 10 points" in said
        identifier = said.splitlines()[-1].partition(":")[0]
        log = run_program("board", "log", identifier, "--to", trial.url, timeout=120).stdout
        assert log.endswith("\n".join(said.splitlines()[:-1]) + "\n")
        with requests.Session() as browser:
            guard = re.search(r'name="csrf" value="(\w+)"', browser.get(f"{trial.url}/login").text)[1]
            browser.post(f"{trial.url}/login", data={"csrf": guard, "token": trial.tokens["p001"]})
            page = browser.get(f"{trial.url}/submissions/{identifier}").text
        assert all(text in page for text in ("the last row differs (layer 1)", "check bounds", "why"))

    def test_exit_codes_of_refused_and_failed_submissions(self, submit):
        for text, code in (("refuse", 1), ("fail", 4), ("", 2)):
            done = submit("p001", text)
            assert done.returncode == code, done.stderr

    def test_history_status_log_ranking_and_cancel(self, trial, submit, monkeypatch, invoke):
        submit("p002", "ms=1.5")
        monkeypatch.setenv("FASHION_INFER_BOARD", trial.url)
        code, out, _ = invoke("board", "history")
        assert code == 0 and "Op Time 1.5000 ms" in out
        identifier = out.split()[0]
        assert "waits" not in invoke("board", "status", identifier)[1]
        assert "judged: 10 of 10" in invoke("board", "log", identifier)[1]
        assert invoke("board", "ranking")[1].splitlines()[0].startswith("*   1        1.5000 ms")
        assert "p002, student of trial" in invoke("board", "status")[1]
        assert invoke("board", "cancel", identifier)[0] == 1
        assert invoke("board", "log", "../../etc")[0] == 2

    @pytest.mark.slow
    def test_submit_waits_for_a_board_that_restarts(self, trial, own_home):
        trial.process.kill()
        trial.process.wait()
        (own_home / "k.cu").write_text("ms=7")
        environment = {**os.environ, "FASHION_INFER_BOARD_TOKEN": trial.tokens["p003"]}
        line = [sys.executable, "-m", "fashion_infer", "submit", str(own_home / "k.cu"), "--to", trial.url]
        with subprocess.Popen(
            line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as going:
            time.sleep(1)
            trial.start()
            out, err = going.communicate(timeout=120)
        assert going.returncode == 0 and "Op Time 7.000 ms" in out and "the board does not answer" in err

    @pytest.mark.slow
    def test_finalise_and_export(self, trial, submit):
        submit("p000", "ms=3.5")
        trial.command("finalise", "--leaders", "2")
        rows = [line.split(",") for line in trial.command("export").splitlines()]
        assert rows[0][:5] == ["place", "name", "team", "op_ms", "final_runs"] and len(rows) == 5
        assert [row[4] for row in rows[1:3]] == ["1", "1"] and rows[-1][0] == ""
        store = trial.store()
        with store.read() as session:
            found = people.the_class(session, None)
            assert found.finalised_at is not None
            purposes = session.execute(
                select(Judgement.submission_id, func.count())
                .where(Judgement.purpose != "first")
                .group_by(Judgement.submission_id)
            ).all()
        store.close()
        assert sorted(count for _, count in purposes) == [5, 5]

    @pytest.mark.slow
    def test_no_submission_is_lost_by_injected_faults(self, trial):
        trial.command("class", "set", "trial", "--most-an-hour", "100000")
        kinds = ["service", "dispatcher", "worker", "database"]
        store = trial.store()
        with store.read() as session:
            before = set(session.scalars(select(Judgement.submission_id)))
        store.close()
        found = board_faults.rounds(
            trial, pick(3, 60), random.Random(), None, kinds, lambda line: None, pause=0.3, calm=1.0
        )
        assert [line for line in found if line.split(":")[0] not in before] == []


def processes_of(made):
    first = psutil.Process(made.process.pid)
    return [first, *first.children(recursive=True)]


SOCKETS = """
#include "conv.h"
#include <arpa/inet.h>
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  for (int port : {PORTS}) {
    int one = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to = {};
    to.sin_family = AF_INET; to.sin_port = htons(port); to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    tell("a port", one >= 0 && connect(one, (sockaddr*)&to, sizeof to) == 0);
  }
  tell("ray's folder", opendir("FOLDER/ray") != nullptr);
  convolve(x, k, y, B, M, C, H, W, K);
}
"""


@pytest.mark.slow
@pytest.mark.skipif(not available().isolated, reason="no sandbox")
def test_the_real_grader_ranks_and_isolates(tmp_path, monkeypatch):
    """The real grader on the board's own Ray ranks an honest kernel, and keeps a hostile kernel from the board's ports.

    The hostile kernel tries all listening ports of the board and of Ray, and Ray's folder of sockets. Ray listens only
    on the loopback interface and requires its token.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("RAY_BACKEND_LOG_LEVEL", raising=False)  # a connection to Ray in this process sets it
    rubric = tmp_path / "rubric.toml"
    rubric.write_text((ATTACKS / "rubric.toml").read_text())
    made = board_trial.Trial(tmp_path, 2, options=("--json-logs",), seconds=None, limits=("--rubric", str(rubric)))
    try:
        made.start()
        client = Client(made.url, made.tokens["p000"])
        one = client.submit("conv.cpp", HONEST.read_bytes())["id"]
        text = list(client.log(one))
        found = client.submission(one)
        assert (found["status"], found["rank"], found["judgement"]["points"]) == ("judged", 1, 100), text
        assert any("judging begins on" in line for line in text) and client.me()["graders"] == 1
        heard = {
            socket.laddr
            for process in processes_of(made)
            for socket in process.net_connections("tcp")
            if socket.status == "LISTEN"
        }
        assert {address.ip for address in heard} <= {"127.0.0.1", "::ffff:127.0.0.1"}, heard
        ports = {address.port for address in heard}
        assert made.port in ports and len(ports) > 3
        (gcs,) = [process for process in processes_of(made) if "gcs_server" in process.name()]
        said = gcs.environ()
        assert said["RAY_AUTH_MODE"] == "token" and len(said["RAY_AUTH_TOKEN"]) == 64
        assert all(said["RAY_AUTH_TOKEN"] not in word for process in processes_of(made) for word in process.cmdline())
        (tmp_path / "team").mkdir()
        (tmp_path / "team" / "conv.h").write_text((ATTACKS / "cpu" / "conv.h").read_text())
        assert Path(tempfile.gettempdir(), "ray").is_dir()
        text = SOCKETS.replace("PORTS", ", ".join(map(str, sorted(ports)))).replace("FOLDER", tempfile.gettempdir())
        (tmp_path / "team" / "conv.cpp").write_text(text)
        client = Client(made.url, made.tokens["p001"])
        one = client.submit(*packed(str(tmp_path / "team")))["id"]
        list(client.log(one))
        found = client.submission(one)
        printed = found["verdict"]["printed"]
        assert found["status"] == "judged" and "a port: stopped" in printed and "ray's folder: stopped" in printed
        assert "GOT THROUGH" not in printed
        made.process.send_signal(signal.SIGINT)
        made.process.wait(60)
    finally:
        made.stop()
    # On a busy machine Ray's own programs print warnings such as "[2026-11-28 23:31:05,123 W 7 7] ...".
    ours = re.compile(r"(?!fashion-infer: interrupted$|\[\d{4}(-\d\d){2} [\d:,]+ [WE] )")
    log = [line for line in (tmp_path / "log").read_text().splitlines() if ours.match(line)]
    assert log and all(json.loads(line)["message"] for line in log)
