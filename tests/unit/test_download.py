"""Downloads from a server on this machine, which can also misbehave."""

import contextlib
import errno
import gzip
import hashlib
import http.server
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pooch.downloaders
import pytest

from fashion_infer.checkpoints import minidnn, mxnet_pair, originals, zoo
from fashion_infer.data import locate, retrieve
from fashion_infer.errors import CheckpointError, DataError, UsageError
from fashion_infer.graph import symbol

NAMES = locate.FILES["test"]
CONTENT = {name: gzip.compress(name.encode() * 500) for name in NAMES}


class Server(http.server.ThreadingHTTPServer):
    """Serves CONTENT under /good/. Under other folders it misbehaves in the way that the folder's name says."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests, self.sent = [], 0
        self.content = CONTENT
        self.release = threading.Event()
        threading.Thread(target=self.serve_forever, args=[0.02], daemon=True).start()

    def __exit__(self, *error):
        self.release.set()
        self.shutdown()
        super().__exit__(*error)

    def url(self, behaviour):
        return f"http://127.0.0.1:{self.server_port}/{behaviour}"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        _, behaviour, *_, name = self.path.split("/")
        self.server.requests.append((behaviour, name))
        content = self.server.content.get(name, b"")
        if behaviour == "missing":
            return self.send_error(404)
        if behaviour == "moved":
            self.send_response(302)
            self.send_header("Location", self.server.url("good") + "/" + name)
            return self.end_headers()
        self.send_response(200)
        lengths = {"endless": None, "odd": "four", "huge": "9" * 400}
        length = lengths.get(behaviour, str(len(content)))
        if length is not None:
            self.send_header("Content-Length", length)
        self.end_headers()
        if behaviour == "endless":
            with contextlib.suppress(OSError):
                while not self.server.release.is_set():
                    self.server.sent += self.wfile.write(bytes(65536))
            return
        if behaviour == "unpacked":
            content = bytes(len(content))
        if behaviour == "corrupt":
            content = bytes([content[0] ^ 1]) + content[1:]
        if behaviour in ("truncated", "stalled") or (behaviour == "flaky" and name == NAMES[1]):
            content = content[: len(content) // 2]
        self.wfile.write(content)
        self.wfile.flush()
        if behaviour == "stalled":
            self.server.release.wait(20)


@pytest.fixture
def server(bare, monkeypatch):
    for name in NAMES:
        monkeypatch.setitem(locate.MD5, name, hashlib.md5(CONTENT[name]).hexdigest())
    with Server() as server:

        def use(*behaviours):
            monkeypatch.setenv("FASHION_INFER_MIRRORS", " ".join(server.url(b) for b in behaviours))
            return server

        yield use


def whole(folder):
    return sorted(p.name for p in folder.iterdir()) == sorted(NAMES) and all(
        (folder / name).read_bytes() == CONTENT[name] for name in NAMES
    )


@pytest.mark.parametrize("behaviours", [["good"], ["moved"], ["missing", "good"], ["corrupt", "good"]])
def test_fetch_uses_the_first_mirror_that_works(server, behaviours, bare, capsys):
    server(*behaviours)
    folder = locate.fetch()
    assert folder == bare / ".cache/fashion-infer/fashion-mnist" and whole(folder)
    assert capsys.readouterr().out == ""


def test_existing_files_are_not_fetched_again(server, tmp_path):
    running = server("good")
    locate.fetch(tmp_path / "a")
    before = len(running.requests)
    locate.fetch(tmp_path / "a")
    assert len(running.requests) == before


def test_a_second_fetch_continues_the_first(server, tmp_path):
    running = server("flaky")
    with pytest.raises(DataError, match=NAMES[1]):
        locate.fetch(tmp_path / "a")
    assert [p.name for p in (tmp_path / "a").iterdir()] == [NAMES[0]]
    server("good")
    locate.fetch(tmp_path / "a")
    assert whole(tmp_path / "a")
    assert [r for r in running.requests if r[0] == "good"] == [("good", NAMES[1])]


@pytest.mark.parametrize("behaviour", ["missing", "corrupt", "truncated", "stalled", "unpacked"])
def test_trouble_is_one_line_and_leaves_nothing(server, behaviour, tmp_path, monkeypatch):
    monkeypatch.setattr(retrieve, "TIMEOUT", (1, 0.5))
    server(behaviour)
    with pytest.raises(DataError, match=NAMES[0]) as error:
        locate.fetch(tmp_path / "a" / "b")
    assert "\n" not in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize("kind", ["file", "link", "dangling", "folder", "fifo"])
def test_fetch_never_overwrites_foreign_files(server, kind, tmp_path, invoke):
    """Such files are likely, because MNIST and Fashion-MNIST use the same file names."""
    running = server("good")
    folder, mine = tmp_path / "a", tmp_path / "mine"
    folder.mkdir()
    mine.write_bytes(b"mine")
    path = folder / NAMES[0]
    {
        "file": lambda: path.write_bytes(b"mine"),
        "link": lambda: path.symlink_to(mine),
        "dangling": lambda: path.symlink_to("nowhere"),
        "folder": path.mkdir,
        "fifo": lambda: os.mkfifo(path),
    }[kind]()
    before = path.lstat()
    code, _, err = invoke("data", "fetch", "--to", folder)
    assert code == 3 and err.count("\n") == 1
    after = path.lstat()
    assert (before.st_ino, before.st_mode, before.st_mtime_ns) == (after.st_ino, after.st_mode, after.st_mtime_ns)
    assert mine.read_bytes() == b"mine" and os.listdir(folder) == [NAMES[0]] and not running.requests


@pytest.mark.parametrize("behaviour", ["endless", "odd", "huge"])
def test_a_mirror_that_misbehaves_is_left_for_the_next(server, behaviour, tmp_path, monkeypatch):
    monkeypatch.setattr(retrieve, "TIMEOUT", (1, 0.5))
    monkeypatch.setitem(locate.MOST, NAMES[0], 1000)
    running = server(behaviour)
    with pytest.raises(DataError) as error:
        locate.fetch(tmp_path / "a")
    assert "\n" not in str(error.value) and not (tmp_path / "a").exists()
    if behaviour == "endless":
        assert running.sent < 64 << 20
    server(behaviour, "good")
    locate.fetch(tmp_path / "a")
    assert whole(tmp_path / "a")


@pytest.mark.parametrize("size", [7, 1 << 40])  # to read a tebibyte would take hours
def test_damaged_and_too_large_files_in_the_cache_are_replaced(server, bare, size):
    server("good")
    folder = bare / ".cache/fashion-infer/fashion-mnist"
    folder.mkdir(parents=True)
    for name in NAMES:
        (folder / name).touch()
        os.truncate(folder / name, size)
    locate.fetch()
    assert whole(folder)


def test_full_disk(server, tmp_path, monkeypatch):
    server("good")

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pooch.downloaders.HTTPDownloader, "__call__", full)
    with pytest.raises(DataError):
        locate.fetch(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_ctrl_c_while_fetching(server, tmp_path, interruptible):
    server("stalled")
    program = [sys.executable, "-m", "fashion_infer", "data", "fetch", "--to", str(tmp_path / "a")]
    process = interruptible(program)
    deadline = time.time() + 30
    while not (tmp_path / "a").is_dir() or not list((tmp_path / "a").iterdir()):
        assert time.time() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "fashion-infer: interrupted" and "Traceback" not in err
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    "variable, value, words",
    [("REQUESTS_CA_BUNDLE", "/nowhere.pem", "REQUESTS_CA_BUNDLE"), ("HTTPS_PROXY", "http://127.0.0.1:1", "proxy")],
)
def test_the_missing_certificate_or_proxy_is_named(bare, monkeypatch, tmp_path, variable, value, words):
    monkeypatch.setenv("FASHION_INFER_MIRRORS", "https://127.0.0.1:1/")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv(variable, value)
    with pytest.raises(DataError) as error:
        locate.fetch(tmp_path / "a")
    assert words in str(error.value) and not (tmp_path / "a").exists()


def test_a_mirror_that_sends_for_too_long(server, monkeypatch, tmp_path):
    server("good")
    monkeypatch.setattr(retrieve, "LONGEST", -1.0)
    with pytest.raises(DataError):
        locate.fetch(tmp_path / "a")


def test_ids_equal_gits(tmp_path):
    if not shutil.which("git"):
        pytest.skip("needs git")
    for content in (b"", b"weights", bytes(range(256)) * 999):
        path = tmp_path / "file"
        path.write_bytes(content)
        git = subprocess.run(["git", "hash-object", str(path)], capture_output=True, text=True, check=True)
        assert retrieve.git_blob(path) == git.stdout.strip()


@pytest.fixture
def served(bare, monkeypatch, tmp_path):
    """A function that selects a server's behaviour. The server offers a .params file of ece408-low as the original."""
    mxnet_pair.save(str(tmp_path / "low"), zoo.get("ece408-low").load())
    path = tmp_path / "low-0001.params"
    original = originals.ORIGINALS["ece408-low"]._replace(blob=retrieve.git_blob(path))
    monkeypatch.setitem(originals.ORIGINALS, "ece408-low", original)
    with Server() as server:
        server.content = {original.file: path.read_bytes()}
        yield lambda name: monkeypatch.setenv("FASHION_INFER_ORIGINALS", server.url(name))


