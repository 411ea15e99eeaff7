"""Shared fixtures: the dataset's folder, the command line, and a user without data or mirrors."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

# Test processes share the cores. Threads of NumPy's OpenBLAS spin while they wait, so a second thread would take
# processor time from other tests. OpenBLAS reads this variable once, when it is loaded; it is restored afterwards, so
# that programs started by tests are not affected.
with pytest.MonkeyPatch.context() as patch:
    patch.setenv("OPENBLAS_NUM_THREADS", os.environ.get("OPENBLAS_NUM_THREADS", "1"))
    import numpy  # noqa: F401

# The dataset of a machine whose checkouts share one copy, next to their folders.
import profiles  # noqa: E402
import skips  # noqa: E402
from chromium import browser, new_page  # noqa: E402, F401
from small_report import small_report, torch  # noqa: E402, F401

_SHARED = ROOT.parent / "shared" / "fashion-mnist"
if "FASHION_INFER_DATA" not in os.environ and _SHARED.is_dir():
    os.environ["FASHION_INFER_DATA"] = str(_SHARED)


def pytest_addoption(parser):
    parser.addoption("--strict-skips", action="store_true", help="fail on a skip that tests/skips.py does not accept")


def pytest_configure(config):
    if skips.strict(config):
        config.pluginmanager.register(skips.StrictSkips())
    profiles.load(config.getoption("hypothesis_profile", None))
    # pytest-xdist would otherwise start with the files that have the most tests, but the longest files have few tests.
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_ignore_collect(collection_path, config):
    # With `-m slow`, files without slow tests are not imported, because that would take each process half a minute.
    if config.option.markexpr == "slow" and collection_path.match("test_*.py"):
        return True if "mark.slow" not in collection_path.read_text(encoding="utf-8") else None
    return None


def pytest_collection_modifyitems(items):
    # Files with slow tests come first, so that no long file runs alone at the end while processes are idle.
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path in slow, item.path.parent.name), reverse=True)


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory):
    """The folder of temporary files, also of killed programs. Its path is short, for sockets of Ray and PostgreSQL."""
    tmp_path_factory.getbasetemp()  # pytest's own folder is not in it
    folder = tempfile.mkdtemp(prefix="tests-")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TMPDIR", folder)
        patched.setattr(tempfile, "tempdir", folder)
        yield
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def kernel_cache(tmp_path_factory):
    """A cache folder of built kernel files, the same for all modules and processes of a run."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(folder / "kernel-cache"))
        yield


@pytest.fixture(scope="session")
def data_dir():
    """The folder of the real dataset. On a machine without the dataset, the test is skipped."""
    from fashion_infer.data import locate

    folder = locate.find()
    if folder is None:
        pytest.skip("Fashion-MNIST is not on this machine")
    return folder


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """The empty home folder of a user without datasets. Mirrors refuse connections."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.delenv("FASHION_INFER_DATA", raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    monkeypatch.setenv("FASHION_INFER_MIRRORS", "http://127.0.0.1:9/ http://127.0.0.1:9/again/")
    monkeypatch.chdir(home)
    return home


@pytest.fixture
def run_program():
    """A function that runs the command line as a separate process; it returns the finished process."""

    def run(*arguments, timeout=300, **options):
        return subprocess.run(
            [sys.executable, "-m", "fashion_infer", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=timeout,
            **options,
        )

    return run


@pytest.fixture
def run_python():
    """A function that runs Python code in a separate process in the checkout; it returns the finished process."""

    def run(code, *arguments, cwd=ROOT, **environment):
        command = [sys.executable, "-c", code, *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", **environment}
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)

    return run


@pytest.fixture
def captured(capsys):
    """What `invoke` reads output from. Where a command's other processes write to descriptors, it is capfd."""
    return capsys


@pytest.fixture
def invoke(captured):
    """A function that runs the command line in this process; it returns exit code, stdout and stderr."""
    from fashion_infer.cli.main import main

    def call(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(a) for a in arguments])
        out, err = captured.readouterr()
        return end.value.code, out, err

    return call


@pytest.fixture
def interruptible():
    """A function that starts a program with the default handling of SIGINT, even if this process ignores it."""

    def start(command, **options):
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            **options,
        )

    return start


@pytest.fixture(scope="module")
def ray_head():
    """A Ray cluster of only a head, which runs no tasks: it has no CPU. It notices dead nodes in seconds."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_ENABLE_AUTO_CONNECT="0", PYTHONPATH=str(ROOT))
    from ray.cluster_utils import Cluster

    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 4}
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": 100 << 20, "_system_config": quick}
    made = Cluster(initialize_head=True, head_node_args=head)
    yield made
    made.shutdown()
