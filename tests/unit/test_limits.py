"""What is asked of the system before it is needed: how many threads fit into a limit, and machines with many cores."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fashion_infer.errors import DeviceError
from fashion_infer.system import limits

ROOT = Path(__file__).resolve().parents[2]
# A machine's cores and a limit in MB, then the command line.
PROGRAM = """
import os, resource, sys
cores, megabytes = map(int, sys.argv[1:3])
os.sched_getaffinity = lambda process: set(range(cores))
resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20,) * 2)
from fashion_infer.cli.main import main
main(sys.argv[3:])
"""


@given(st.integers(0, 500), st.integers(1, 90), st.integers(0, 9), st.integers(1, 3), st.integers(1, 300), st.data())
def test_the_most_threads_are_those_that_fit(megabytes, each, started, times, wanted, data):
    need = limits.Need(megabytes, each, started, times)
    space, threads = (
        data.draw(st.integers(0, need.space(wanted) + 9)),
        data.draw(st.integers(0, need.count(wanted) + 9)),
    )
    fits = [n for n in range(wanted + 1) if megabytes + each * (started + times * n) <= space]
    fits = [n for n in fits if started + times * n <= threads]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "_has_address_space", lambda size: size <= space)
        patch.setattr(limits, "_has_threads", lambda count: count <= threads)
        assert limits.most(need, wanted) == max(fits, default=0)
        if wanted in fits:
            limits.check(need, wanted, "it")
            return
        with pytest.raises(DeviceError) as refused:
            limits.check(need, wanted, "it")
    best = max(fits, default=0)
    assert (f"--threads {best} would do" in str(refused.value)) == ("--threads" in str(refused.value)) == (best > 0)


def test_the_systems_own_limit_is_asked():
    code = "from fashion_infer.system import limits; print(limits.most(limits.Need(100, 50), 400))"
    bound = (3000 << 20,) * 2
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, bound),
    )  # fmt: skip
    assert 40 <= int(done.stdout) <= 57  # (3000 - 100) / 50 = 58, less what Python itself has


@pytest.mark.parametrize(
    "cores, megabytes, words, code, said",
    [
        (64, 1600, ["models", "list"], 0, ""),
        (64, 1600, ["run", "--n", "5", "--data", "synthetic", "--backend", "cpu", "--threads", "2"], 0, ""),
        (64, 3000, ["run", "--n", "5", "--data", "synthetic", "--backend", "cpu", "--threads", "2"], 0, ""),
        (512, 2500, ["run", "--n", "5", "--data", "synthetic", "--backend", "cpu", "--threads", "512"], 4,
         "MXNet needs 74650 MB of address space: raise the limit (`ulimit -v`), or ask for fewer threads: --threads "),
    ],
)  # fmt: skip
def test_many_cores_within_a_limit(cores, megabytes, words, code, said):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(cores), str(megabytes), *words], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    assert said in done.stderr and done.stderr.count("\n") == bool(said)
