"""Limits of the address space are checked before the memory is needed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fashion_infer.errors import DeviceError
from fashion_infer.system import process

# Arguments: the machine's number of cores, the limit of the address space in MB, and the command line.
PROGRAM = """
import os, resource, sys
cores, megabytes = map(int, sys.argv[1:3])
os.sched_getaffinity = lambda process: set(range(cores))
resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20,) * 2)
from fashion_infer.cli.main import main
main(sys.argv[3:])
"""


@given(st.integers(0, 500), st.integers(1, 90), st.integers(1, 300), st.data())
def test_the_message_names_the_most_threads_that_fit(megabytes, each, wanted, data):
    need = process.AddressSpace(megabytes, each)
    space = data.draw(st.integers(0, need.total(wanted) + 9))
    most = max((n for n in range(1, wanted + 1) if megabytes + each * n <= space), default=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_fits", lambda megabytes: megabytes <= space)
        if most == wanted:
            process.check_address_space(need, wanted, "it")
            return
        with pytest.raises(DeviceError) as refused:
            process.check_address_space(need, wanted, "it")
    assert (f"--threads {most} " in str(refused.value)) == ("--threads" in str(refused.value)) == (most > 0)


RUN = ["run", "--n", "5", "--data", "synthetic", "--backend", "cpu", "--threads"]


@pytest.mark.parametrize(
    "cores, megabytes, words, code",
    [(64, 1600, ["models", "list"], 0), (64, 1600, [*RUN, "2"], 0), (512, 2500, [*RUN, "512"], 4)],
)
def test_many_cores_within_a_limit(cores, megabytes, words, code, run_python):
    done = run_python(PROGRAM, cores, megabytes, *words)
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") == bool(code)


USED = "from fashion_infer.system import process; print(process.usage().peak_memory)"


def test_peak_memory_is_not_the_parents(run_python):
    held = bytearray(200 << 20)  # filled with zeros, so that every page is resident
    held[:: 1 << 12] = b"\1" * (len(held) >> 12)
    done = run_python(USED)
    assert process.usage().peak_memory >= len(held) > 2 * int(done.stdout)
