"""`crossdock check`: checks how an object exports its data."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from typing import Annotated, Any

import typer

import crossdock as xd
from crossdock._text import quoted, shown
from crossdock.cli.app import app
from crossdock.cli.help_texts import EXIT_CODES
from crossdock.cli.reporting import FAILED, OK, report_error, reported
from crossdock.cli.sections import Command


def _path_given(module: str, expression: str) -> typer.BadParameter:
    """Says that a module is to be given instead of a path, and which one if it is below the current folder."""
    parts = os.path.normpath(module.removesuffix(".py")).split("/")
    example = f"{'.'.join(parts)}:{expression}" if all(map(str.isidentifier, parts)) else "arrays:x for x of arrays.py"
    return typer.BadParameter(
        f"give a module ({shown(example)}), not a path ({shown(module)}); modules are found in the current folder, too"
    )


def _evaluated(target: str) -> Any:
    """Evaluates `module:expression`. Modules in the current folder can be imported."""
    module, colon, expression = target.partition(":")
    if not colon or not module or not expression.strip():
        raise typer.BadParameter(f"{quoted(target)} is not of the form module:expression, for example numpy:arange(3)")
    try:
        code = compile(expression.strip(), target, "eval")
    except SyntaxError as error:
        raise typer.BadParameter(f"{quoted(expression)} is not a valid expression: {error.msg}") from None
    if "/" in module or module.startswith("."):
        raise _path_given(module, expression)
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        names = vars(importlib.import_module(module))
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        if module.endswith(".py"):
            raise _path_given(module, expression) from None
        raise typer.BadParameter(f"there is no module {shown(module)}") from None
    try:
        return eval(code, names)
    except NameError as error:
        # Handles a missing name in the expression itself. An error inside a function that it calls is raised.
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        if error.name is None or frame.f_code.co_filename != target:
            raise
        raise typer.BadParameter(f"the module {module} has no {shown(error.name)}") from None


def _made_by(target: str, thing: object, error: TypeError) -> str | None:
    """Returns a hint for an object that can't be called without arguments, or None if that isn't the reason of
    `error`."""
    import inspect

    if not callable(thing):
        return None
    try:
        inspect.signature(thing).bind()
    except TypeError:
        module, _, expression = target.partition(":")
        return f"{target} can't be called without arguments ({error}); write '{module}:lambda: {expression}(...)'"
    except ValueError:
        pass  # A built-in without a signature.
    return None


_EXAMPLES = """Examples:

crossdock check 'numpy:arange(3)'

crossdock check 'my_library:lambda: Array(3)' --protocol dlpack
"""


@app.command(cls=Command, short_help="Checks how an object exports its data.", epilog=_EXAMPLES + EXIT_CODES)
def check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:EXPRESSION",
            help="What to check: an object, or a callable without arguments that makes one. With a callable, more "
            "rules are checked. For example 'my_library:Array', 'numpy:arange(3)' or 'pyarrow:lambda: array([1, 2])'.",
            show_default=False,
        ),
    ],
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Check only this protocol; may be given more than once. Default: all that the object has. One of "
            "dlpack, dlpack-exchange, cuda-array-interface, array-interface, buffer, sycl-usm-array-interface, "
            "arrow-schema, arrow-device-array, arrow-array, arrow-device-stream, arrow-stream.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")] = False,
) -> None:
    """Checks how an object exports its data, by the rules of each protocol. The exit code is 1 if a rule is broken."""
    with reported():
        thing: object = None
        try:
            thing = _evaluated(target)
            report = xd.check(thing, protocols=protocol or None)
        except (xd.UnsupportedTypeError, xd.InvalidArgumentError) as error:
            raise typer.BadParameter(str(error)) from None
        except (typer.BadParameter, KeyboardInterrupt):
            raise
        except Exception as error:
            instead = _made_by(target, thing, error) if isinstance(error, TypeError) else None
            if instead:
                raise typer.BadParameter(instead) from None
            report_error(error)
            raise typer.Exit(FAILED) from None
        if as_json:
            import json

            print(json.dumps(report.to_dict()))
        else:
            print(report)
    raise typer.Exit(OK if report.ok else FAILED)
