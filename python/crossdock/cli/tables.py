"""The tables that `crossdock serve` has published from files, and how they change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

import crossdock as xd
from crossdock import _loading, _native
from crossdock._names import shown_name
from crossdock._text import counted, naming, shown
from crossdock.cli.config import TableSource, shown_names
from crossdock.cli.output import pyarrow_for

log = logging.getLogger("crossdock.cli")


class _Published(NamedTuple):
    source: TableSource
    state: object  # of the file, before it was read


class Changes(NamedTuple):
    """What an update has done."""

    added: int
    replaced: int
    withdrawn: int
    unchanged: int

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {what}" for what, count in self._asdict().items())


@contextmanager
def naming_source(source: TableSource) -> Iterator[None]:
    """Has errors name the file, and where the configuration file names it."""
    with naming(source.where) if source.where else nullcontext():
        try:
            yield
        except xd.Error as error:
            if str(source.path) in str(error):
                raise
            with naming(source.path):
                raise


def state_of(source: TableSource) -> object:
    """What changes when its file does. Raises NotFoundError and others, which name it."""
    with naming_source(source):
        return _loading.state_of(source.path)


class Tables:
    """Used by one thread. `check` is called while files are read, and ends that by raising."""

    def __init__(self, server: xd.Server, check: Callable[[], None]) -> None:
        self._server = server
        self._check = check
        self._published: dict[str | bytes, _Published] = {}

    def __len__(self) -> int:
        return len(self._published)

    def publish(self, sources: Mapping[str | bytes, TableSource]) -> None:
        """Publishes one after the other, so that the first are there while the others are read."""
        for name, source in sources.items():
            self._check()
            state = state_of(source)
            self._server._native.commit([self._prepare(name, source)], [])
            self._published[name] = _Published(source, state)
            log.info("published %s: %s", shown(shown_name(name)), source.path)

    def update(self, sources: Mapping[str | bytes, TableSource]) -> Changes:
        """Publishes `sources` instead of what there is, in one step. Files that are the same aren't read again. If
        anything can't be read, it raises, and nothing has changed."""
        wanted: dict[str | bytes, _Published] = {}
        for name, source in sources.items():
            wanted[name] = _Published(source, state_of(source))
        changed = [name for name, one in wanted.items() if self._published.get(name) != one]
        prepared = []
        for name in changed:
            self._check()
            prepared.append(self._prepare(name, sources[name]))
        gone = [name for name in self._published if name not in wanted]
        self._commit(prepared, gone)
        replaced = [name for name in changed if name in self._published]
        changes = Changes(len(changed) - len(replaced), len(replaced), len(gone), len(wanted) - len(changed))
        for what, names in (("published", set(changed) - set(replaced)), ("replaced", replaced), ("withdrew", gone)):
            if names:
                log.info("%s %s: %s", what, counted(len(names), "table"), shown_names(names))
        self._published = wanted
        return changes

    def _commit(self, prepared: list[_native.Prepared], gone: Iterable[str | bytes]) -> None:
        self._server._native.commit(prepared, [name.encode() if isinstance(name, str) else name for name in gone])

    def _prepare(self, name: str | bytes, source: TableSource) -> _native.Prepared:
        """Reads a file. Shows on a terminal how much of it was read, and how long the rest may take, if it isn't passed
        as it lies."""
        with naming_source(source):
            if not _loading.is_loadable(source.path, "auto"):
                return self._server._prepare(name, source.path, "auto", source.stable, True, None)
            return self._load(name, source.path)

    def _load(self, name: str | bytes, path: Path) -> _native.Prepared:
        console = Console(stderr=True, emoji=False)
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown_progress:
            task = shown_progress.add_task(escape(f"reading {shown(path.name)}"), total=1.0)

            def said(part: float) -> None:
                self._check()
                shown_progress.update(task, completed=part)

            pyarrow_for(path, "reading").enable_signal_handlers(False)  # ours end the reading
            return self._server._prepare(name, path, "auto", None, True, None, said)
