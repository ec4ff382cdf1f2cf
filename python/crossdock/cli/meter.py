"""The progress of `crossdock get`: a bar on a terminal, and a line at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import crossdock as xd
from crossdock._names import shown_name
from crossdock._text import counted, shown
from crossdock.cli.units import bytes_in_prose


class Meter:
    """Counts the received data. Shows a progress bar on a terminal; summary() is a line for the end."""

    def __init__(self, name: str | bytes, rows: int | None, to_stdout: bool = False, parts: bool = False) -> None:
        """to_stdout: the data goes there, where a bar would be between its lines if it is the same terminal.
        parts: batches are parts of those that were sent: their bytes are those of the whole, and aren't told."""
        self.rows = self.bytes = self.batches = 0
        self._name = shown_name(name)
        self._parts = parts
        self._start = time.monotonic()
        self._shown = 0.0
        console = Console(stderr=True, emoji=False)
        self._progress = (
            Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,} rows  {task.fields[size]}  {task.fields[rate]}/s"),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
            if console.is_terminal and not (to_stdout and sys.stdout.isatty())
            else None
        )
        if self._progress is not None:
            self._task = self._progress.add_task(escape(shown(self._name)), total=rows, size="0 B", rate="0 B")

    def add(self, batch: xd.RecordBatch) -> None:
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        self.batches += 1
        now = time.monotonic()
        if self._progress is not None and now - self._shown > 0.1:
            self._shown = now
            self._progress.update(
                self._task,
                completed=self.rows,
                size=bytes_in_prose(self.bytes),
                rate=bytes_in_prose(self.bytes / self._seconds()),
            )

    def counting(self, batches: Iterable[xd.RecordBatch]) -> Iterator[xd.RecordBatch]:
        for batch in batches:
            self.add(batch)
            yield batch

    def _seconds(self) -> float:
        return max(time.monotonic() - self._start, 1e-6)

    def summary(self) -> str:
        seconds = self._seconds()
        count = f"{counted(self.rows, 'row')} in {counted(self.batches, 'batch', 'batches')}"
        if self._parts:
            return f"{shown(self._name)}: {count}, {seconds:.3f} s"
        speed = f"{bytes_in_prose(self.bytes / seconds)}/s"
        return f"{shown(self._name)}: {count}, {bytes_in_prose(self.bytes)}, {seconds:.3f} s, {speed}"

    def __enter__(self) -> Meter:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()
