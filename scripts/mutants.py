#!/usr/bin/env python3
"""Mutation testing of the packages that decide results: how many small random faults do a package's tests notice?

    scripts/mutants.py [--count 300] [--seed N] [--only PART] [--workers 2]

The script draws `--count` faults over all modules of ROOMS with cosmic-ray (extra `mutants`). It puts each fault into a
copy of the checkout, runs the fast tests nearest to it there, and prints the diff of each fault that the tests do not
notice. Some faults have no visible effect (for instance in a default that is never used); the reader has to judge that.
If the tests take PATIENCE times as long as without the fault, it is counted separately: the program hangs, or the
machine is busy. With --only PART, only modules whose path contains PART are used. The exit code is 1 if a package's
tests fail without a fault.
"""

import argparse
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cosmic_ray.commands.init import _all_work_items as all_faults
from cosmic_ray.mutating import apply_mutation, mutate_code
from cosmic_ray.plugins import get_operator

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "fashion_infer"
# The beginnings of modules' paths, with the tests nearest to them, fastest first. The first entry that fits counts.
_PLAN = "unit/test_judging_plan.py unit/test_judging_bound.py unit/test_probes.py"
ROOMS = {
    "grading/inside": "unit/test_grading_inside.py unit/test_grading.py",
    "grading/sandbox": "unit/test_grading_inside.py unit/test_grading.py",
    "grading/device": "unit/test_grading_device.py",
    "grading": "unit/test_grading.py unit/test_grading_device.py",
    "board/store": "board/test_board_store.py board/test_board_refused.py board/test_board_ranking.py "
    "board/test_board_queue.py board/test_board_api.py board/test_page_access.py board/test_page_queue.py",
    **{f"judging/{name}": _PLAN for name in ("bound", "calls", "diagnosis", "inputs", "plan", "probes")},
    "judging/callers": "unit/test_callers.py unit/test_judging.py",
    "judging/tensors": "unit/test_callers.py unit/test_judging.py",
    "judging": "unit/test_judging_observer.py unit/test_bench_net.py unit/test_judging.py",
    "library": "unit/test_operator.py unit/test_threads.py unit/test_devices.py unit/test_fused.py",
    "graph": "unit/test_layers.py unit/test_hostile_symbols.py unit/test_fused.py",
    "checkpoints": "unit/test_checkpoint.py unit/test_hostile_checkpoints.py unit/test_download.py "
    "unit/test_minidnn.py unit/test_gluon.py",
    "pipeline.py": "pipeline/test_pipeline.py unit/test_request.py",
}
PATIENCE = 4  # longest allowed time of a package's tests, as a multiple of the time without a fault
SECONDS = 1800  # longest allowed time of a package's tests without a fault
# Runs the tests in a separate PID namespace, whose processes end with it. A fault that replaces the 0 of
# `os.killpg(0, SIGKILL)` by 1 kills every process that the caller sees, and a test that hangs may have started other
# processes.
ALONE = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-current-user"]),
         "--pid", "--mount-proc", "--fork", "--kill-child"]  # fmt: skip
