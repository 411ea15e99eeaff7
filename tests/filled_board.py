"""A board's database filled with people and submissions, for the tests of its pages."""

import json
import random
import re
from datetime import datetime, timedelta, timezone

from sqlalchemy import text

from fashion_infer.board.store import models, people
from fashion_infer.board.store.models import JUDGED, QUEUED, RUNNING, Content, Judgement, Person, Token

NOW = datetime.now(timezone.utc)


def verdict(op_ms=4.0, findings=(), printed="", n=10000, **other):
    """Return a verdict for fa2020's two layers, which take `op_ms` in all, in the form that `grade --json` prints."""
    shapes = {1: [n, 1, 86, 86, 4, 7], 2: [n, 4, 40, 40, 16, 7]}
    parts = {1: 0.3 * op_ms, 2: 0.7 * op_ms}
    samples = [
        {
            "case": {"layer": layer, "shape": shapes[layer]},
            "run": run,
            "call": call,
            "timed": True,
            "seconds": 1.05e-3 * parts[layer] * (1 + 0.01 * call),
            "op_seconds": 1e-3 * parts[layer] * (1 + 0.01 * call),
            "worker_seconds": 1e-3 * parts[layer],
            "precision": "float32",
            "said": "",
        }
        for layer in shapes
        for run in range(2)
        for call in range(4)
    ]
    times = [
        {
            "layer": layer,
            "n": n,
            "op": parts[layer],
            "spread": 0.004,
            "layer_time": 1.05 * parts[layer],
            "worker": parts[layer],
            "samples": [parts[layer]] * 8,
        }
        for layer in shapes
    ]
    wrong = any(one["follows"] == "refused" for one in findings)
    marks = [("builds", "build", 10, 10, "it compiles"), ("right", "right", 0 if wrong else 50, 50,
             "layer 2, n = 100: the output is wrong" if wrong else "right for n = 100, 1000"),
             ("fast", "time", 0 if wrong else 40, 40, f"{op_ms:.3f} ms: no more than 60 ms")]  # fmt: skip
    return {
        "kind": "fashion-infer verdict", "version": 1, "status": "judged", "reason": "", "ranked": not wrong,
        "submission": {"name": "team", "source": "team.cu", "sha256": "0" * 64, "kernel": "new-forward.cu",
                       "format": "mini-dnn"},
        "marks": [{"name": name, "kind": kind, "points": points, "out_of": of, "passed": points == of, "message": text}
                  for name, kind, points, of, text in marks],
        "findings": list(findings), "times": times, "samples": samples, "printed": printed,
        "fill_ms": {f"layer 1, n = {n}": 0.24, f"layer 2, n = {n}": 0.16}, "backend": "gpu",
        "device": {"cpu": "AMD EPYC", "name": "NVIDIA H200"}, "sandbox": {"available": "bubblewrap, Landlock, seccomp"},
        "rubric": {"show": {"diagnosis": True, "times": True, "printed": True, "leaderboard": True}},
        "when": "2026-11-20T12:00:00Z", "seed": "00", **other,
    }  # fmt: skip


def finding(
    text="3,136 of 25,600,000 outputs differ, by up to 12.5; likely only the last row is wrong: a boundary",
    where="layer 2, n = 100",
    follows="refused",
):
    """Return a finding in the form that it has in a verdict's document."""
    return {
        "kind": "wrong",
        "where": where,
        "text": text,
        "follows": follows,
        "advice": "run `fashion-infer kernel check FILE` until every layer is right",
    }


def explained(source="y[i] += x[j];"):
    return {"code": "alias", "what": "conv.cpp:4 stores its sums", "line": 4, "source": source, "step": "shifted",
            "remedy": "use __restrict__", "evidence": {"instructions": ["movss %xmm0,(%rax)"]}}  # fmt: skip


def a_class(session, name="ece408-fa26", **other):
    """Create a GPU class for fa2020 whose deadline is in two days."""
    # Running submissions use device time from NOW on, which may be long before a test runs.
    settings = {"deadline": NOW + timedelta(days=2), "gpu_seconds": 36000.0, **other}
    return people.new_class(session, name, "fa2020", "gpu", "", **settings)


def person(session, of_class, name, role="student", pseudonym=None, team=None):
    """Create a person with a token; return both. Any name is possible, as in databases of older versions."""
    made = Person(
        class_id=of_class.id,
        name=name,
        role=role,
        pseudonym=pseudonym or f"calm {name[:80]}",
        team_id=team.id if team else None,
    )
    session.add(made)
    session.flush()
    return made, people.new_token(session, made)


def judged(
    session,
    of,
    op_ms=4.0,
    when=None,
    ranked=True,
    name="new-forward.cu",
    document=None,
    log=(),
    status=None,
    reason="",
    final=False,
):
    when, status = when or NOW - timedelta(hours=1), status or (JUDGED if ranked else models.INCORRECT)
    made = _submission(session, of, name, status, when, final, log)
    document = verdict(op_ms) if document is None else document
    session.add(
        Judgement(
            submission_id=made.id,
            purpose="first",
            status=status,
            reason=reason,
            ranked=ranked and status == JUDGED,
            op_ms=op_ms if ranked else None,
            layer_ms=1.05 * op_ms if ranked else None,
            points=100.0 if ranked else 10.0,
            out_of=100.0,
            seconds=20.0,
            started_at=when,
            node="grader",
            finished_at=when + timedelta(seconds=20),
            verdict=json.dumps(document) if document else "",
        )
    )
    return made


