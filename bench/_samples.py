"""Reading batches with pyarrow, or ours by column, the same way for every way they may come, and what that took."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

COLUMNS = 8


def make_batches(batch_bytes: int, sets: int) -> list[pa.RecordBatch]:
    """As tables.cc makes them: all values of batch i are i + 1."""
    rows = batch_bytes // COLUMNS // 8
    names = [f"f{i}" for i in range(COLUMNS)]
    return [pa.record_batch([pa.array(np.full(rows, i + 1.0)) for _ in names], names=names) for i in range(sets)]


def read_first(batch: pa.RecordBatch, expected: pa.RecordBatch) -> None:
    """The first value of every buffer, compared by pyarrow in one call: asking for the buffers one by one in Python
    takes longer than all the rest (8 µs for 8 columns, where this takes 2)."""
    if not batch.slice(0, 1).equals(expected):
        raise ValueError("another batch came than the one that was due")


def read_sum(batch: pa.RecordBatch, expected: pa.RecordBatch) -> None:
    """Every byte: each column is summed, by NumPy."""
    for column in batch.columns:
        values = np.frombuffer(column.buffers()[1], "f8", len(column))
        if np.add.reduce(values) != values[0] * len(values):
            raise ValueError("a column arrived with a wrong sum")


def read_columns(batch: Any, expected: pa.RecordBatch) -> None:
    """The first value of each column of one of our batches, by batch[i]."""
    values = [batch[i][0] for i in range(COLUMNS)]
    if values[-1] != values[0]:
        raise ValueError("a column arrived with another value than the others")


READS: dict[str, Callable[[Any, Any], None]] = {"first": read_first, "sum": read_sum, "columns": read_columns}


def consume(
    batches: Iterator[pa.RecordBatch], read: str, sets: int, warm_up: int, count: int, seconds: float
) -> dict[str, Any]:
    """Takes, reads and releases one batch after another; times are in nanoseconds, from the end of one batch to the end
    of the next. Ends after `count` batches or `seconds`, or with the stream, which goes round `sets` batches."""
    touch = READS[read]
    clock = time.perf_counter_ns
    samples: list[int] = []
    expected = itertools.cycle(batch.slice(0, 1) for batch in make_batches(COLUMNS * 8, sets))
    for _ in range(warm_up):
        touch(next(batches), next(expected))
    start = last = clock()
    end = start + int(seconds * 1e9)
    while len(samples) < count and last < end:
        batch = next(batches, None)
        if batch is None:
            break
        touch(batch, next(expected))
        batch = None  # released before the next one is asked for
        now = clock()
        samples.append(now - last)
        last = now
    return {"batches": len(samples), "per_batch": (last - start) / max(1, len(samples)), "period": quantiles(samples)}


def quantiles(samples: list[int]) -> dict[str, float]:
    """As samples.cc writes them; see samples.h."""
    length = min(256, max(1, len(samples) // 20))
    stretches = [statistics.fmean(samples[i : i + length]) for i in range(0, len(samples) - length + 1, length)]
    ordered = sorted(samples) or [0]

    def at(part: float) -> int:
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))]

    return {
        "n": len(samples), "stretch": statistics.median(stretches or [0.0]),
        "p50": at(0.5), "p90": at(0.9), "p99": at(0.99),
        "min": ordered[0], "max": ordered[-1], "mean": sum(ordered) / len(ordered),
    }  # fmt: skip
