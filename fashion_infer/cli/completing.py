"""What a shell offers for a text on the command line: names that there are, files, or folders.

`fashion-infer completion install` tells the shell to ask. Rooms are imported when a name of theirs is asked for.
"""

import os

from click.shell_completion import CompletionItem

_FILES = ("FILE", "PATH", "PREFIX", "IMAGE", "SUBMISSION", ".json", ".csv")  # in what --help calls the value


def complete(ctx, param, incomplete):
    """The items that may stand where `incomplete` stands. None where something is missing: a shell has no place for
    an error."""
    from ..errors import FashionInferError

    called = param.metavar or ""
    try:
        names = _NAMES[param.name](ctx) if param.name in _NAMES else {}
    except (FashionInferError, ImportError, OSError):
        names = {}
    items = []
    if "DIR" in called:
        items.append(CompletionItem(incomplete, type="dir"))
    elif param.name in _OR_FILE or any(word in called for word in _FILES):
        items.append(CompletionItem(incomplete, type="file"))
    # A list with commas between its names is one word: what stands before the last comma stays.
    before, comma, last = incomplete.rpartition(",") if ",..." in called else ("", "", incomplete)
    taken = set(before.split(","))
    found = [(name, said) for name, said in names.items() if name.startswith(last) and name not in taken]
    return items + [CompletionItem(f"{before}{comma}{name}", help=said) for name, said in found]


def _models(ctx):
    from ..checkpoints import editions, zoo

    if ctx.params.get("edition"):
        edition = editions.get(ctx.params["edition"]).name
        return {model.short_name: model.summary for model in zoo.MODELS.values() if model.edition == edition}
    return {model.name: model.summary for model in zoo.MODELS.values()}


def _editions(ctx):
    from ..checkpoints import editions

    same = {name: f"the same network as {edition}" for name, edition in editions.ALIASES.items()}
    return {**{name: None for name in editions.EDITIONS}, **same}


def _kernels(ctx):
    """Of both backends, or of the one that stands before; `auto`, and where all are measured `ladder`."""
    from ..library import kernels

    backend = ctx.params.get("backend")
    backends = [backend] if backend in ("cpu", "gpu") else ["cpu", "gpu"]
    found = {kernel.name: kernel.summary for each in reversed(backends) for kernel in kernels.table(each)}
    several = {"ladder": "all of the library's"} if ctx.info_name == "conv" else {}
    return {"auto": "the fastest that takes the shape", **several, **found}


def _formats(ctx):
    from ..kernel_files import formats

    found = {entry.name: f"{entry.years}: {entry.looked_for}" for entry in formats.FORMATS}
    return {**found, **{name: f"the same as {entry}" for name, entry in formats.ALIASES.items()}}


def _programs(ctx):
    from .. import course

    return {name: program.summary for name, program in course.PROGRAMS.items()}


def _peers(ctx):
    from ..bench.conv import Convolutions
    from ..bench.network import Networks

    names = (Networks if ctx.info_name == "net" else Convolutions).peers
    return {**dict.fromkeys(names), "none": "measure ours alone"}


def _saved(ctx):
    from ..bench import history

    return {file.stem: None for file in history.saved()}


def _checks(ctx):
    from ..grading import rubric

    return {check.name: None for check in rubric.default(ctx.params.get("edition") or "fa2017").checks}


# By a parameter's name in the code. "name" is two commands' own: a model's, but of `kernel new` a format's.
_NAMES = {
    "model": _models,
    "models": _models,
    "name": lambda ctx: _formats(ctx) if ctx.info_name == "new" else _models(ctx),
    "edition": _editions,
    "editions": _editions,
    "kernel": _kernels,
    "kernels": _kernels,
    "more": _kernels,
    "kernel_format": _formats,
    "program": _programs,
    "against": _peers,
    "require": _checks,
    "save": _saved,
    "against_saved": _saved,
}
_OR_FILE = ("kernel", "kernels", "more")


def is_asked():
    """Whether a shell started this process to complete a command line."""
    return "_FASHION_INFER_COMPLETE" in os.environ
