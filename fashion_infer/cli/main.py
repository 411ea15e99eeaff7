"""The command line's entry point: finds a command, calls it, and converts errors to one line and an exit code.

Results, which scripts may read, go to stdout; progress, notices and errors go to stderr.
"""

import errno
import importlib
import os
import sys
import traceback

import click

from .. import __version__
from ..errors import FashionInferError
from . import candidates
from .groups import ExampleGroup

PROGRAM = "fashion-infer"
# name: (module of this folder that has `command`, summary for --help). A module is imported only when its command is
# called, so that a command does not have to wait for other commands' imports.
COMMANDS = {
    "run": ("network.run", "Classify the first N test images and print correctness and Op Time."),
    "course": ("network.course", "Run one of the course's programs with its own arguments."),
    "predict": ("network.predict", "Classify pictures (PNG, JPEG, any size): class and probability."),
    "verify": ("network.verify", "Run every model with a known correctness; exit 1 on any difference."),
    "completion": ("installation.completion", "Shell completion of commands, options and names: bash, zsh, fish."),
    "doctor": ("installation.doctor", "Check the installation, devices, dataset and models."),
    "data": ("installation.data", "The dataset: where it is, and how to get it."),
    "models": ("installation.models", "The shipped models, and checkpoints in MXNet's format."),
    "bench": ("bench.group", "Measure kernels and networks against the alternatives."),
    "profile": ("network.profile", "Run under the profiler: where the time goes, by kernel and by call."),
    "report": ("bench.report", "Measure everything, and write it as one page."),
    "kernel": ("own.kernel", "Work with your own kernel files: start, check and explain one."),
    "grade": ("own.grade", "Grade kernels that one does not trust: sandbox, referee, verdict."),
    "submit": ("submit", "Submit a kernel to the class's board; ends with verdict and rank."),
    "board": ("board", "The class's board: serve one, or ask one."),
    "compare": ("bench.compare", "Two files of measurements side by side, with ratios and verdicts."),
}


# Exit codes in addition to those of `errors`.
INTERRUPTED, GONE, MISTAKE = 130, 141, 70  # a shell's codes for SIGINT and SIGPIPE, and EX_SOFTWARE


class _Text(click.ParamType):
    """Type of a text that must not be empty. An empty text usually comes from an unset variable in a script."""

    name = "text"

    def convert(self, value, param, ctx):
        """Return the text; refuse an empty one."""
        return value if value != "" else self.fail("it is empty", param, ctx)

    def shell_complete(self, ctx, param, incomplete):
        """Return the completions that a shell offers for this argument."""
        return candidates.complete(ctx, param, incomplete)


def _refusing_empty(command):
    """Make a command, and the commands in it, refuse empty texts as values of options and arguments; return it."""
    for param in command.params:
        if param.type is click.STRING:
            param.type = _Text()
    for one in getattr(command, "commands", {}).values():
        _refusing_empty(one)
    return command


