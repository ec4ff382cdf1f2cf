"""The configuration file of `crossdock serve`."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import crossdock as xd
from crossdock._files import is_pem_text, read_small, shown_path
from crossdock._names import parsed_name, shown_name
from crossdock._text import class_of, quoted, shown
from crossdock.cli.files import check_is_no_url
from crossdock.cli.settings import SETTINGS, Place, WrongValueError, meant, refuse_pem_text

_MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class TableSource:
    """What is published under a name. `stable`: None: as the server's option says."""

    path: Path
    stable: str | None
    where: str = field(default="", compare=False)
    """Where a configuration file says it, which other lines change; empty for a file of the command line."""


class Config(NamedTuple):
    """What a file says. Paths are absolute: the file's folder is where they begin."""

    settings: Mapping[str, Any]  # by Setting.name
    places: Mapping[str, Place]  # of these settings
    tables: Mapping[str | bytes, TableSource]


_KEYS = {tuple(setting.key.split(".")): setting for setting in SETTINGS}
_SECTIONS = {key[0] for key in _KEYS} | {"tables"}


def read_config(path: Path) -> Config:
    """Raises InvalidArgumentError, which says file, line and key; NotFoundError and PermissionError for the file."""
    text = _read(path)
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise xd.InvalidArgumentError(f"{shown_path(path)} isn't TOML, or is half written: {error}") from None
    except (RecursionError, ValueError) as error:  # nested too deep; a number of too many digits
        raise xd.InvalidArgumentError(f"{shown_path(path)} can't be read: {error}") from None
    if not content:
        raise xd.InvalidArgumentError(
            f"{shown_path(path)} is empty, perhaps half written; to serve no table, write [tables]"
        )
    return _Checker(path, text).config(content)


def _read(path: Path) -> str:
    content = read_small(
        path,
        f"the configuration file {shown_path(path)}",
        _MOST_BYTES,
        lambda descriptor: _refuse_writers(path, descriptor),
    )
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise xd.InvalidArgumentError(f"{shown_path(path)}, line {line}: it isn't UTF-8") from None


def _refuse_writers(path: Path, descriptor: int) -> None:
    """Refuses a file that a process has open for writing: the rest of it may follow. Holds a read lease until the
    descriptor is closed, which writers wait for; not every file system has leases, nor may every user take them."""
    # The signal that a writer waits is one that does nothing, in place of SIGIO, which would end the process.
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        raise xd.InvalidArgumentError(
            f"{shown_path(path)} is being written by another process: it may be half written, so it isn't read"
        ) from None
    except OSError:
        pass


