"""The command line: a table of commands, each loaded when called, and one border for errors."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from lsbench import __version__
from lsbench.errors import LsbenchError

INTERRUPTED = 130

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("lsbench.cli.run:command", "Run cases, judge every element, apply the gates."),
    "compare": ("lsbench.cli.compare:command", "Compare results with a baseline."),
    "baseline": ("lsbench.cli.baseline:command", "Update or show an approved baseline."),
    "bench": ("lsbench.cli.bench:command", "Tell whether provider B is faster than A."),
    "sweep": ("lsbench.cli.sweep:command", "Run providers over whole spaces, every pair judged."),
    "merge": ("lsbench.cli.merge:command", "Add the parts of a sweep together."),
    "check": ("lsbench.cli.check:command", "Judge tensors that were computed elsewhere."),
    "export": ("lsbench.cli.export:command", "Write the inputs of cases for another machine."),
    "explain": ("lsbench.cli.explain:command", "Tell all about one pair of g and x."),
    "worst": ("lsbench.cli.worst:command", "Search for the pair of the largest error."),
    "acl": ("lsbench.cli.acl:command", "Print what a compiler needs for the C interface."),
    "list": ("lsbench.cli.list:command", "List kernels, providers, figures, layouts, inputs."),
    "env": ("lsbench.cli.env:command", "Show the machine, instruction sets and versions."),
    "schema": ("lsbench.cli.schema:command", "Print the JSON Schema of case files."),
    "init": ("lsbench.cli.init:command", "Write a commented starter case file."),
}
"""Command → ("module:attribute", help line). Nothing is imported to print the help."""


class Commands(click.Group):
    """A group that knows its commands' names and help lines without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None for a name that is not in the table."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or fail with the nearest name."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            import difflib

            close = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(COMMANDS)}"
            ctx.fail(f"no command {name!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lsbench")
def group() -> None:
    """Verify and benchmark implementations of LogSigmoid backward.

    gradInput = gradOutput / (1 + e^self), every element judged against the exact value.
    """


def main(argv: list[str] | None = None) -> NoReturn:
    """Run the command line and exit; every error of a user becomes one line and its exit status."""
    _lenient_output()
    try:
        code = group.main(argv, prog_name="lsbench", standalone_mode=False)
        _exit(code if isinstance(code, int) else 0)
    except click.exceptions.Exit as stop:
        _exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        _exit(error.exit_code)
    except LsbenchError as error:
        click.echo(f"lsbench: {error}", err=True)
        _exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("lsbench: interrupted", err=True)
        _exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader left (`lsbench list | head -1`): nothing more to say to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _exit(0)
    except MemoryError:
        click.echo("lsbench: out of memory: expected cases that fit this machine", err=True)
        _exit(LsbenchError.exit_code)


def _lenient_output() -> None:
    # A terminal that cannot show a character gets a stand-in, never a UnicodeEncodeError.
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _exit(code: int) -> NoReturn:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
