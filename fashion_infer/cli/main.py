"""The command line's entry point, which converts errors to one line and an exit code.

Results, which scripts may read, go to stdout; progress, notices and errors go to stderr.
"""

import errno
import importlib
import io
import os
import sys
import traceback
import warnings

import click

from ..errors import DataError, FashionInferError
from ..system import interrupts
from ..version import __version__
from . import candidates
from .groups import ExampleGroup

PROGRAM = "fashion-infer"
# Each command's summary for --help, by its name, which is also the name of its module in this folder. A module is
# imported only when its command is called, so that a command does not have to wait for other commands' imports.
COMMANDS = {
    "run": "Classify the first N test images and print correctness and Op Time.",
    "course": "Run one of the course's programs with the program's own arguments.",
    "predict": "Classify pictures (PNG, JPEG, any size); print each one's class and probability.",
    "verify": "Run every model whose correctness is known; exit 1 if a run gives another one.",
    "completion": "Print the script for shell completion in bash, zsh or fish.",
    "doctor": "Check the installation, devices, dataset and models.",
    "data": "Find or download the dataset.",
    "models": "List the shipped models, and convert checkpoints between formats.",
    "bench": "Time our kernels and networks next to other libraries.",
    "profile": "Show where the time of a run goes, by kernel and by call.",
    "report": "Measure correctness and speed, and write the results as one page.",
    "kernel": "Create, check and explain your own kernel files.",
    "grade": "Grade untrusted kernels in a sandbox, by a rubric.",
    "submit": "Submit a kernel to your class's board, and wait for its verdict and rank.",
    "board": "Run a class's board, or query one.",
    "compare": "Show two files of measurements side by side, with ratios and verdicts.",
}


# Exit codes in addition to those of `errors`: a shell's code for SIGINT, its code for SIGPIPE, and EX_SOFTWARE.
INTERRUPTED, GONE, MISTAKE = 130, 141, 70
_STREAMS = {0: "stdin", 1: "stdout", 2: "stderr"}


class _Text(click.ParamType):
    """Type of a non-empty text. An empty text usually comes from an unset variable in a script, so it is refused."""

    name = "text"

    def convert(self, value, param, ctx):
        return value if value != "" else self.fail("it is empty", param, ctx)

    def shell_complete(self, ctx, param, incomplete):
        return candidates.complete(ctx, param, incomplete)


def _refusing_empty(command):
    """Make a command and its subcommands refuse empty texts as values of options and arguments; return the command."""
    for param in command.params:
        if param.type is click.STRING:
            param.type = _Text()
    for one in getattr(command, "commands", {}).values():
        _refusing_empty(one)
    return command


class LazyGroup(ExampleGroup):
    """A group that knows the names and summaries of its commands, and imports a command's module when it is called."""

    def parse_args(self, ctx, args):
        """Parse as click does. If an option of `run` is given without `run`, the error suggests the complete line."""
        line = " ".join(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if any(error.option_name in param.opts for param in self.get_command(ctx, "run").params):
                ctx.fail(f"no such option {error.option_name}; did you mean `{PROGRAM} run {line}`?")
            raise

    def list_commands(self, ctx):
        return list(COMMANDS)

    def get_command(self, ctx, name):
        """Import and return the command `name`; return None if there is no such command."""
        if name not in COMMANDS:
            return None
        from ..system import process

        # On two cores, the imports take 110 MB of address space. OpenBLAS starts a thread per core and reserves 40 MB
        # for each; with 64 cores and a limit (ulimit -v), too little would be left for MXNet. Under a limit, OpenBLAS
        # therefore gets one thread.
        if process.has_address_limit():
            process.check_address_space(process.AddressSpace(150, 40), 1, PROGRAM)
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        return _refusing_empty(importlib.import_module(f"{__package__}.{name}").command)

    def summaries(self, ctx):
        return list(COMMANDS.items())


@click.group(
    cls=LazyGroup,
    following=f"{PROGRAM} doctor",
    examples=("run", "kernel new --format c-cpu > conv.cpp", "run --backend cpu --kernel ./conv.cpp"),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name=PROGRAM)
def cli():
    """Run, check and time networks for Fashion-MNIST, with hand-written convolution operators in MXNet."""


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
            _prepare()
        status = _call_noting_interrupts(argv)
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
        # If an interrupt arrives while exec() runs text, for example while a dataclass is defined, CPython remembers it
        # and ends `python -m` by SIGINT instead of with the exit code 130, even if the exception was caught. Another
        # exec() of text clears what it remembers (run_eval_code_obj in pythonrun.c).
        exec("")
        _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the program that reads our output has ended
        _silence(1)
        sys.exit(GONE)
    except OSError as error:  # an error that no other code turned into a message, such as a path that is too long
        _fail(_explain(error), 3)
    except Exception as error:
        if str(error).startswith("Symlink loop"):  # pathlib's error before Python 3.13
            _fail(str(error), 3)
        if "FASHION_INFER_TRACEBACK" in os.environ:
            traceback.print_exc()
        what = f"{type(error).__name__}: {error}"
        _fail(f"internal error in {PROGRAM}: {what} (set FASHION_INFER_TRACEBACK=1 to see where)", MISTAKE)


def _call_noting_interrupts(argv):
    """Call `_call`. If it fails after Ctrl-C, raise KeyboardInterrupt, because C code may turn the interrupt into
    another exception, such as an ImportError."""
    try:
        return _call(argv)
    except (click.exceptions.Exit, click.Abort, click.ClickException, FashionInferError):
        raise
    except Exception:
        if interrupts.pressed():
            raise KeyboardInterrupt from None
        raise


def _call(argv):
    """Find the command and call it, without click's own `main`, which exits with 1 for a broken pipe."""
    if argv[:1] in (["help"], ["version"]):
        argv = [*argv[1:], f"--{argv[0]}"]
    if "_FASHION_INFER_COMPLETE" in os.environ:  # a shell completes a command line
        return cli.main(args=argv, prog_name=PROGRAM)
    with cli.make_context(PROGRAM, list(argv), obj=argv) as context:
        return cli.invoke(context)


def _explain(error):
    reason = error.strerror or str(error)
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {reason}"
    try:
        sys.stdout.flush()
        # If the output was longer than the buffer, it has left the buffer, and this flush does not fail. An error about
        # space is then about stdout, because errors about our own files have a file name or another class (see
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
    """Discard all further output to stdout (1) or stderr (2), because the stream can no longer be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def _fail(message, code):
    from ..system.text import shown

    try:
        click.echo(f"{PROGRAM}: {shown(message)}", err=True)
    except OSError:  # nobody can read the message; the exit code must suffice
        _silence(2)
    sys.exit(code)


def _prepare() -> None:
    """Prepare the standard streams and warnings; DataError if stdout is closed, because the output would be lost."""
    interrupts.record()
    closed = [number for number in _STREAMS if not _is_open(number)]
    for number in closed:
        if os.open(os.devnull, os.O_RDWR) != number:  # open() returns the lowest free descriptor, which is `number`
            raise AssertionError("open() did not return the lowest free descriptor")
        setattr(sys, _STREAMS[number], os.fdopen(number, "r" if number == 0 else "w", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # print characters that the encoding lacks as \uNNNN
    if any(action == "error" for action, *_ in warnings.filters):
        # With PYTHONWARNINGS=error, a warning of a library that we import would end the program.
        warnings.simplefilter("ignore")
    if 1 in closed:
        raise DataError("standard output is closed: redirect it to a file or to /dev/null")


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
