"""The command line's entry: finds a command and calls it, and turns errors into one line and an exit code.

What scripts read goes to stdout; progress, notices and errors go to stderr.
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
# name -> module of this folder that holds `command`, and the line that --help shows. A module is imported when its
# command is called: what one command needs costs the others nothing.
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


# Exit codes beyond those of `errors`.
INTERRUPTED, GONE, MISTAKE = 130, 141, 70  # as after SIGINT and SIGPIPE; 70 is EX_SOFTWARE


class _Text(click.ParamType):
    """Text that is not empty. Nothing here is called "", so that an empty text is a script's unset variable."""

    name = "text"

    def convert(self, value, param, ctx):
        """The text itself."""
        return value if value != "" else self.fail("it is empty", param, ctx)

    def shell_complete(self, ctx, param, incomplete):
        """Completions that a shell offers for this argument."""
        return candidates.complete(ctx, param, incomplete)


def _refusing_empty(command):
    """The command, whose texts must not be empty: options and arguments, those of its own commands too."""
    for param in command.params:
        if param.type is click.STRING:
            param.type = _Text()
    for one in getattr(command, "commands", {}).values():
        _refusing_empty(one)
    return command


class LazyGroup(ExampleGroup):
    """A group that knows its commands' names and summaries, and imports a command's module when it is called."""

    def parse_args(self, ctx, args):
        """As click does; an option of `run` without `run` is answered with the whole line."""
        line = " ".join(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if any(error.option_name in param.opts for param in self.get_command(ctx, "run").params):
                ctx.fail(f"no such option {error.option_name}; did you mean `{PROGRAM} run {line}`?")
            raise

    def list_commands(self, ctx):
        """The names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx, name):
        """The command of that name, None when there is none."""
        if name not in COMMANDS:
            return None
        from ..system import limits

        # On two cores importing takes 110 MB of address space. OpenBLAS starts a thread for each core and reserves
        # 40 MB for it: with a limit it gets one, because 64 cores would take what MXNet needs.
        if limits.has_limit():
            limits.check(limits.AddressSpace(150, 40), 1, PROGRAM)
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        return _refusing_empty(importlib.import_module(f"{__package__}.{COMMANDS[name][0]}").command)

    def summaries(self, ctx):
        """From the table alone."""
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
    """Run the command line and end the process with its exit code (see `errors`)."""
    words = sys.argv[1:] if argv is None else argv
    if "FASHION_INFER_ISOLATED_PIPES" not in os.environ:
        return _main(words, argv is None)
    from ..system import isolation  # a child, with somebody's kernel file

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
    except ImportError as error:  # _mxnet says in one sentence what is missing
        _fail(" ".join(str(error).split()), 4)
    except MemoryError:
        _fail("out of memory: use a smaller --batch-size", 4)
    except (KeyboardInterrupt, click.Abort):
        # An interrupt within an exec of text, as when an import makes a dataclass, has CPython end `python -m` by the
        # signal at last (-2, not 130) whatever was caught, up to the next such exec (run_eval_code_obj in pythonrun.c).
        exec("")
        _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has gone; nothing is left to say
        _silence(1)
        sys.exit(GONE)
    except OSError as error:  # a path that no command has its own message for: too long, a loop of links
        _fail(_explain(error), 3)
    except Exception as error:
        if str(error).startswith("Symlink loop"):  # pathlib's before Python 3.13
            _fail(str(error), 3)
        if "FASHION_INFER_TRACEBACK" in os.environ:
            traceback.print_exc()
        what = f"{type(error).__name__}: {error}"
        _fail(f"a mistake in {PROGRAM} itself, {what} (FASHION_INFER_TRACEBACK=1 shows where)", MISTAKE)


def _heeding_interrupts(argv):
    """`_call`, where C code makes another error of an interrupt: an ImportError or, in CPython's own, a TypeError."""
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
    """Find the command and call it. Not by click's own `main`, which makes a broken pipe an exit with 1."""
    if argv[:1] in (["help"], ["version"]):
        argv = [*argv[1:], f"--{argv[0]}"]
    if candidates.asked():
        return cli.main(args=argv, prog_name=PROGRAM)  # a shell that completes a command line
    with cli.make_context(PROGRAM, list(argv), obj=argv) as context:
        return cli.invoke(context)


def _explain(error):
    """One line for a file or a stream that the system refuses."""
    reason = error.strerror or str(error)
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {reason}"
    try:
        sys.stdout.flush()
        # Output longer than the buffer is not kept in it: the flush reports nothing. Our own files have a name in the
        # error, or an error of their own (system/files.py).
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
    """Let what is still to be written to stdout (1) or stderr (2) vanish, for it does not take it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def _fail(message, code):
    from ..system.text import shown

    try:
        click.echo(f"{PROGRAM}: {shown(message)}", err=True)
    except OSError:  # nobody can read it: the code says what it can
        _silence(2)
    sys.exit(code)