def waits(session, of, round_=0, when=None, state=QUEUED, name="new-forward.cu", log=()):
    when = when or NOW - timedelta(minutes=1)
    made = _submission(session, of, name, state, when, False, log)
    started = NOW - timedelta(seconds=4) if state == RUNNING else None
    session.add(
        models.JobRow(
            submission_id=made.id,
            backend="gpu",
            round=round_,
            queued_at=when,
            state=state,
            started_at=started,
            lease="x" * 24 + made.id if started else None,
        )
    )
    return made


def _submission(session, of, name, status, when, final, log):
    made = models.SubmissionRow(
        id=models.short_id(),
        class_id=of.class_id,
        person_id=of.id,
        key=str(random.random()),
        digest="ab" * 32,
        name=name,
        size=1234,
        status=status,
        submitted_at=when,
        final=final,
    )
    session.add(made)
    if not session.info.get("many"):
        session.flush()
    session.add(
        Content(submission_id=made.id, content=f"// the code of {of.name}".replace("\0", "").encode("utf-8", "replace"))
    )
    session.add_all([models.LogLine(submission_id=made.id, at=when, text=line) for line in log])
    return made


def semester(store, people_, each, waiting):
    """Create a class near its deadline, with fast, slow and waiting submissions. Return tokens by person's name.

    There are `people_` students with `each` judged submissions, and `waiting` submissions in the queue.
    """
    pick = random.Random(1)
    refused = {"status": models.REFUSED, "ranked": False, "reason": "line 12: expected ;", "document": {}}
    with store.write() as session:
        # Foreign keys are checked at the end, so that rows can be written in any order without a flush in between.
        session.info["many"] = session.execute(text("PRAGMA defer_foreign_keys = ON")) is not None
        of = a_class(session, cudnn_ms=10.67)
        tokens, everybody = {}, []
        for name, role in [("Ada Instructor", "instructor"), ("Ben Assistant", "assistant")]:
            tokens[name] = person(session, of, name, role)[1]
        for number in range(people_):
            name = f"student{number:03d}"
            made, tokens[name] = person(session, of, name)
            everybody.append(made)
            best = pick.uniform(250, 700)
            for attempt in range(each):
                when = NOW - timedelta(days=12 * (1 - attempt / each) * pick.uniform(0.7, 1.0), minutes=number)
                kind = pick.random()
                if kind < 0.12:
                    judged(session, made, best, when, False, document=verdict(best, [finding()]), log=_LOG)
                elif kind < 0.15:
                    judged(session, made, when=when, log=_LOG, **refused)
                else:
                    best = max(4.1, best * pick.uniform(0.4, 1.02))
                    judged(session, made, best, when, log=_LOG)
        failed = {**refused, "status": models.FAILED, "reason": "the GPU is not well"}
        judged(session, everybody[0], when=NOW - timedelta(days=1), **failed)
        waits(session, everybody[1], -1, state=RUNNING, log=_LOG[:2])
        for index in range(waiting):
            waits(session, everybody[index % people_], index // people_)
    return tokens


def new_token(app, name):
    with app.state.store.write() as session:
        return people.new_token(session, session.query(Person).filter_by(name=name).one())


def enter(client, token):
    """Send the page's form with a token; return the response."""
    guard = re.search(r'name="csrf" value="(\w+)"', client.get("/login").text)[1]
    return client.post("/login", data={"csrf": guard, "token": token})


def client_of(app, name=None):
    """Return a client of a board's pages, signed in as a person if a name is given."""
    from fastapi.testclient import TestClient

    client = TestClient(app, follow_redirects=False)
    client.csrf = None
    if name:
        cookie, client.csrf = sign_in(app.state.store, name)
        client.cookies.set("board", cookie)
    return client


def empty(app):
    """Delete all rows of an application's database, and clear the application's caches."""
    from fashion_infer.board.page.standings import Standings

    with app.state.store.write() as session:
        for table in reversed(models.Base.metadata.sorted_tables):
            session.execute(table.delete())
    app.state.standings = Standings()


def sign_in(store, name):
    """Create a person's browser session, as signing in does; return the cookie's value and the CSRF token of forms."""
    cookie, guard = people.hashed(f"cookie of {name}"), people.hashed(f"guard of {name}")
    with store.write() as session:
        token = session.query(Token).join(Token.person).filter(Person.name == name).first()
        made = models.WebSession(
            person_id=token.person_id,
            token_id=token.id,
            hashed=people.hashed(cookie),
            csrf=guard,
            expires_at=NOW + timedelta(hours=1),
        )
        session.add(made)
    return cookie, guard


_LOG = ["new-forward.cu, 1234 bytes, stored as one", "building with nvcc for sm_90", "built in 12.4 s",
        "layer 1, n = 100: right (float32)", "layer 2, n = 100: right (float32)", "timing: spread 0.4%"]  # fmt: skip
