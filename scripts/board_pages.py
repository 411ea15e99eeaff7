"""Measures the board's pages for a large class at its deadline: 300 people with 50 judged submissions each.

    python scripts/board_pages.py [--people 300] [--each 50] [--waiting 300] [--readers 20] [--seconds 30] [--think 2]

The service runs in a separate process, on SQLite. Each reader is signed in as a different person. Readers load the
ranking, their submissions and the queue in turn, and pause 2 s on average between two pages. Every 2 s a judgement is
added, so that the ranking is recomputed. All connections are on the loopback interface. The exit code is 0 when every
page's median time is below 100 ms.
"""

import argparse
import multiprocessing
import random
import re
import statistics
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path

import requests

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import filled_board
from board_trial import free_port

from fashion_infer.board.settings import BoardSettings
from fashion_infer.board.store.database import Store, url_of

_PAGES = ("/", "/mine", "/queue")
_MOST = 100.0  # largest allowed median time of a page, in milliseconds
_JUDGED = 2.0  # seconds between two judgements


def serve(folder: str, port: int) -> None:
    """Run the service until this process is ended."""
    import uvicorn

    from fashion_infer.board.service import create_app

    uvicorn.run(create_app(BoardSettings(data=folder)), port=port, log_level="error")


def signed_in(url: str, token: str) -> requests.Session:
    """Return a session that has signed in through the page's form, as a browser does."""
    browser = requests.Session()
    guard = re.search(r'name="csrf" value="(\w+)"', browser.get(f"{url}/login").text)[1]
    browser.post(f"{url}/login", data={"csrf": guard, "token": token}).raise_for_status()
    return browser


def read(url: str, token: str, think: float, end: float, took: dict) -> None:
    """Load pages until the time `end`."""
    browser = signed_in(url, token)
    time.sleep(random.uniform(0, think))  # so that readers do not all load a page at the same time
    while time.monotonic() < end:
        for path in _PAGES:
            start = time.monotonic()
            answer = browser.get(url + path)
            took[path].append(1e3 * (time.monotonic() - start))
            answer.raise_for_status()
            time.sleep(random.expovariate(1 / think))


def judge(store: Store, end: float) -> None:
    """Add judgements until the time `end`."""
    number = 0
    while time.monotonic() < end:
        with store.write() as session:
            person = session.query(filled_board.models.Person).filter_by(name=f"student{number:03d}").one()
            filled_board.judged(session, person, 300.0 + number, filled_board.NOW - timedelta(seconds=600 - number))
        number += 1
        time.sleep(_JUDGED)


def main() -> int:
    """Measure the pages, and print their times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("people", 300), ("each", 50), ("waiting", 300), ("readers", 20), ("seconds", 30)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--think", type=float, default=2.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Store(url_of(folder, None))
        tokens = filled_board.semester(store, asked.people, asked.each, waiting=asked.waiting)
        port = free_port()
        service = multiprocessing.get_context("spawn").Process(target=serve, args=(folder, port), daemon=True)
        service.start()
        url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 60
        while True:
            try:
                requests.get(f"{url}/login", timeout=5)
                break
            except requests.ConnectionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        took = {path: [] for path in _PAGES}
        end = time.monotonic() + asked.seconds
        students = [name for name in tokens if name.startswith("student")][: asked.readers]
        work = [threading.Thread(target=read, args=(url, tokens[name], asked.think, end, took)) for name in students]
        work.append(threading.Thread(target=judge, args=(store, end)))
        for one in work:
            one.start()
        for one in work:
            one.join()
        service.terminate()
        service.join()
        store.close()
    for path, times in took.items():
        p50, p95, most = statistics.median(times), sorted(times)[int(0.95 * len(times))], max(times)
        print(f"{path:8} {len(times):5} looks   median {p50:6.1f} ms   95% {p95:6.1f} ms   most {most:6.1f} ms")
    return int(any(statistics.median(times) >= _MOST for times in took.values()))


if __name__ == "__main__":
    sys.exit(main())