class _Checker:
    """Checks what one file has."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = shown_path(path)
        self._folder = path.absolute().parent
        self._lines = _lines_of(text)

    def config(self, content: dict[str, Any]) -> Config:
        settings: dict[str, Any] = {}
        places: dict[str, Place] = {}
        tables: dict[str | bytes, TableSource] = {}
        for section, values in content.items():
            if section not in _SECTIONS:
                self._fail_unknown((section,), "table", _SECTIONS)
            if not isinstance(values, dict):
                self._fail((section,), f"must be a table, [{section}], not {class_of(values)}")
            if section == "tables":
                tables = dict(self._table(name, value) for name, value in values.items())
                if len(tables) != len(values):
                    self._fail((section,), "has two names that stand for the same")
                continue
            for key, value in (((section,), values),) if (section,) in _KEYS else self._keys(section, values):
                name = _KEYS[key].name
                settings[name] = self._value(key, value)
                places[name] = Place(name, self._line(key))
        return Config(settings, places, tables)

    def _keys(self, section: str, values: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
        for key, value in values.items():
            if (section, key) not in _KEYS:
                self._fail_unknown((section, key), "key", [known[1] for known in _KEYS if known[0] == section])
            yield (section, key), value

    def _value(self, key: tuple[str, ...], value: Any) -> Any:
        try:
            read = _KEYS[key].value_of(value)
        except WrongValueError as error:
            self._fail(key if error.part is None else (*key, error.part), str(error))
        return self._folder / read if isinstance(read, Path) else read

    def _table(self, name: str, value: Any) -> tuple[str | bytes, TableSource]:
        key = ("tables", name)
        try:
            refuse_pem_text(value)
        except WrongValueError as error:
            self._fail(key, str(error))
        if isinstance(value, str):
            value = {"path": value}
        if not isinstance(value, dict):
            self._fail(key, f"must be a path, or a table with path and stable, not {quoted(value)}")
        for one in value:
            if one not in ("path", "stable"):
                self._fail_unknown((*key, one), "key", ("path", "stable"))
        path, stable = value.get("path"), value.get("stable")
        if not isinstance(path, str) or not path or "\0" in path:
            self._fail((*key, "path"), f"must be the path of a file or folder, not {quoted(path)}")
        if stable not in (None, "trust", "snapshot"):
            self._fail((*key, "stable"), f"must be 'trust' or 'snapshot', not {quoted(stable)}")
        if not name or "\0" in name:
            self._fail(key, "is no name of a table: it is empty, or has a NUL")
        try:
            if not os.path.exists(self._folder / path):
                check_is_no_url(path)
            return parsed_name(name), TableSource(self._folder / path, stable, self._where(key))
        except xd.InvalidArgumentError as error:
            self._fail(key, str(error))

    def _fail_unknown(self, key: tuple[str, ...], kind: str, known: Iterable[str]) -> NoReturn:
        self._fail(key, f"is no {kind} of this file: {meant(key[-1], known)}")

    def _fail(self, key: tuple[str, ...], problem: str) -> NoReturn:
        raise xd.InvalidArgumentError(f"{self._where(key)} {problem}")

    def _where(self, key: tuple[str, ...]) -> str:
        return f"{self._line(key)}: {shown('.'.join(_quoted(part) for part in key))}"

    def _line(self, key: tuple[str, ...]) -> str:
        parts = (key[:length] for length in range(len(key), 0, -1))
        line = next((self._lines[part] for part in parts if part in self._lines), None)
        return f"{self._path}, line {line}" if line else self._path


def _quoted(part: str) -> str:
    if is_pem_text(part):
        return "(a PEM text)"
    return part if re.fullmatch("[A-Za-z0-9_-]+", part) else f'"{part}"'


_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*')"""
_DOTTED = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*+"
_BETWEEN = re.compile(r"(?:[ \t\n]|\#[^\n]*)*+")
_HEADER = re.compile(rf"\[\[?[ \t]*({_DOTTED})[ \t]*\]\]?")
_ASSIGNED = re.compile(rf"({_DOTTED})[ \t]*=")
_TOKEN = re.compile(
    r"""
    "{3}(?:[^"\\]|\\.|"{1,2}(?!"))*+"{3,5}      # texts of several lines, which may end with quotes of their own
    | '{3}(?:[^']|'{1,2}(?!'))*+'{3,5}
    | "(?:[^"\\]|\\.)*+" | '[^']*'
    | \#[^\n]*
    | (?P<opens>[\[{]) | (?P<closes>[\]}])
    | (?P<ends>\n)
    | [^"'\#\[\]{}\n]+
    """,
    re.DOTALL | re.VERBOSE,
)
_MOST_PARTS = 3  # of a key that is asked for: tables.NAME.path


def _parts_of(dotted: str) -> tuple[str, ...]:
    found: Any = tomllib.loads(f"{dotted} = 0")
    parts = []
    while isinstance(found, dict):
        ((part, found),) = found.items()
        parts.append(part)
    return tuple(parts)


def _end_between(text: str, start: int) -> int:
    """Returns where blanks, empty lines and comments end."""
    return found.end() if (found := _BETWEEN.match(text, start)) else start


def _end_of_value(text: str, start: int) -> int:
    """Returns where the line of the end of a value ends."""
    depth = 0
    while token := _TOKEN.match(text, start):
        start = token.end()
        if token["opens"]:
            depth += 1
        elif token["closes"]:
            depth -= 1
        elif token["ends"] and depth == 0:
            break
    return start


def _lines_of(text: str) -> dict[tuple[str, ...], int]:
    """The lines where keys, and what they are in, are set first, in a text that is TOML. tomllib doesn't tell. Keys in
    tables in braces aren't there."""
    text = text.replace("\r\n", "\n")
    lines: dict[tuple[str, ...], int] = {}
    within: tuple[str, ...] = ()
    number, counted, position = 1, 0, 0
    while (position := _end_between(text, position)) < len(text):
        if header := _HEADER.match(text, position):
            within = here = _parts_of(header[1])
            position_after = header.end()
        elif assigned := _ASSIGNED.match(text, position):
            here = within + _parts_of(assigned[1])
            position_after = _end_of_value(text, assigned.end())
        else:
            break  # tomllib takes what this doesn't know
        number, counted = number + text.count("\n", counted, position), position
        for length in range(1, min(len(here), _MOST_PARTS) + 1):
            lines.setdefault(here[:length], number)
        position = position_after
    return lines


def shown_names(names: Iterable[str | bytes], most: int = 10) -> str:
    """Names for a line of the log."""
    listed = [shown(shown_name(name)) for name in names]
    return ", ".join(listed[:most]) + (f" and {len(listed) - most:,} more" if len(listed) > most else "")
