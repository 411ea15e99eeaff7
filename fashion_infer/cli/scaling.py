"""`run` and `predict` with --ray or --out: their options, the progress bar, and the road to `scale`."""

import contextlib
from dataclasses import dataclass
from typing import Any, Dict, Iterator, Optional

import click

from ..errors import UsageError

OPTIONS = (
    click.option(
        "--ray",
        metavar="ADDRESS",
        help="Run on a Ray cluster: HOST:PORT of its head node, or auto: the one here.",
    ),
    click.option("--out", metavar="DIR", help="Folder of Parquet files for the predictions; what is there stays."),
    click.option("--scores", is_flag=True, help="Into --out the scores too."),
    click.option("--block-size", type=int, help="Images of a file of --out [default: 50000, of large images fewer]."),
)


@dataclass(frozen=True)
class Options:
    """What was asked for beside the request."""

    ray: Optional[str]
    out: Optional[str]
    scores: bool
    block_size: Optional[int]
    n: Optional[int]

    @property
    def asked(self) -> bool:
        """Whether this is a run of many images."""
        return self.ray is not None or self.out is not None

    def check(self) -> None:
        """Raise UsageError for options that mean nothing alone, and where what they need is not installed."""
        if not self.asked:
            if self.scores or self.block_size is not None:
                raise UsageError("--scores and --block-size are for --out and --ray")
            return
        if self.scores and self.out is None:
            raise UsageError("--scores needs --out DIR to write them to")
        from ..scale import needs

        needs.check(self.ray is not None)


def taken(values: Dict[str, Any]) -> Options:
    """The options, taken out of a command's; with them `n`, of which there may be any number then."""
    given = {name: values.pop(name) for name in ("ray", "out", "scores", "block_size")}
    found = Options(**given, n=values.get("n"))
    found.check()
    if found.asked:
        values.pop("n", None)
    return found


def refuse(**given: Any) -> None:
    """Raise UsageError for options of the command that --ray and --out leave no place for."""
    named = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if named:
        raise UsageError(f"{' and '.join(named)} cannot go with --ray or --out: nothing is kept of single images")


@contextlib.contextmanager
def bar(images: int) -> Iterator[Any]:
    """A progress bar on stderr, on a terminal; gives what `scale.classify` calls."""
    from rich import progress
    from rich.console import Console

    columns = (
        progress.BarColumn(),
        progress.TextColumn("{task.completed:,.0f} of {task.total:,.0f} images"),
        progress.TextColumn("{task.fields[rate]:,.0f}/s on {task.fields[nodes]} node(s)"),
        progress.TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("", total=images, rate=0.0, nodes=0)

        def advance(done: int, nodes: int) -> None:
            shown.update(task, completed=done, nodes=nodes, rate=shown.tasks[0].speed or 0.0)

        yield advance
