"""docs/reference/cli.md has every option of every command, and no other."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest
import typer
from tests.pages import ROOT, blocks, runs

from crossdock.cli import application

PAGE = "docs/reference/cli.md"
TEXT = (ROOT / PAGE).read_text()
TOP: Any = typer.main.get_command(application())
CONTEXT = TOP.make_context("crossdock", [], resilient_parsing=True)
COMMANDS = TOP.list_commands(CONTEXT)
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


class Option(NamedTuple):
    names: tuple[str, ...]
    """Its long and short forms, and those that say no."""
    is_flag: bool
    repeats: bool


def options(command: Any) -> list[Option]:
    return [
        Option((*one.opts, *one.secondary_opts), one.is_flag, one.multiple)
        for one in command.params
        if one.param_type_name == "option"
    ]


def names(found: list[Option]) -> set[str]:
    return {name for option in found for name in option.names}


OPTIONS = {name: options(TOP.get_command(CONTEXT, name)) for name in COMMANDS}
OF_ALL = {*names(options(TOP)), *CONTEXT.help_option_names}


class Use(NamedTuple):
    """An option in a usage form."""

    name: str
    value: str
    repeats: bool


USE = re.compile(r"(--?(?:\[no-\])?[a-z][\w-]*(?:…)?)(?: (?!--?[a-z\[])([^\s\]]+))?(\]\.\.\.)?")


def uses(form: str, every: set[str]) -> list[Use]:
    """The options of a form. `--[no-]x` is two of them, and `--tls-…` all that begin like this."""
    found = []
    for name, value, repeats in USE.findall(form):
        if name.endswith("…"):
            found += [Use(one, "FILE", False) for one in sorted(every) if one.startswith(name[:-1])]
        else:
            both = [name.replace("[no-]", ""), name.replace("[no-]", "no-")]
            found += [Use(one, "" if value == "|" else value, bool(repeats)) for one in dict.fromkeys(both)]
    return found


def forms(command: str) -> list[str]:
    lines = [line.split(" ", 2) for line in blocks("text", PAGE)[0].splitlines()]
    assert {line[0] for line in lines} == {"crossdock"}
    assert {line[1] for line in lines} == set(COMMANDS)
    return [" ".join(line[2:]) for line in lines if line[1] == command]


def section(heading: str) -> str:
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,2}} |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None, f"the page has no part on {heading}"
    return found[2]


def in_code(text: str) -> set[str]:
    """The options that a text has as code."""
    return {name for code in re.findall(r"`([^`\n]+)`", text) for name in OPTION.findall(code)}


def table_of_options() -> str:
    """The first column of the table of a server's options."""
    rows = re.search(r"^\| option \| key \| value \|\n\|[- |]+\|\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    assert rows is not None
    return "\n".join(row.split("|")[1] for row in rows[1].splitlines())


@runs("text", "docs/reference/cli.md", 0)
@pytest.mark.parametrize("command", COMMANDS)
def test_the_forms_have_every_option(command):
    every = names(OPTIONS[command])
    used = [use for form in forms(command) for use in uses(form, every)]
    assert {use.name for use in used} - every == set(), "no such option"
    known = {use.name for use in used} | (in_code(table_of_options()) if command == "serve" else set())
    assert [option.names for option in OPTIONS[command] if not known & set(option.names)] == []
    by_name = {name: option for option in OPTIONS[command] for name in option.names}
    assert [use for use in used if bool(use.value) == by_name[use.name].is_flag] == [], "with a value or without"
    assert [use for use in used if use.repeats != by_name[use.name].repeats] == [], "more than once, or not"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_text_has_every_name_of_an_option(command):
    """A short form beside the long one, and what negates a flag."""
    said = in_code(section(command)) | {use.name for form in forms(command) for use in uses(form, set())}
    said |= in_code(section("serve")) | in_code(table_of_options())
    said |= {name for name in names(OPTIONS[command]) if name.startswith("--tls-")}  # in the part on TLS, for all
    assert names(OPTIONS[command]) - said == set()


def test_the_table_has_the_options_of_serve():
    before = {"--log-level", "--log-json"}  # as the table says
    assert in_code(table_of_options()) - before <= names(OPTIONS["serve"])
    # Those that a configuration file has no key for.
    of_the_command = {"--name", "--config", "--check"}
    assert names(OPTIONS["serve"]) - of_the_command == in_code(table_of_options()) - before


def test_the_options_before_a_command_are_listed():
    begin = TEXT.partition("\n## ")[0]
    assert OF_ALL - in_code(begin) == set()


def test_every_option_of_the_page_is_one():
    ours = OF_ALL | set().union(*(names(found) for found in OPTIONS.values()))
    assert {name for name in in_code(TEXT) if name.startswith("--")} - ours == set()


def test_a_form_is_read():
    assert uses("[--uri URI]... [--[no-]checksum] [-o FILE | -o - [--format F] | --json] [--tls-…]", {"--tls-key"}) == [
        Use("--uri", "URI", True),
        Use("--checksum", "", False),
        Use("--no-checksum", "", False),
        Use("-o", "FILE", False),
        Use("-o", "-", False),
        Use("--format", "F", False),
        Use("--json", "", False),
        Use("--tls-key", "FILE", False),
    ]