def test_originals_are_fetched_and_run(served, invoke):
    served("moved")
    with pytest.raises(CheckpointError):
        originals.load("ece408-low")
    code, out, _ = invoke("models", "fetch", "ece408-low", "--original")
    assert code == 0 and out.strip() == str(originals.path("ece408-low"))
    loaded, shipped = originals.load("ece408-low"), zoo.get("ece408-low").load()
    assert all(np.array_equal(loaded.weights[k], shipped.weights[k]) for k in shipped.weights)
    run = ("run", "--data", "synthetic", "--n", "50", "--backend", "cpu", "--model", "ece408-low")
    code, out, _ = invoke(*run, "--weights", "original")
    assert code == 0 and "Model: ece408-low" in out
    assert " fetched" in invoke("models", "list")[1]


@pytest.mark.parametrize("name, layers", [("sp2018-baseline", "convolution"), ("fa2019-ece408", "new")])
def test_other_editions(name, layers, bare, monkeypatch, tmp_path, invoke):
    """Files in the course's form (epoch 2) of other editions are run, and give the shipped weights' correctness."""
    mxnet_pair.save(str(tmp_path / name), zoo.get(name).load(), epoch=2)
    file = tmp_path / f"{name}-0002.params"
    original = originals.ORIGINALS[name]
    assert original.file.endswith("-0002.params")
    monkeypatch.setitem(originals.ORIGINALS, name, original._replace(blob=retrieve.git_blob(file)))
    originals.path(name).parent.mkdir(parents=True)
    shutil.copy(str(file), str(originals.path(name)))
    loaded = originals.load(name)
    nodes = [node["name"] for node in symbol.parse(loaded.symbol, "it")["nodes"] if node["op"] != "null"]
    first, second = f"{layers}0", f"{layers}1"
    rest = ["flatten0", "fullyconnected0", "activation1", "fullyconnected1", "softmax"]
    assert nodes == [first, "activation0", "pooling0", second, *rest]
    edition, short = zoo.get(name).edition, zoo.get(name).short_name
    run = ("run", "--model", short, "--edition", edition, "--n", "20", "--data", "synthetic", "--backend", "cpu")
    original, shipped = invoke(*run, "--weights", "original"), invoke(*run)
    assert original[0] == shipped[0] == 0 and original[1].count("Op Time") == (2 if layers == "new" else 0)
    summary = [re.search("^(Correctness|EvalMetric): .*$", out, re.M).group() for _, out, _ in (original, shipped)]
    assert summary[0] == summary[1]


