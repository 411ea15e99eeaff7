"""The command `fashion-infer submit`."""

import click

from ..errors import CheckFailed, DeviceError
from ..present.render import terminal
from . import options
from .board.client import BOARD, client_of, outcome, verdict, waits
from .groups import ExampleCommand


@click.command(
    "submit",
    cls=ExampleCommand,
    examples=(
        ("submit new-forward.cu", "your kernel file, and a board (`board login`)"),
        ("submit conv.cu --class ece408-fa26 --final", "the same"),
        ("submit conv.cu --test", "the same"),
    ),
)
@click.argument("source", metavar="SUBMISSION")
@options.takes(
    *BOARD,
    click.option("--class", "of_class", metavar="NAME", help="Refuse to submit unless your token is for this class."),
    click.option("--final", is_flag=True, help="Make this submission the one that counts for marks."),
    click.option("--test", is_flag=True, help="Judge and time the file once, and explain it: no rank and no marks."),
    click.option("--again", is_flag=True, help="Judge the file even if you have submitted the same bytes before."),
    click.option("--detach", is_flag=True, help="Print the submission's ID and exit (see `board log ID --follow`)."),
)
def command(source, url, authority, of_class, final, test, again, detach):
    """Submit a kernel to your class's board, and wait for its verdict and rank.

    SUBMISSION is a kernel file, a folder or an archive. The log is printed while the submission is judged. The exit
    code is 0 if it was judged, whatever the marks; 1 if it was refused or cancelled; 4 if the board could not judge it.
    """
    from ..board import upload

    sent = upload.packed(source)
    client = client_of(url, authority)
    found = client.submit(sent.name, sent.content, of_class, final, again, test)
    if detach:
        terminal.say(found["id"])
        return
    if found.get("wait"):
        terminal.notice(f"{found['id']}: {waits(found['wait'])}")
    try:
        for text in client.log(found["id"]):
            terminal.say(text)
    except KeyboardInterrupt:
        terminal.notice(f"judging continues: board log {found['id']} --follow, board cancel {found['id']}")
        raise
    found = client.submission(found["id"])
    judged = found["judgement"]
    for text in verdict(found):
        terminal.say(text)
    if found["status"] in ("judged", "incorrect"):
        rank = "a test" if found["test"] else f"rank {found['rank']}" if found["rank"] else "no rank"
        terminal.say(f"{found['id']}: {rank}{', final' if found['final'] else ''}")
        return
    if found["status"] == "failed":
        raise DeviceError(f"{found['id']}: the board could not judge it: {outcome(judged)}")
    raise CheckFailed(f"{found['id']}: {found['status']}{f': {outcome(judged)}' if judged else ''}")