NOTICED, UNNOTICED, TOO_LONG = "noticed", "unnoticed", "too long"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="faults to draw [default: 300]")
    parser.add_argument("--seed", type=int, help="[default: random]")
    parser.add_argument("--only", default="", help="draw from modules whose path holds this")
    parser.add_argument("--workers", type=int, default=2, help="faults to try at a time [default: 2]")
    given = parser.parse_args()
    seed = random.randrange(1 << 32) if given.seed is None else given.seed
    faults = drawn(given.only, given.count, seed)
    if subprocess.run([*ALONE, "true"]).returncode:
        sys.exit("a fault may end every process of yours: this needs name spaces of processes, which unshare makes")
    print(f"{len(faults)} faults, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.workers) as pool:
        copies = [copy_of_checkout(Path(folder) / str(worker)) for worker in range(given.workers)]
        rooms = sorted({room_of(fault) for fault in faults})
        limits = {room: PATIENCE * seconds_without_fault(copies[0], room) for room in rooms}
        outcomes = []
        for found in pool.map(lambda fault: tried(copies, fault, limits[room_of(fault)]), faults):
            outcomes.append(found)
            print(f"\r{len(outcomes)} of {len(faults)}", end="", file=sys.stderr, flush=True)
    for room in rooms:
        report(room, [outcome for fault, outcome in zip(faults, outcomes) if room_of(fault) == room])
    report(f"seed {seed}", outcomes)


def report(title, outcomes):
    count = Counter(outcomes)
    judged = count[NOTICED] + count[UNNOTICED]
    print(f"{title}: noticed {count[NOTICED]} of {judged}, {count[TOO_LONG]} took too long")


def drawn(part, count, seed):
    """Draw `count` random faults as tuples (path in the checkout, operator, its arguments, occurrence)."""
    modules = sorted(
        path
        for path in PACKAGE.rglob("*.py")
        if part in str(path.relative_to(ROOT)) and str(path.relative_to(PACKAGE)).startswith(tuple(ROOMS))
    )
    every = [item.mutations[0] for item in all_faults(modules, {})]
    random.Random(seed).shuffle(every)
    faults = (
        (Path(each.module_path).relative_to(ROOT), each.operator_name, each.operator_args, each.occurrence)
        for each in every
    )
    return list(itertools.islice(filter(is_python, faults), count))


def is_python(fault):
    """Return whether the fault can be applied and the result compiles.

    The `**` of a call cannot become a `>>`, and the operator that replaces exceptions fails at names with a dot.
    """
    path, operator, arguments, occurrence = fault
    try:
        compile(
            mutate_code((ROOT / path).read_text(), get_operator(operator)(**arguments), occurrence), str(path), "exec"
        )
    except (SyntaxError, AttributeError):
        return False
    return True


def room_of(fault):
    """Return the entry of ROOMS that a fault belongs to."""
    path = str((ROOT / fault[0]).relative_to(PACKAGE))
    return next(room for room in ROOMS if path.startswith(room))


def copy_of_checkout(folder):
    """Copy the tracked files, and the library that was built, into a folder."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in [*filter(None, names.split("\0")), "fashion_infer/lib/libfashion_ops.so"]:
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def seconds_without_fault(copy, room):
    """Return the time that a package's tests take without a fault; exit if they fail."""
    start = time.monotonic()
    if outcome(copy, room, SECONDS) != UNNOTICED:
        print(output_of(copy).read_text()[-2000:])
        sys.exit(f"without a fault the tests of {room} fail, or take more than {SECONDS} s")
    return time.monotonic() - start


def output_of(copy):
    """Return the path of the file that has the output of the last tests in a copy of the checkout."""
    return copy.with_suffix(".log")


def outcome(copy, room, limit):
    """Run a package's tests on a copy of the checkout, for at most `limit` seconds, and return the outcome."""
    files = [f"tests/{name}" for name in ROOMS[room].split() if (copy / "tests" / name).exists()]
    options = ["-x", "-q", "-n", "0", "-m", "not slow", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    # Write no bytecode: Python matches it to its source by length and time in whole seconds, which a fault may leave
    # equal.
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    with output_of(copy).open("w") as output:
        try:
            done = subprocess.run(
                [*ALONE, *command], cwd=copy, env=environment, stdout=output, stderr=output, timeout=limit
            )
        except subprocess.TimeoutExpired:
            return TOO_LONG
    return NOTICED if done.returncode else UNNOTICED


def tried(copies, fault, limit):
    """Test one fault and return its outcome; print its diff unless the tests noticed it."""
    path, operator, arguments, occurrence = fault
    copy = copies.pop()
    before = (copy / path).read_bytes()
    try:
        apply_mutation(copy / path, get_operator(operator)(**arguments), occurrence)
        difference = subprocess.run(
            ["diff", "-u", "--label", str(path), "--label", operator, ROOT / path, copy / path],
            capture_output=True,
            text=True,
        ).stdout
        found = outcome(copy, room_of(fault), limit)
    finally:
        (copy / path).write_bytes(before)
        copies.append(copy)
    if found != NOTICED:
        print(f"{found}:\n{difference}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
