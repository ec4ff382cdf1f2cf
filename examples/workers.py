"""Worker processes that are given one large frame, and return large arrays, without copies through pipes.

python workers.py
"""

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import crossdock.multiprocessing

try:
    import pandas as pd  # type: ignore[import-untyped]
except ModuleNotFoundError:
    sys.exit("this needs pandas: pip install pandas")


def column_sum(frame: pd.DataFrame, name: str) -> float:
    return float(frame[name].sum())


def squares(n: int) -> np.ndarray:
    return np.arange(n, dtype="f8") ** 2


def main() -> None:
    crossdock.multiprocessing.install()
    frame = pd.DataFrame(np.random.default_rng(1).random((1_000_000, 8)), columns=list("abcdefgh"))
    with ProcessPoolExecutor(
        2,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=crossdock.multiprocessing.install,  # workers send, too
    ) as workers:
        sums = workers.map(column_sum, [frame] * 8, frame.columns)  # 64 MB, copied once for 8 tasks
        for name, total in zip(frame.columns, sums, strict=True):
            print(f"{name}: {total:.1f}")
        result = workers.submit(squares, 1_000_000).result()
        result[:3] = -1  # what was received can be written to
        print(result[:5])


if __name__ == "__main__":
    main()
