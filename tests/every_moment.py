"""Ends what writes files by a signal, before one of the instructions that Python runs for it.

For test_interrupts.py, and no part of it, for it forks: `every_moment.py CASE SIGNAL COUNT FOLDER` tries COUNT moments
of a case, drawn at random, and prints what was left behind, a line of JSON for each that left anything.
"""

import contextlib
import gc
import json
import os
import random
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from fashion_infer.report import folder
from fashion_infer.system import files, temporary


def two_files(place):
    """Write two files that belong together."""
    with files.replacing_together([place / "x", place / "y"], durable=False) as news:
        for new in news:
            Path(new).write_text("new")


def report(place):
    """Write a folder that is there whole or not at all."""
    with folder.replacing(place / "x") as new:
        (new / "y").write_text("new")


def nothing(place):
    """Make a folder for what then fails."""
    with contextlib.suppress(ValueError), temporary.folder_made(place / "a" / "b"):
        raise ValueError


EVENT = "opcode" if sys.version_info < (3, 12) else "line"  # Python 3.12.1 has no "opcode" here
# Each with what is there before, and what may be there afterwards.
FILES = [{"x": "old", "y": "old"}, {"x": "new", "y": "new"}]
REPORTS = [{"x/report.json": None, "x/y": "old"}, {"x/report.json": None, "x/y": "new"}]
CASES = {
    "two files": (two_files, FILES[0], FILES),
    "two new files": (two_files, {}, [{}, FILES[1]]),
    "report": (report, REPORTS[0], REPORTS),
    "new report": (report, {}, [{}, REPORTS[1]]),
    "folder": (nothing, {}, [{}]),
}


def content(place):
    """Files and empty folders below a place, with their text; a report's list says when it was made: None for it."""
    found = {}
    for each in place.rglob("*"):
        if each.is_file():
            found[str(each.relative_to(place))] = None if each.name == folder.LIST else each.read_text()
        elif not any(each.iterdir()):
            found[str(each.relative_to(place))] = "a folder"
    return found


def ended(run, place, number, step):
    """Run in a child that gets the signal before its instruction `step`, 0 for none.

    Returns the child's status, and where it was; where it was not reached, how many instructions there are.
    """
    ours, its = os.pipe()
    child = os.fork()
    if child == 0:
        seen = 0

        def trace(frame, event, argument):
            nonlocal seen
            frame.f_trace_opcodes = True
            if event == EVENT:
                seen += 1
                if seen == step:
                    os.write(its, f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}".encode())
                    sys.settrace(None)
                    signal.raise_signal(number)
            return trace

        code = 130
        with contextlib.suppress(KeyboardInterrupt):
            sys.settrace(trace)
            run(place)
            sys.settrace(None)
            os.write(its, str(seen).encode())
            code = 0
        gc.collect()  # Python does at its end: it ends generators that an interrupt has left
        os._exit(code)
    os.close(its)
    _, status = os.waitpid(child, 0)
    with open(ours, "rb") as pipe:
        return status, pipe.read().decode()


def main():
    """What the module says."""
    case, number, count, room = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    run, before, allowed = CASES[case]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    total = 0
    expected = {signal.SIGINT: 130 << 8, signal.SIGTERM: signal.SIGTERM}[number]
    for turn in range(count + 1):
        with tempfile.TemporaryDirectory(dir=room) as place:
            place = Path(place)
            for name, text in before.items():
                (place / name).parent.mkdir(exist_ok=True)
                (place / name).write_text(text or '{"kind": "fashion-infer report", "files": ["y"]}')
            step = random.randrange(1, total + 1) if turn else 0
            status, said = ended(run, place, number, step)
            left = content(place)
            if not turn:
                total = int(said)
            # How many there are differs by some twenty.
            if left not in allowed or status != (0 if said.isdigit() else expected):
                print(json.dumps({"step": step, "at": said, "status": status, "left": left}))
    print(json.dumps({"instructions": total}))


main()
