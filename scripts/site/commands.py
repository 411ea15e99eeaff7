"""Renders a page of all commands and options from click: the text of `--help`, with links."""

import click


def page(group, program):
    """Return the page's Markdown."""
    lines = ["# Every command and option", "The text of every `--help` on one page."]
    for words, context in walked(group, program):
        lines += [f"{'#' * (1 + len(words))} {' '.join(words)}", paragraphs(context.command.help)]
        usage = [context.command_path, *context.command.collect_usage_pieces(context)]
        lines.append(f"    {' '.join(usage)}")
        records = filter(None, (option.get_help_record(context) for option in context.command.get_params(context)))
        rows = [f"| `{cell(names)}` | {cell(said)} |" for names, said in records]
        lines.append("\n".join(["| option | meaning |", "| --- | --- |", *rows]))
        lines.append("\n".join(f"    {program} {example}" for example in context.command.examples))
    return "\n\n".join(filter(None, lines)) + "\n"


def walked(command, program, parent=None, words=()):
    """Yield (words, context) of a command and all its subcommands."""
    context = click.Context(command, parent=parent, info_name=program, **command.context_settings)
    words = (*words, program)
    yield words, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from walked(command.get_command(context, name), name, context, words)


def paragraphs(text):
    """Return a docstring as Markdown; blocks that click must not wrap are left unchanged."""
    pieces = (text or "").replace("\f", "").strip().split("\n\n")
    return "\n\n".join(kept(piece) if piece.startswith("\b") else piece for piece in pieces)


def kept(piece):
    """Return a block whose line breaks are preserved."""
    return "\n".join(f"    {line}" for line in piece.splitlines()[1:])


def cell(text):
    """Escape text for a table cell."""
    return " ".join(text.split()).replace("|", "\\|")
