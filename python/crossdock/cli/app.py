"""The command `crossdock` without its subcommands, each of which is a module beside this one."""

from __future__ import annotations

from typing import Annotated

import typer

import crossdock as xd
from crossdock._text import quoted
from crossdock.cli import reporting
from crossdock.cli.help_texts import EXIT_CODES, TOKEN
from crossdock.cli.logs import LEVELS, set_up_logging
from crossdock.cli.reporting import OK

app = typer.Typer(
    help="Passes tables and tensors from one process to another, without a copy where that is possible.",
    rich_markup_mode=None,  # plain help: rich's boxes break lines, and show a type for flags
    epilog=TOKEN + EXIT_CODES,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"crossdock {xd.__version__}")
        raise typer.Exit(OK)


@app.callback()
def _common(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback with an error, and log everything.")] = False,
    log_level: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL",
            help=f"Log messages of this level and above on stderr: {', '.join(LEVELS)}. Default: warning.",
            show_default=False,
        ),
    ] = None,
    log_json: Annotated[
        bool | None,
        typer.Option(
            "--log-json/--log-text",
            help="Log as JSON, one object on each line, errors included; or as text. Default: as text.",
            show_default=False,
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    reporting.show_tracebacks = debug
    if log_level is not None and log_level not in LEVELS:
        raise typer.BadParameter(
            f"must be one of {', '.join(LEVELS)}, not {quoted(log_level)}", param_hint="--log-level"
        )
    set_up_logging(debug, log_level, log_json)
