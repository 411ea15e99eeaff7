"""The command line's entry: finds a command and calls it, and turns errors into one line and an exit code.

What scripts read goes to stdout; progress, notices and errors go to stderr.
"""

import importlib
import os
import sys

import click

from .. import __version__
from ..errors import FashionInferError

PROGRAM = "fashion-infer"
# name -> module of this folder that holds `command`, and the line that --help shows. A module is imported when its
# command is called: what one command needs costs the others nothing.
COMMANDS = {
    "run": ("run", "Classify the first N test images and print correctness and Op Time."),
    "course": ("course", "Run one of the course's programs with its own arguments."),
    "predict": ("predict", "Classify pictures (PNG, JPEG, any size): class and probability."),
    "verify": ("verify", "Run every model with a known correctness; exit 1 on any difference."),
    "doctor": ("doctor", "Check the installation, devices, dataset and models."),
    "data": ("data", "The dataset: where it is, and how to get it."),
    "models": ("models", "The shipped models, and checkpoints in MXNet's format."),
    "bench": ("bench", "Measure kernels and networks beside what a user could pick instead."),
    "profile": ("profile", "Run under the profiler: where the time goes, by kernel and by call."),
    "report": ("report", "Measure everything, and write it as one page."),
    "kernel": ("kernel", "Kernel files of one's own: formats, a file to start from, a check."),
    "grade": ("grade", "Grade kernels that one does not trust: sandbox, referee, verdict."),
    "compare": ("compare", "Two files of measurements side by side, with ratios and verdicts."),
}


class LazyGroup(click.Group):
    """A group that knows its commands' names and summaries, and imports a command's module when it is called."""

    def list_commands(self, ctx):
        """The names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx, name):
        """The command of that name, None when there is none."""
        if name not in COMMANDS:
            return None
        return importlib.import_module(f"{__package__}.{COMMANDS[name][0]}").command

    def format_commands(self, ctx, formatter):
        """The list of commands in --help, from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=PROGRAM)
def cli():
    """Fashion-MNIST through hand-written convolution operators in MXNet: is it right, and how fast is it?"""


def main(argv=None):
    """Run the command line and end the process with its exit code (see `errors`)."""
    words = sys.argv[1:] if argv is None else argv
    if "FASHION_INFER_ISOLATED_PIPES" not in os.environ:
        return _main(words)
    from .. import isolation  # a child, with somebody's kernel file

    isolation.begin()
    try:
        _main(words)
    finally:
        isolation.ended()


def _main(argv):
    try:
        status = cli.main(args=argv, prog_name=PROGRAM, standalone_mode=False, obj=argv)
        sys.stdout.flush()
        sys.exit(status if isinstance(status, int) else 0)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" (see `{context.command_path} --help`)" if context else ""
        _fail(f"{error.format_message().rstrip('.')}{hint}", error.exit_code)
    except FashionInferError as error:
        _fail(str(error), error.exit_code)
    except ImportError as error:  # _mxnet says in one sentence what is missing
        _fail(str(error), 4)
    except MemoryError:
        _fail("out of memory: use a smaller --batch-size", 4)
    except (KeyboardInterrupt, click.Abort):
        _fail("interrupted", 130)
    except BrokenPipeError:  # the reader of our output has gone; nothing is left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _fail(message, code):
    click.echo(f"{PROGRAM}: {' '.join(message.split())}", err=True)
    sys.exit(code)