class LazyGroup(ExampleGroup):
    """A group that knows the names and summaries of its commands, and imports a command's module when it is called."""

    def parse_args(self, ctx, args):
        """Parse as click does; for an option of `run` without `run`, the error message suggests the complete line."""
        line = " ".join(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if any(error.option_name in param.opts for param in self.get_command(ctx, "run").params):
                ctx.fail(f"no such option {error.option_name}; did you mean `{PROGRAM} run {line}`?")
            raise

    def list_commands(self, ctx):
        """Return the names of all commands, in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx, name):
        """Import and return the command with a name; None if there is none."""
        if name not in COMMANDS:
            return None
        from ..system import limits

        # On two cores, the imports take 110 MB of address space. OpenBLAS starts a thread per core and reserves 40 MB
        # for each. If address space is limited, OpenBLAS gets one thread; otherwise, with 64 cores, too little would
        # be left for MXNet.
        if limits.has_limit():
            limits.check(limits.AddressSpace(150, 40), 1, PROGRAM)
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        return _refusing_empty(importlib.import_module(f"{__package__}.{COMMANDS[name][0]}").command)

    def summaries(self, ctx):
        """Return (name, summary) of each command from `COMMANDS`, without importing any command."""
        return [(name, summary) for name, (_, summary) in COMMANDS.items()]


@click.group(
    cls=LazyGroup,
    following=f"{PROGRAM} doctor",
    examples=("run", "kernel new --format c-cpu > conv.cpp", "run --backend cpu --kernel ./conv.cpp"),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name=PROGRAM)
def cli():
    """Fashion-MNIST through hand-written convolution operators in MXNet: is it correct, and how fast is it?"""


def main(argv=None):
    """Run a command line, and end the process with the command's exit code (see `errors`)."""
    words = sys.argv[1:] if argv is None else argv
    if "FASHION_INFER_ISOLATED_PIPES" not in os.environ:
        return _main(words, argv is None)
    from ..system import isolation  # this process is a child that runs a kernel file

    isolation.begin()
    try:
        _main(words, argv is None)
    finally:
        isolation.ended()


def _main(argv, own_process):
    try:
        if own_process:
            from . import start

            start.prepare()
        status = _heeding_interrupts(argv)
        sys.stdout.flush()
        sys.exit(status if isinstance(status, int) else 0)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" (see `{context.command_path} --help`)" if context else ""
        _fail(f"{' '.join(error.format_message().split()).rstrip('.')}{hint}", error.exit_code)
    except FashionInferError as error:
        _fail(str(error), error.exit_code)
    except ImportError as error:  # `_mxnet` raises it with one sentence about what is missing
        _fail(" ".join(str(error).split()), 4)
    except MemoryError:
        _fail("out of memory: use a smaller --batch-size", 4)
    except (KeyboardInterrupt, click.Abort):
        # If an interrupt arrives during an exec of text, for example while an import defines a dataclass, CPython ends
        # `python -m` by the signal (-2, not 130), even if the exception was caught. Another exec of text resets this
        # (run_eval_code_obj in pythonrun.c).
        exec("")
        _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the program that reads our output has ended
        _silence(1)
        sys.exit(GONE)
    except OSError as error:  # a path error without its own message, such as a path that is too long
        _fail(_explain(error), 3)
    except Exception as error:
        if str(error).startswith("Symlink loop"):  # pathlib's error before Python 3.13
            _fail(str(error), 3)
        if "FASHION_INFER_TRACEBACK" in os.environ:
            traceback.print_exc()
        what = f"{type(error).__name__}: {error}"
        _fail(f"a mistake in {PROGRAM} itself, {what} (FASHION_INFER_TRACEBACK=1 shows where)", MISTAKE)


def _heeding_interrupts(argv):
    """Call `_call`, and raise KeyboardInterrupt if C code turned an interrupt into an ImportError or a TypeError."""
    try:
        return _call(argv)
    except (click.exceptions.Exit, click.Abort, click.ClickException, FashionInferError):
        raise
    except Exception:
        from ..system import interrupts

        if interrupts.pressed():
            raise KeyboardInterrupt from None
        raise


def _call(argv):
    """Find the command and call it, without click's own `main`, which exits with 1 for a broken pipe."""
    if argv[:1] in (["help"], ["version"]):
        argv = [*argv[1:], f"--{argv[0]}"]
    if candidates.asked():
        return cli.main(args=argv, prog_name=PROGRAM)  # a shell completes a command line
    with cli.make_context(PROGRAM, list(argv), obj=argv) as context:
        return cli.invoke(context)


def _explain(error):
    """Explain an error of the operating system about a file or a stream in one line."""
    reason = error.strerror or str(error)
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {reason}"
    try:
        sys.stdout.flush()
        # The flush does not fail if the output was longer than the buffer, because it is no longer in the buffer. Then
        # an error about space must be about stdout: errors for our own files have a file name or another class (see
        # system/files.py).
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise error
        os.getcwd()
    except FileNotFoundError:
        return "the working folder has been deleted: change to another one"
    except OSError:
        _silence(1)
        return f"cannot write to standard output: {reason}"
    return reason


def _silence(stream):
    """Discard all further output to stdout (1) or stderr (2), to which nothing can be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def _fail(message, code):
    from ..system.text import shown

    try:
        click.echo(f"{PROGRAM}: {shown(message)}", err=True)
    except OSError:  # nobody can read the message; the exit code must suffice
        _silence(2)
    sys.exit(code)
