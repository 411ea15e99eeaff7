"""The reported resource usage of this process."""

import subprocess
import sys

from fashion_infer.system import process

USED = "from fashion_infer.system import process; print(process.usage().peak_memory)"


def test_peak_memory_is_not_the_parents():
    held = bytearray(200 << 20)  # filled with zeros, so that every page is resident
    held[:: 1 << 12] = b"\1" * (len(held) >> 12)
    done = subprocess.run([sys.executable, "-c", USED], capture_output=True, text=True, check=True)
    assert process.usage().peak_memory >= len(held) > 2 * int(done.stdout)


def test_a_system_that_does_not_report_the_peak(monkeypatch, tmp_path):
    (tmp_path / "status").write_text("Name:\tpython\n")
    monkeypatch.setattr(process, "open", lambda path: (tmp_path / "status").open(), raising=False)
    monkeypatch.setattr(process, "_wall", lambda: 1.0)
    assert process.usage().peak_memory > 1 << 20
