"""The page of one submission: verdict, diagnosis, profile, log."""

import hashlib
from typing import List, Optional

from ...store.models import Judgement, LogLine, Person
from ...store.people import sees_all
from ...store.ranking import key_of
from ...store.reading import Detail
from ...store.types import FAILED, JUDGED, PENDING, RUNNING
from ..queue_cache import InLine
from ..standing import Standing
from . import queues, values, verdicts, words


def gather(
    detail: Detail, viewer: Person, log: List[LogLine], job: Optional[InLine], standing: Standing
) -> values.Submission:
    """The page's values. Whether the viewer may see them was decided where `detail` was read."""
    of, judgement = detail.submission, detail.judgement
    own, staff = viewer.id == of.person_id, sees_all(viewer)
    pending = of.status in PENDING
    found, sheets, texts = verdicts.parts(detail.verdict, staff) if detail.verdict else ([], [], [])
    if detail.finals:
        sheets.append(values.Tables("At the end", [_finals(detail.finals)]))
    text = "\n".join(f"{line.at:%H:%M:%S}  {line.text}" for line in log)
    if text:
        texts.insert(0, values.Lines("log", "Log", text))
    facts = [("SHA-256", of.digest), ("Size", words.size(of.size))]
    facts += verdicts.facts(detail.verdict) if detail.verdict else []
    stamp = f"{of.status} {len(log)} {queues.place(job) if job else ''}"
    return values.Submission(
        of.id, of.name, "" if own else detail.author.name, of.submitted_at, of.final,
        values.state(of.status, judgement is None or judgement.ranked), _said(of.status, judgement, job),
        _figures(detail, standing, _hides_times(detail, staff)), found, sheets, texts, facts, pending,
        hashlib.sha256(stamp.encode()).hexdigest()[:16], pending and (own or staff), staff,
    )  # fmt: skip


def _hides_times(detail: Detail, staff: bool) -> bool:
    """Whether the rubric keeps times from students."""
    show = (detail.verdict or {}).get("rubric", {}).get("show", {})
    return not staff and isinstance(show, dict) and show.get("times", True) is not True


def _said(status: str, judgement: Optional[Judgement], job: Optional[InLine]) -> str:
    if job is not None:
        return f"{queues.place(job)[0].upper()}{queues.place(job)[1:]}."
    if status == RUNNING:
        return "It runs now."
    if judgement is None:
        return ""
    if status == FAILED:
        return f"It could not be judged, which is not its fault: {judgement.reason}"
    if status == JUDGED:
        return "" if judgement.ranked else "It was judged, and has no rank: what was found says why."
    return judgement.reason


def _figures(detail: Detail, standing: Standing, no_times: bool) -> List[values.Figure]:
    judgement = detail.judgement
    if judgement is None or judgement.status != JUDGED:
        return []
    found = [values.Figure("Points", f"{judgement.points:g}", f"of {judgement.out_of:g}")]
    if judgement.op_ms is not None and not no_times:
        found.append(values.Figure("Op Time", words.milliseconds(judgement.op_ms), "ms"))
        if judgement.layer_ms is not None:
            found.append(values.Figure("Layer Time", words.milliseconds(judgement.layer_ms), "ms"))
    place = next((one for one in standing.places if one.key == key_of(detail.author)), None)
    if judgement.ranked and place is not None:
        best = standing.best_of.get(place.key) == detail.submission.id
        found.append(values.Figure("Rank with it" if best else "Rank, by another", str(place.place),
                                  f"of {len(standing.places)}", best))  # fmt: skip
    return found


def _finals(runs: List[Judgement]):
    rows = [[run.purpose, run.status, None if run.op_ms is None else (run.op_ms, words.milliseconds(run.op_ms))]
            for run in runs]  # fmt: skip
    return verdicts.table("Runs on fresh seeds", ["run", "state", ">Op Time, ms"], rows)
