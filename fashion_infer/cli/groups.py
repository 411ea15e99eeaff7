"""Commands that only have commands: alone they show their help, and what to try next."""

import click

_WHOLE = 1000  # characters of a summary that a list shows: all of its first sentence


class Group(click.Group):
    """A group of commands, whose summaries are not cut. `following` is the command that one would try next."""

    def __init__(self, *arguments, following="", **options):
        # Click's own help for a group alone is an exit with 0 before version 8.2, and an error since.
        super().__init__(*arguments, no_args_is_help=False, **options)
        self.following = following

    def parse_args(self, ctx, args):
        """As click does. Where there is nothing to parse: the help, and a usage error, for nothing was done."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            raise click.UsageError(f"no command is named; next: try `{self.following}`")
        return super().parse_args(ctx, args)

    def summaries(self, ctx):
        """(name, summary) of each command, in the order of the list."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        return [(name, command.get_short_help_str(_WHOLE)) for name, command in commands]

    def format_commands(self, ctx, formatter):
        """The list of commands in --help."""
        with formatter.section("Commands"):
            formatter.write_dl(self.summaries(ctx))
