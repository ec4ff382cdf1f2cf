"""Reading batches with pyarrow, the same way for every way they may come, and what that took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def read_first(batch: pa.RecordBatch) -> None:
    """One byte of every buffer."""
    for column in batch.columns:
        column.buffers()[1][0]


def read_sum(batch: pa.RecordBatch) -> None:
    """Every byte: each column is summed. All values of a column are the same (see tables.cc), which checks the sum."""
    import numpy as np

    for column in batch.columns:
        values = np.frombuffer(column.buffers()[1], "f8", len(column))
        if np.add.reduce(values) != values[0] * len(values):
            raise ValueError("a column arrived with a wrong sum")


READS: dict[str, Callable[[Any], None]] = {"first": read_first, "sum": read_sum}


def consume(batches: Iterator[pa.RecordBatch], read: str, warm_up: int, count: int, seconds: float) -> dict[str, Any]:
    """Takes, reads and releases one batch after another; times are in nanoseconds, from the end of one batch to the end
    of the next. Ends after `count` batches or `seconds`, or with the stream."""
    touch = READS[read]
    clock = time.perf_counter_ns
    samples: list[int] = []
    for _ in range(warm_up):
        touch(next(batches))
    start = last = clock()
    end = start + int(seconds * 1e9)
    while len(samples) < count and last < end:
        batch = next(batches, None)
        if batch is None:
            break
        touch(batch)
        batch = None  # released before the next one is asked for
        now = clock()
        samples.append(now - last)
        last = now
    return {"batches": len(samples), "per_batch": (last - start) / max(1, len(samples)), "period": quantiles(samples)}


def quantiles(samples: list[int]) -> dict[str, float]:
    """As samples.cc writes them."""
    ordered = sorted(samples) or [0]

    def at(part: float) -> int:
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))]

    return {
        "n": len(samples), "p50": at(0.5), "p90": at(0.9), "p99": at(0.99),
        "min": ordered[0], "max": ordered[-1], "mean": sum(ordered) / len(ordered),
    }  # fmt: skip
