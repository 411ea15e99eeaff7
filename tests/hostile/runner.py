"""Runs tries through the server, each with an empty home folder and working folder."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import rules
import tables
import things as known_things

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


class Runner:
    """A running server, and a folder with the things that tries name."""

    def __init__(self):
        # Not in pytest's temporary folder, which only its owner can open: a condition changes the user.
        self.folder = Path(tempfile.mkdtemp(prefix="hostile-tries."))
        self.folder.chmod(0o755)
        self.things = self.folder / "things"
        known_things.make(self.things)
        self._made = _listed(self.things)
        self._server = subprocess.Popen(
            [sys.executable, str(HERE / "server.py")],
            env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, one, cold=False):
        """Run a try, with `cold` in a new process; return how it ended."""
        home = self.folder / "try"
        shutil.rmtree(home, ignore_errors=True)
        for name in ("work", "tmp", "home"):
            (home / name).mkdir(parents=True)
            (home / name).chmod(0o777)
        arguments = [tables.filled(word, self.things) for word in one.arguments]
        out, err = self.folder / "out", self.folder / "err"
        asked = {
            "arguments": arguments,
            "environment": self._environment(home, one),
            "conditions": one.conditions,
            "folder": str(home / "work"),
            "out": str(out),
            "err": str(err),
            "timeout": rules.SECONDS,
            "cold": cold,
        }
        print(json.dumps(asked), file=self._server.stdin, flush=True)
        said = json.loads(self._server.stdout.readline())
        texts = [path.read_bytes().decode("utf-8", "replace") for path in (out, err)]
        changed = self._changed(home, arguments if said["code"] == 0 else [])
        return rules.Ending(said["code"], *texts, said["seconds"], said["rss"], said["late"], said["left"], changed)

    def close(self):
        self._server.stdin.close()
        self._server.wait(10)
        for name in ("unsearchable", "unreadable-folder"):
            (self.things / name).chmod(0o700)
        shutil.rmtree(self.folder)

    def _environment(self, home, one):
        environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(home / "home"),
            "TMPDIR": str(home / "tmp"),
            "PYTHONPATH": str(ROOT),
            "FASHION_INFER_MIRRORS": "http://127.0.0.1:9/",
            "FASHION_INFER_ORIGINALS": "http://127.0.0.1:9/",
            "FASHION_INFER_TRACEBACK": "1",
        }
        if "FASHION_OPS_LIBRARY" in os.environ:
            environment["FASHION_OPS_LIBRARY"] = os.environ["FASHION_OPS_LIBRARY"]
        for name, value in one.environment.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = tables.filled(value, self.things)
        return environment

    def _changed(self, home, named):
        """Return the files that a try left in its home, except those that its command names, and the things that have
        changed since the previous try."""
        names = {Path(word).name for word in named} - {""}
        paths = [path.relative_to(home) for path in home.rglob("*") if not path.is_dir()]
        before, self._made = self._made, _listed(self.things)
        differ = [name for name in set(before) | set(self._made) if before.get(name) != self._made.get(name)]
        return [str(path) for path in paths if names.isdisjoint(path.parts)] + sorted(differ)


def _listed(folder):
    """Return the attributes of a folder's entries by path; a changed entry has other attributes."""
    found = {}
    for path in folder.rglob("*"):
        status = os.lstat(path)
        # Modification times of folders are left out, because temporary files change them.
        written = () if stat.S_ISDIR(status.st_mode) else (status.st_size, status.st_mtime_ns)
        found[str(path)] = (status.st_mode, status.st_ino, *written)
    return found
