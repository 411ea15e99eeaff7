"""Ctrl-C and SIGTERM end the program with the correct exit code, also with --watch, and leave no unfinished files."""

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import planted_cpu
import profiles
import pytest

from fashion_infer.system.interrupts import interrupt_deferred

ROOT = Path(__file__).resolve().parents[2]
INTERRUPTED = (130, "fashion-infer: interrupted\n")


def ended(process):
    _, err = process.communicate(timeout=30)
    return process.returncode, err


# Name of a module: its text, and the module to run. Dataclasses and named tuples generate code during an import.
# CPython remembers such an interrupt even if it is caught; then `python -m` once ended with -2.
STARTS = {
    "slow": (
        "import time\nfrom fashion_infer.cli import main\n\n\n"
        "def call(argv):\n    exec('print(1, flush=True); time.sleep(60)', {'time': time})\n\n\n"
        "main._call = call\nmain.main()\n",
        "slow",
    ),
    "click": ("import time; print(1, flush=True); time.sleep(60)", "fashion_infer"),
}


@pytest.mark.parametrize("name", STARTS)
def test_ctrl_c_in_generated_code_or_while_the_program_starts(name, tmp_path, interruptible):
    text, module = STARTS[name]
    (tmp_path / f"{name}.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    process = interruptible([sys.executable, "-m", module], env=environment)
    assert process.stdout.readline() == "1\n"
    process.send_signal(signal.SIGINT)
    assert ended(process) == INTERRUPTED


@pytest.mark.parametrize("moment", range(profiles.pick(1, 10)))
def test_ctrl_c_during_a_run(moment, interruptible):
    delay = random.SystemRandom().uniform(2.5, 4)
    command = [sys.executable, "-m", "fashion_infer", "run", "--data", "synthetic", "--backend", "cpu"]
    process = interruptible([*command, "--repeat", "1000"])
    try:
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130 and err.splitlines()[-1] == "fashion-infer: interrupted"
    assert "Traceback" not in err


@pytest.mark.parametrize("error", [None, ValueError])
def test_ctrl_c_while_mxnet_runs(error):
    reached = []

    @interrupt_deferred()
    def run():
        reached.append(signal.raise_signal(signal.SIGINT))  # returns, so that the section continues
        if error:
            raise error

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run()
        assert reached
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


WRITE = """
import os, signal, sys, time
from pathlib import Path
from fashion_infer.system import files
place = Path(sys.argv[1])
with files.folder_made(place / "a" / "b"), files.replacing_together([place / "x", place / "y"]) as news:
    Path(news[0]).write_text("new")
    print(1, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)])
def test_signals_leave_nothing_half_written(number, code, tmp_path, interruptible):
    (tmp_path / "x").write_text("old")
    process = interruptible([sys.executable, "-c", WRITE, str(tmp_path)], env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert process.stdout.readline() == "1\n"
    process.send_signal(number)
    assert ended(process)[0] == code
    assert [path.name for path in tmp_path.iterdir()] == ["x"] and (tmp_path / "x").read_text() == "old"


@pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
@pytest.mark.parametrize("command", profiles.drawn(["check", "explain"], 1))
def test_watch_runs_again_after_each_save_until_ctrl_c(tmp_path, command, interruptible):
    path = tmp_path / "conv.cpp"
    path.write_text("int main() { return 0; }\n")  # not a kernel: refused, but watched
    words = ("kernel", command, str(path), "--edition", "fa2017", "--watch")
    process = interruptible([sys.executable, "-m", "fashion_infer", *words])
    try:
        said = [_until_watching(process)]
        path.unlink()
        time.sleep(0.5)
        (tmp_path / "saved").write_text('extern "C" int conv_forward;\n')
        os.replace(tmp_path / "saved", path)
        said.append(_until_watching(process))
        path.write_text(planted_cpu.WRONG["stale_output"])
        said.append(_until_watching(process))
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    # Nothing was printed while the file did not exist.
    assert [lines.count("no kernel") for lines in said] == [1, 1, 0] and "incorrect" in said[2]
    assert "incorrect" in out and process.returncode == 130 and "Traceback" not in err


def _until_watching(process):
    """Return what the program prints on stderr until it waits for the next change."""
    said = ""
    while "Ctrl-C" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    return said
