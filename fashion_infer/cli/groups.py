"""Commands whose help ends with examples, and groups of commands that show their help if the user names no command."""

import difflib

import click
from click.shell_completion import CompletionItem

_WHOLE = 1000  # limit for the characters of a summary in a list; so high that no summary is cut


class _Examples:
    """Adds examples, which users can copy, to the end of a command's help.

    Each is a command line without the program's name, or a pair (command line, what it needs). The examples run one
    after the other in an empty folder.
    """

    def __init__(self, *arguments, examples=(), **options):
        super().__init__(*arguments, **options)
        self.examples = tuple((each, "") if isinstance(each, str) else each for each in examples)

    def format_epilog(self, ctx, formatter):
        """Write the examples without wrapping, because a wrapped line cannot be copied."""
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                margin = " " * formatter.current_indent
                for line, needs in self.examples:
                    formatter.write(f"{margin}{ctx.find_root().info_name} {line}\n")
                    if needs:
                        formatter.write(f"{margin}    needs {needs}\n")


class ExampleCommand(_Examples, click.Command):
    """A command with examples. If the user names a kernel file without an option, the error suggests --kernel."""

    def parse_args(self, ctx, args):
        """Parse as click does, but refuse unexpected arguments with a suggestion."""
        taken = ctx.allow_extra_args
        ctx.allow_extra_args = True
        super().parse_args(ctx, args)
        from ..kernel_files import paths

        if ctx.args and not taken and not ctx.resilient_parsing:
            word = ctx.args[0]
            takes_kernel = any("--kernel" in param.opts for param in self.params)
            suggestion = f"; did you mean `--kernel {word}`?" if takes_kernel and paths.is_path(word) else ""
            ctx.fail(f"unexpected argument {word}{suggestion}")
        return ctx.args


class ExampleGroup(_Examples, click.Group):
    """A group of commands with their whole summaries. An error for a missing command suggests `following`."""

    command_class = ExampleCommand

    def __init__(self, *arguments, following="", **options):
        # If the user names no command, `parse_args` shows the help. With no_args_is_help, click would show it, and exit
        # with 0 before version 8.2 but with an error since then.
        super().__init__(*arguments, no_args_is_help=False, **options)
        self.following = following

    def parse_args(self, ctx, args):
        """Parse as click does. Without arguments, show the help and raise a usage error, because nothing was done."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            raise click.UsageError(f"missing command; try `{self.following}`")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx, args):
        """Find a command as click does. For an unknown command, the error message suggests similar names."""
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.list_commands(ctx), n=3)
            suggestion = f"; did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"no such command '{name}'{suggestion}")
        return super().resolve_command(ctx, args)

    def summaries(self, ctx):
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        return [(name, command.get_short_help_str(_WHOLE)) for name, command in commands]

    def format_commands(self, ctx, formatter):
        with formatter.section("Commands"):
            formatter.write_dl(self.summaries(ctx))

    def shell_complete(self, ctx, incomplete):
        """Return a shell's completions: the commands with their summaries or, after a hyphen, the group's options."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(n, help=said) for n, said in self.summaries(ctx) if n.startswith(incomplete)]
