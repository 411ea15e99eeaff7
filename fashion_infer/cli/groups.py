"""Commands whose help ends with examples; groups of them, which alone show their help and what to try next."""

import difflib

import click
from click.shell_completion import CompletionItem

_WHOLE = 1000  # characters of a summary that a list shows: the whole first sentence


class _Examples:
    """Help that ends with command lines to copy: `examples`, each behind the program's name.

    They run one after the other in an empty folder. An example that needs more is a pair: the line, and what it needs.
    """

    def __init__(self, *arguments, examples=(), **options):
        super().__init__(*arguments, **options)
        self.examples = tuple((each, "") if isinstance(each, str) else each for each in examples)

    def format_epilog(self, ctx, formatter):
        """The examples. Click would wrap them, and a line that is wrapped cannot be copied."""
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                margin = " " * formatter.current_indent
                for line, needs in self.examples:
                    formatter.write(f"{margin}{ctx.find_root().info_name} {line}\n")
                    if needs:
                        formatter.write(f"{margin}    needs {needs}\n")


class ExampleCommand(_Examples, click.Command):
    """A command with examples, which suggests --kernel for a file without an option."""

    def parse_args(self, ctx, args):
        """As click does, which would refuse arguments that are left over without a suggestion."""
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
    """A group of commands, whose summaries are not cut. `following` is the command that one would try next."""

    command_class = ExampleCommand

    def __init__(self, *arguments, following="", **options):
        # Click's own help for a group alone is an exit with 0 before version 8.2, and an error since.
        super().__init__(*arguments, no_args_is_help=False, **options)
        self.following = following

    def parse_args(self, ctx, args):
        """As click does. Where there is nothing to parse: the help, and a usage error, for nothing was done."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            raise click.UsageError(f"missing command; try `{self.following}`")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx, args):
        """As click does, with the nearest names where there is no such command."""
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.list_commands(ctx), n=3)
            suggestion = f"; did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"no such command '{name}'{suggestion}")
        return super().resolve_command(ctx, args)

    def summaries(self, ctx):
        """(name, summary) of each command, in the order of the list."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        return [(name, command.get_short_help_str(_WHOLE)) for name, command in commands]

    def format_commands(self, ctx, formatter):
        """The list of commands in --help."""
        with formatter.section("Commands"):
            formatter.write_dl(self.summaries(ctx))

    def shell_complete(self, ctx, incomplete):
        """Names of commands, with whole summaries; behind a hyphen the group's own options."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(n, help=said) for n, said in self.summaries(ctx) if n.startswith(incomplete)]
