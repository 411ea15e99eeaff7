"""A grader that runs no code: it waits, then writes a verdict. Arguments are those of `fashion-infer grade`.

The submission's text selects the outcome: `ms=1.5` (the time), `seconds=0.2` (the wait), `refuse`, `fail` or `crash`;
with `wrong`, the result is incorrect. Without `ms=`, the time is derived from the text's digest, so that different
texts usually get different times.
"""

import hashlib
import json
import os
import re
import sys
import time


def main(words):
    source = words[0]
    wait = float(os.environ.get("FAKE_GRADER_SECONDS", "0"))
    with open(source, "rb") as file:
        content = file.read()
    text = content.decode("latin-1")
    said = dict(re.findall(r"(\w+)=([\w.]+)", text))
    wait = float(said.get("seconds", wait))
    sys.stderr.write(f"fashion-infer: judging {source}\n")
    sys.stderr.flush()
    time.sleep(wait)
    if "crash" in text:
        os.kill(os.getpid(), 9)
    status = "refused" if "refuse" in text else "failed" if "fail" in text else "judged"
    digest = hashlib.sha256(content).hexdigest()
    ms = float(said.get("ms", int(digest[:6], 16) / 1e5))
    judged, wrong = status == "judged", "wrong" in text
    finding = {"where": "layer 1", "text": "the last row differs", "follows": "refused", "advice": "check bounds"}
    points = 0.0 if wrong or not judged else 10.0
    verdict = {
        "kind": "fashion-infer verdict", "version": 1, "status": status,
        "reason": "" if judged else f"it says {status}", "ranked": judged and not wrong, "points": points,
        "out_of": 10.0, "op_time_ms": ms if judged else None, "layer_time_ms": ms if judged else None,
        "printed": text[:100], "times": [], "findings": [finding] if wrong else [], "rubric": {"show": {}},
        "marks": [{"name": "correct", "kind": "right", "points": points, "out_of": 10, "message": "why"}],
    }  # fmt: skip
    json.dump(verdict, sys.stdout)


main(sys.argv[1:])
