"""Fuzzes the code that reads untrusted input when grading: workers' messages, archives, sources, verdicts, rubrics.

    python scripts/fuzz_grading.py [--count 20000] [--seed 1]

Each input must give a value or one of the grader's own errors, within seconds and 512 MiB. Anything else is printed
with its seed, and the exit code is 1. Archives and sources are read in processes with the sandbox's address-space
limit; one in a hundred is read in the sandbox itself.
"""

import argparse
import copy
import io
import json
import multiprocessing
import os
import random
import resource
import signal
import socket
import sys
import tarfile
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

from fashion_infer.errors import FashionInferError
from fashion_infer.grading import rubric, verdict
from fashion_infer.grading.intake import reading, submission
from fashion_infer.grading.intake.archives import Refused
from fashion_infer.grading.referee import session
from fashion_infer.grading.sandbox import Broken, available
from fashion_infer.kernel_files import formats

_MOST_MEMORY = 512  # MiB
_MOST_SECONDS = 20.0
_ODD = [
    None,
    5,
    -1,
    True,
    "",
    "-1",
    [],
    {},
    1e308,
    float("inf"),
    float("nan"),
    10**400,
    [[1]],
    "\0",
    "\ud800",
    {"a": []},
]
_STARTERS = [formats.template(one.name).encode() for one in formats.FORMATS if one.template]
_WORDS = [b"(", b")", b"{", b"}", b'"', b"'", b"/*", b"*/", b"//", b"\\\n", b'R"x(', b'extern "C"', b"conv_forward(",
          b"\0",
          b'#include "a.h"\n', b'#include "' + b"a" * 5000 + b'"\n', b"\xff\xfe", b"template<", b"forward<gpu, float>(",
          b"GPUInterface::conv_forward_gpu(", b"lambda x: ", b"    " * 50]  # fmt: skip


def changed(rng: random.Random, data: bytes, words) -> bytes:
    """Return the bytes with some cut, doubled or overwritten, or with words inserted once or thousands of times."""
    for _ in range(rng.randint(1, 6)):
        at, length = rng.randint(0, len(data)), rng.choice([1, 4, 40, 400])
        what = rng.randrange(4)
        if what == 0:
            data = data[:at] + data[at + length :]
        elif what == 1:
            data = data[:at] + data[at : at + length] * rng.choice([2, 50]) + data[at:]
        elif what == 2:
            data = data[:at] + bytes(rng.randrange(256) for _ in range(min(length, 40))) + data[at + length :]
        else:
            data = data[:at] + rng.choice(words) * rng.choice([1] * 30 + [3] * 6 + [300, 3000]) + data[at:]
    return data


def message(rng: random.Random) -> str:
    """Read one random message of a worker with one of the functions that read such messages; return the outcome."""
    base = rng.choice(
        [b'{"loaded": {"zero_output": true}}', b"done 0 0 1e-3 2e-3 0 right", b'{"failed": "no"}', b"awake"]
    )
    said = changed(rng, base, [b"[", b"{", b"-inf", b"nan", b" ", b'"loaded":', b"1e999", b"9" * 99, b"\xff"])[:60_000]
    talk = session.Session.__new__(session.Session)
    talk._channel, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    talk._spins, talk._calls = False, 1
    talk._sandbox = SimpleNamespace(remaining=1.0, watch=lambda: None, ended=lambda: None, freeze=lambda: 0.0)
    with talk._channel, worker:
        worker.send(said) if said else worker.close()
        try:
            if rng.random() < 0.5:
                talk.load(SimpleNamespace(kind="plugin", path="k.so"), False)
            else:
                session._called(talk._receive(1.0), 0, 0.5)
            return "value"
        except Broken:
            return "broken"


def archive(rng: random.Random) -> str:
    """Read one random archive or source within the sandbox's address-space limit, or in the sandbox."""
    source = changed(rng, rng.choice(_STARTERS), _WORDS) if rng.random() < 0.8 else rng.choice(_STARTERS)
    suffix = rng.choice([".cpp", ".cu", ".py", ".h", ".tar", ".tar.gz", ".tar.bz2", ".tar.xz", ".zip"])
    if suffix.startswith((".tar", ".zip")):
        source = _archived(rng, source, suffix)
    with tempfile.TemporaryDirectory() as folder:
        place, path = Path(folder) / "to", Path(folder) / f"conv{suffix}"
        place.mkdir()
        path.write_bytes(source)
        try:
            if rng.random() < 0.01:
                submission.stage(path, place, layers=available())
            else:
                reading.read(path, place, reading.Wanted())
            return "read"
        except Refused:
            return "refused"


