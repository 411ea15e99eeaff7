"""Shows progress and the remaining time on stderr: as a bar on a terminal, or as lines in a pipe or file."""

import contextlib
import sys
import time
from typing import Any, Iterator, Optional

import click


class ProgressBar:
    """A one-line progress bar, drawn by `tick` alone, because a thread would disturb timed work; or lines in a pipe."""

    def __init__(self, title: str, lines: bool = False, estimate: str = "", every: float = 0.0, results: bool = False):
        from rich import progress
        from rich.console import Console

        # rich's own test for a terminal is not used, because FORCE_COLOR changes its answer.
        console, on_terminal = Console(stderr=True), sys.stderr.isatty()
        self._bar = progress.Progress(
            progress.TextColumn(title),
            progress.BarColumn(bar_width=30),
            progress.TaskProgressColumn(),
            progress.TextColumn("{task.fields[what]}"),
            progress.TimeRemainingColumn(),
            progress.TextColumn("left"),
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not on_terminal,
        )
        self._task = self._bar.add_task("", total=1.0, what="")
        self._title, self._lines = title, lines and (results or not on_terminal)
        self._part: Optional[str] = None
        self._estimate = estimate
        self._began = self._wrote = time.monotonic()
        self._every = every

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.stop()

    def tick(self, share: float, what: str) -> None:
        """Draw the bar for the share of the work that is done, 0 to 1, and the name of the current part."""
        if self._estimate:
            with self.hidden():
                click.echo(f"{self._title}: {self._estimate}", err=True)
            self._estimate = ""
        self._bar.update(self._task, completed=share, what=what)
        self._bar.refresh()
        now = time.monotonic()
        if self._lines and what != self._part and now - self._wrote >= self._every:
            self._part, self._wrote, passed = what, now, now - self._began
            left = f", about {passed * (1 - share) / share:.0f} s left" if 0 < share < 1 else ""
            with self.hidden():
                click.echo(f"{self._title}: {what} ({share:.0%} done{left})", err=True)

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        self._bar.stop()
        try:
            yield
        finally:
            self._bar.start()
