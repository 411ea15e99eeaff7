"""Completions that a shell offers for an option's value. Each function imports only what it needs, for speed."""

from click.shell_completion import CompletionItem

_FILES = ("FILE", "PATH", "PREFIX", "IMAGE", "SUBMISSION", ".json", ".csv")  # parts of the metavars that are files


def complete(ctx, param, incomplete):
    """Return the completions of the text `incomplete` as a value of the parameter."""
    from ..errors import FashionInferError

    metavar = param.metavar or ""
    try:
        names = NAMES[param.name](ctx) if param.name in NAMES else {}
    except (FashionInferError, ImportError, OSError):  # a message would spoil the line that the user is typing
        names = {}
    items = [CompletionItem(name, help=summary) for name, summary in names.items() if name.startswith(incomplete)]
    # Files come first: in bash, Click's script drops all names before them.
    if "DIR" in metavar:
        items.insert(0, CompletionItem(incomplete, type="dir"))
    elif param.name in _OR_FILE or any(word in metavar for word in _FILES):
        items.insert(0, CompletionItem(incomplete, type="file"))
    return items


def _models(ctx):
    from ..checkpoints import editions, zoo

    if ctx.params.get("edition"):
        edition = editions.get(ctx.params["edition"]).name
        return {model.short_name: model.summary for model in zoo.MODELS.values() if model.edition == edition}
    return {model.name: model.summary for model in zoo.MODELS.values()}


def _editions(ctx):
    from ..checkpoints import editions

    return dict.fromkeys([*editions.EDITIONS, *editions.ALIASES])


def _kernels(ctx):
    """Return the kernels of both backends, or of the backend given earlier on the command line."""
    from ..library import kernels

    backend = ctx.params.get("backend")
    backends = [backend] if backend in ("cpu", "gpu") else ["gpu", "cpu"]
    found = {kernel.name: kernel.summary for each in backends for kernel in kernels.table(each)}
    return {"auto": "the fastest for the shape", **found}


def _formats(ctx):
    from ..kernel_files import formats

    found = {entry.name: f"{entry.years}: {entry.signature}" for entry in formats.FORMATS}
    return {**found, **dict.fromkeys(formats.ALIASES)}


def _programs(ctx):
    from .. import course

    return {name: program.summary for name, program in course.PROGRAMS.items()}


def _saved(ctx):
    from ..bench import history

    return {file.stem: None for file in history.saved()}


# For each parameter (by its name in the code), the function that returns its values: {value: summary or None}. The
# parameter `name` is a model's name, except in `kernel new`, where it is a format's.
NAMES = {
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
    "save": _saved,
    "against_saved": _saved,
}
_OR_FILE = ("kernel", "kernels", "more")  # parameters whose value is a name or a file
