"""The `board` commands for people who submit, which work without the extra `board`."""

import sys
from types import SimpleNamespace

import click

from ...errors import UsageError
from ...present.render import terminal
from .. import options
from ..groups import ExampleCommand

to = click.option(
    "--to", "url", metavar="URL", help="URL of the board [default: $FASHION_INFER_BOARD, else that of the last login]."
)
authority = click.option(
    "--ca",
    "authority",
    metavar="FILE.pem",
    envvar="FASHION_INFER_BOARD_CA",
    help="Certificate authority to trust [default: $FASHION_INFER_BOARD_CA, else the one given "
    "at the login, else the public ones].",
)
BOARD = (to, authority)
JOINED = "a board that you have joined (`board login`)"  # requirement of an example


def client_of(url, authority):
    from ...board import credentials
    from ...board.client import Client

    known = credentials.known(url)
    return Client(known.url, known.token, authority or known.authority, terminal.notice)


@click.command(
    "login",
    cls=ExampleCommand,
    examples=(("board login --to https://board.example:8408", "the board's address, and your token"),),
)
@options.takes(click.option("--to", "url", metavar="URL", required=True, help="URL of the board."), authority)
def login(url, authority):
    """Save your token for a board and, with --ca, the path of FILE.pem, for later commands.

    On a terminal, the command asks for the token; otherwise it reads the token from standard input.
    """
    from ...board import credentials
    from ...board.client import Client

    token = click.prompt("token", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline()
    if not token.strip():
        raise UsageError("standard input has no token")
    # Do not retry: if there is no answer, the address is probably mistyped.
    who = Client(url, token.strip(), authority, terminal.notice, patience=0.0).me()
    kept = credentials.remember(url, token.strip(), authority)
    terminal.notice(f"{who['name']}, {who['role']} of {who['of_class']}; saved in {kept}")


@click.command(
    "status", cls=ExampleCommand, examples=(("board status", JOINED), ("board status 3f2a", "a submission's number"))
)
@click.argument("identifier", metavar="[ID]", required=False)
@options.takes(*BOARD)
def status(identifier, url, authority):
    """Show the queue and your queued and running submissions; with ID, the status of that submission."""
    client = client_of(url, authority)
    if identifier:
        terminal.say(line(client.submission(identifier)))
        return
    who = client.me()
    terminal.say(f"{who['name']}, {who['role']} of {who['of_class']} ({who['edition']} on the {who['backend']})")
    graders = f"{who['graders']} grader{'' if who['graders'] == 1 else 's'}"
    terminal.say(f"queue: {who['queue']} waiting, {graders}")
    if who["deadline"]:
        terminal.say(f"deadline: {who['deadline']}")
    if who["gpu_seconds_left"] is not None:
        terminal.say(f"device time left: {who['gpu_seconds_left']:.0f} s")
    for one in client.history():
        if one["status"] in ("queued", "running"):
            terminal.say(line(client.submission(one["id"])))


@click.command("log", cls=ExampleCommand, examples=(("board log 3f2a --follow", "a submission's number"),))
@click.argument("identifier", metavar="ID")
@click.option("--follow", is_flag=True, help="Continue to print the log until the submission has ended.")
@options.takes(*BOARD)
def log(identifier, follow, url, authority):
    """Print the log of a submission and, once it is judged, the verdict."""
    client = client_of(url, authority)
    for text in client.log(identifier, follow):
        terminal.say(text)
    for text in verdict(client.submission(identifier)):
        terminal.say(text)


@click.command("cancel", cls=ExampleCommand, examples=(("board cancel 3f2a", "a submission's number"),))
@click.argument("identifier", metavar="ID")
@options.takes(*BOARD)
def cancel(identifier, url, authority):
    """Cancel a queued or running submission."""
    terminal.say(line(client_of(url, authority).cancel(identifier)))


@click.command("history", cls=ExampleCommand, examples=(("board history --limit 5", JOINED),))
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="Maximum number of submissions to list.",
)
@options.takes(*BOARD)
def history(limit, url, authority):
    """List your submissions, newest first."""
    for one in client_of(url, authority).history(limit):
        terminal.say(line(one))


@click.command("ranking", cls=ExampleCommand, examples=(("board ranking", JOINED),))
@options.takes(*BOARD)
def ranking(url, authority):
    """Print the ranking of your class."""
    places = client_of(url, authority).ranking()
    if not places:
        terminal.notice("no submission is ranked yet")
    for one in places:
        mark, final = ("*" if one["own"] else " "), ("  final" if one["final"] else "")
        terminal.say(
            f"{mark}{one['place']:4d}  {one['op_ms']:12.4f} ms  {one['submitted_at'][:16]}  {one['name']}{final}"
        )


def line(one):
    final = "  final" if one["final"] else "  test" if one["test"] else ""
    start = f"{one['id']}  {one['submitted_at'][:16]}  {one['name']}{final}  {one['status']}"
    if one.get("wait"):
        return f"{start}: {waits(one['wait'])}"
    judged = one.get("judgement")
    if judged is None:
        return start
    rank = f", rank {one['rank']}" if one.get("rank") else ""
    return f"{start}: {outcome(judged)}{rank}"


def waits(wait):
    if wait["place"] == 0:
        return f"about {wait['end_in']:.0f} s to go"
    if wait["start_in"] is None:
        return f"number {wait['place']} in the queue; no grader is running, and judging starts when there is one"
    start = "now" if wait["start_in"] < 1 else f"in about {wait['start_in']:.0f} s"
    return f"number {wait['place']} in the queue, starts {start}"


def outcome(judged):
    if judged["status"] not in ("judged", "incorrect"):
        return judged["reason"]
    time_ms = f", Op Time {judged['op_ms']:.4f} ms" if judged["op_ms"] is not None else ""
    return f"{judged['points']:g} of {judged['out_of']:g} points{time_ms}"


def verdict(one):
    """Return the lines that the board's page also shows: the verdict, the checks that lost points, and the findings."""
    from ...board import verdicts

    judged, document = one.get("judgement"), one.get("verdict") or {}
    if judged is None:
        return []
    lines = [verdicts.sentence(one["status"], SimpleNamespace(**judged), document)]
    lines += [f"  {text}" for text in verdicts.lost(document)]
    for found in verdicts.findings(document):
        lines += [f"  {found.follows}: {found.text}", *([f"    {found.advice}"] if found.advice else [])]
    for found in verdicts.explained(document):
        lines += [f"  {found.code}: {found.text}", f"    {found.remedy}"]
    if one["test"]:
        lines.append(verdicts.OF_A_TEST)
    return lines
