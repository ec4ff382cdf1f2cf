"""`crossdock devices`: lists drivers, their devices, and networks."""

from __future__ import annotations

from typing import Annotated

import typer

from crossdock import _native, _options
from crossdock._text import shown
from crossdock.cli.app import app
from crossdock.cli.help_texts import EXIT_CODES
from crossdock.cli.layout import terminal_width, wrapped
from crossdock.cli.output import print_left_out, print_table
from crossdock.cli.reporting import reported
from crossdock.cli.sections import Command
from crossdock.cli.units import bytes_in_prose

_EXAMPLES = """Examples:

crossdock devices --json
"""


@app.command(cls=Command, short_help="Lists drivers, their devices, and networks.", epilog=_EXAMPLES + EXIT_CODES)
def devices(
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")] = False,
) -> None:
    """Lists the drivers and their devices, with the devices' names and kinds of memory. Says why a driver is missing.
    Then lists the libraries of networks."""
    with reported():
        drivers = _native.devices()
        networks = _options.networks()
        if as_json:
            import json

            print(json.dumps({"drivers": drivers, "networks": networks}, default=str))
            return
        rows = [
            (
                driver["driver"],
                str(device["device"]),
                device["filter"],
                bytes_in_prose(device["memory"]) if device["memory"] else "",
                " ".join(device["usm_types"]),
                device["name"],
            )
            for driver in drivers
            for device in driver["devices"]
        ]
        left_out = print_table(("driver", "device", "filter string", "memory", "kinds", "name"), rows, frozenset((3,)))
        print_left_out(left_out, hint="; --json has all")
        for driver in drivers:
            if not driver["devices"]:
                why = "; ".join(driver["tried"]) or "tests make simulated ones (crossdock.testing)"
                text = f"{driver['driver']}: {'no devices' if driver['found'] else 'not found'}: {why}"
                print(wrapped(shown(text), terminal_width()))
        for network in networks:
            provider = f"{network['provider']} of " if "provider" in network else ""
            library = f"{network['library']}, version {network['version']}"
            why = "; ".join(one.removeprefix(f"{network['transport']}: ") for one in network["tried"])
            if network["found"]:
                text = provider + library
            elif network["library"]:
                text = f"{library}, can't be used: {why}"
            else:
                text = f"not found: {why}"
            print(wrapped(shown(f"{network['transport']}: {text}"), terminal_width()))
