"""`fashion-infer completion`: the shell completes commands, options, models, kernels, editions, formats and files."""

import contextlib
import os
import shlex
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from ...errors import DataError, UsageError
from ..groups import Group

SHELLS = ("bash", "zsh", "fish")
_MARK = "# fashion-infer completion"

shell_option = click.option("--shell", type=click.Choice(SHELLS), help="[default: the one that $SHELL names]")


@click.group("completion", cls=Group, following="fashion-infer completion install",
             examples=("completion install", "completion show --shell zsh"))  # fmt: skip
def command():
    """The shell completes commands, options and names: bash, zsh, fish."""


@command.command("install", examples=("completion install", "completion install --shell fish"))
@shell_option
def install(shell):
    """Have the shell complete this program's command lines, from its next start on.

    Writes the shell's script to the user's data folder, and for bash and zsh one line to .bashrc or .zshrc.
    """
    from ...present.render import terminal
    from ...system import files
    from ...system.temporary import folder_made

    shell = _chosen(shell)
    script, start = _places(shell)
    line = _line(shell, script)
    old = _read(start) if start else ""
    with contextlib.ExitStack() as folders:
        for path in filter(None, (script, start)):
            try:
                folders.enter_context(folder_made(path.parent))
            except OSError as error:
                raise DataError(f"cannot make the folder {path.parent}: {error.strerror}") from None
            files.check(path)
        files.write(script, _source(shell))
        if start and line not in old.splitlines():
            kept = _without(old)
            _write(start, kept + ("" if not kept or kept.endswith("\n") else "\n") + line + "\n")
    terminal.say(str(script))
    terminal.notice(f"{shell} completes `fashion-infer` in every shell that starts from now on")


@command.command("show", examples=("completion show", 'completion show --shell zsh > "${fpath[1]}/_fashion-infer"'))
@shell_option
def show(shell):
    """Print the shell's script, to put where one keeps such scripts."""
    click.echo(_source(_chosen(shell)), nl=False)


@command.command("remove", examples=("completion remove", "completion remove --shell bash"))
@shell_option
def remove(shell):
    """Take away what `completion install` wrote."""
    from ...present.render import terminal

    shell = _chosen(shell)
    script, start = _places(shell)
    old = _read(start) if start else ""
    if _without(old) != old:
        _write(start, _without(old))
    elif not script.exists():
        terminal.notice(f"there is no completion for {shell}")
    if script.exists():
        try:
            script.unlink()
        except OSError as error:
            raise DataError(f"cannot remove {script}: {error.strerror}") from None


def _chosen(shell):
    """The shell that is meant."""
    found = shell or Path(os.environ.get("SHELL", "")).name
    if found not in SHELLS:
        said = f"$SHELL names {found}, which has no completion here" if found else "$SHELL names no shell"
        raise UsageError(f"{said}: say which with --shell {', '.join(SHELLS[:-1])} or {SHELLS[-1]}")
    return found


def _source(shell):
    """The script, from click. Fish's is to split a line behind its type alone: a list of kernels has commas, too."""
    from ..main import PROGRAM, cli

    shown = get_completion_class(shell)
    source = (shown.source_template if shown else "") % shown(cli, {}, PROGRAM, "_FASHION_INFER_COMPLETE").source_vars()
    return source.replace('string split ","', 'string split --max 1 ","').lstrip("\n")


def _places(shell):
    """Where the script belongs, and the file that a shell reads when it starts, None where it finds scripts itself."""
    from ...system import paths

    home = paths.home()
    if home is None:
        raise DataError("this user has no home: set HOME, or use `fashion-infer completion show`")
    if shell == "fish":
        return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "fish/completions/fashion-infer.fish", None
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    start = home / ".bashrc" if shell == "bash" else Path(os.environ.get("ZDOTDIR") or home) / ".zshrc"
    return data / "fashion-infer" / f"completion.{shell}", start


def _line(shell, script):
    """The line that a shell reads when it starts. Zsh's script wants its completion system loaded before."""
    quoted = shlex.quote(str(script))
    loaded = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }; " if shell == "zsh" else ""
    return f"[ -r {quoted} ] && {{ {loaded}. {quoted}; }}  {_MARK}"


def _read(path):
    """A file's text, whatever its bytes are; "" where there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None


def _write(path, text):
    from ...system import files

    with files.replacing(path, DataError) as temporary:
        Path(temporary).write_bytes(text.encode("utf-8", "surrogateescape"))


def _without(text):
    """The text without our line."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.rstrip("\n").endswith(_MARK))