@pytest.fixture
def by_hand(bare, monkeypatch):
    """The path for fa2020's original file, and a content that is accepted as the original."""
    path = originals.path("fa2020")
    path.parent.mkdir(parents=True)
    content = minidnn.save(path, zoo.get("fa2020").load()).read_bytes()
    original = originals.ORIGINALS["fa2020"]
    monkeypatch.setitem(originals.ORIGINALS, "fa2020", original._replace(blob=retrieve.git_blob(path)))
    path.unlink()
    return path, content


def test_an_original_that_users_copy_themselves(by_hand, invoke):
    path, content = by_hand
    fetch = ("models", "fetch", "fa2020", "--original")
    code, _, err = invoke(*fetch)
    assert code == 3 and err.count("\n") == 1 and str(path) in err
    path.write_bytes(content[:-1])
    code, _, err = invoke(*fetch)
    assert code == 3 and path.is_file()
    with pytest.raises(CheckpointError):
        originals.load("fa2020")
    path.write_bytes(content)
    code, out, _ = invoke(*fetch)
    assert code == 0 and out.strip() == str(path)
    run = ("run", "--model", "fa2020", "--n", "20", "--data", "synthetic", "--backend", "cpu", "--mode", "operator")
    found, shipped = (invoke(*run, "--weights", weights) for weights in ("original", "shipped"))
    assert found[0] == shipped[0] == 0
    summary = [re.search("^Correctness: .*$", out, re.M).group() for _, out, _ in (found, shipped)]
    assert summary[0] == summary[1]


def test_no_such_original(invoke):
    with pytest.raises(UsageError):
        originals.path("other")
    assert invoke("models", "fetch", "baseline")[0] == 2