def _archived(rng: random.Random, source: bytes, suffix: str) -> bytes:
    out = io.BytesIO()
    names = [
        rng.choice(["conv.cpp", "a/conv.cu", "../x", "/x", "x" * 300, "\udcff.cpp", "conv.py", ".x", "a\\b"])
        for _ in range(rng.randint(1, 4))
    ]
    if suffix == ".zip":
        with zipfile.ZipFile(
            out, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
        ) as file:
            for name in dict.fromkeys(names):
                file.writestr(name.encode("ascii", "replace").decode(), source)
    else:
        kind = rng.choice([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
        with tarfile.open(fileobj=out, mode=f"w:{suffix[5:]}", format=kind) as file:
            for name in names:
                entry = tarfile.TarInfo(name)
                entry.size, entry.type = len(source), rng.choice([b"0"] * 6 + [b"1", b"2", b"S", b"L", b"x", b"6"])
                file.addfile(entry, io.BytesIO(source))
    data = out.getvalue()
    return changed(rng, data, [b"\xff" * 8, b"\0" * 512, b"9" * 12]) if rng.random() < 0.7 else data


def _base() -> dict:
    """Return the fields of a verdict that `--repeat` reads."""
    return {
        "kind": verdict.KIND,
        "version": verdict.VERSION,
        "marks": [{"name": "right", "kind": "right", "points": 50, "out_of": 50, "passed": True, "message": "right"}],
        "submission": {"source": "conv.cpp", "sha256": "ab" * 32},
        "seed": "0" * 32,
        "backend": "cpu",
        "rubric": rubric.as_dict(rubric.default("fa2020")),
    }


def document(rng: random.Random) -> str:
    """Read one random verdict or rubric."""
    if rng.random() < 0.4:
        text = changed(
            rng,
            rubric.default_text("fa2017").encode(),
            [b"[", b"{a=", b"9" * 400, b"nan", b"'''", b"-1", b"[[layer]]\n"],
        )
        try:
            rubric.parse(text.decode("utf-8", "replace"), "it")
            return "rubric"
        except FashionInferError:
            return "refused"
    found = _base()
    for _ in range(rng.randint(0, 3)):
        inner, keys = found, []
        while isinstance(inner, (dict, list)) and inner and (not keys or rng.random() < 0.8):
            keys.append((inner, rng.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))))
            inner = inner[keys[-1][1]]
        if keys:
            keys[-1][0][keys[-1][1]] = copy.deepcopy(rng.choice(_ODD))
    data = json.dumps(found).encode()
    data = changed(rng, data, [b"[", b"{", b"NaN", b"9" * 400]) if rng.random() < 0.3 else data
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        try:
            json.dumps(rubric.as_dict(verdict.read(file.name).rubric), allow_nan=False)
            return "verdict"
        except FashionInferError:
            return "refused"


class _Late(BaseException):
    """Raised when the sandbox's time limit has passed."""


def _late(*_) -> None:
    raise _Late


def many(kind: str, seeds, answers) -> None:
    """Fuzz with each of the given seeds in this process."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY << 20, _MOST_MEMORY << 20))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # hides warnings of Python's parser
    signal.signal(signal.SIGALRM, _late)
    ends, longest = Counter(), 0.0
    for seed in seeds:
        start = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, reading._SECONDS)
        try:
            ends[
                {"messages": message, "archives": archive, "documents": document}[kind](random.Random(f"{kind} {seed}"))
            ] += 1
        except _Late:
            ends[f"ended by time, as the box ends it: seed {seed}"] += 1
        except BaseException as error:
            answers.put(("bad", f"{kind}, seed {seed}: {type(error).__name__}: {error}"[:300]))
        longest = max(longest, time.monotonic() - start)
    answers.put(("done", (ends, longest, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)))


def main() -> int:
    """Fuzz each kind of input, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default="messages,archives,documents")
    asked = parser.parse_args()
    bad, context = 0, multiprocessing.get_context("spawn")
    for kind in asked.kinds.split(","):
        answers, start = context.Queue(), time.monotonic()
        first = asked.seed * 10**6
        workers = [
            context.Process(target=many, args=(kind, range(first + part, first + asked.count, 2), answers))
            for part in (0, 1)
        ]
        for worker in workers:
            worker.start()
        ends, longest, memory, left = Counter(), 0.0, 0, len(workers)
        while left:
            try:
                what, found = answers.get(timeout=60)
            except Exception:
                if any(worker.is_alive() for worker in workers):
                    continue
                print(f"{kind}: a process ended")
                bad += 1
                break
            if what == "bad":
                print(found)
                bad += 1
                continue
            left -= 1
            ends, longest, memory = ends + found[0], max(longest, found[1]), max(memory, found[2])
        bad += longest > _MOST_SECONDS or memory > _MOST_MEMORY
        print(
            f"{asked.count} {kind} in {time.monotonic() - start:.0f} s: {dict(ends)}, longest {longest:.2f} s, "
            f"most memory {memory} MiB",
            flush=True,
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
