"""`kernel check --watch` and `kernel explain --watch` run again after each save, by any editor, until Ctrl-C."""

import os
import shutil
import signal
import sys
import time

import planted_cpu
import profiles
import pytest
from interruptible import interruptible

pytestmark = pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")


@pytest.mark.parametrize("command", profiles.drawn(["check", "explain"], 1))
def test_watch_runs_again_after_each_save_until_ctrl_c(tmp_path, command):
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
