"""Arrow files: written compressed, opened where they lie, read in any order.

python examples/files.py [FOLDER]
"""

import sys
import tempfile
from pathlib import Path

import pyarrow as pa

import crossdock as xd


def main(folder: Path) -> None:
    batches = [pa.record_batch({"n": range(first, first + 1000)}) for first in range(0, 5000, 1000)]
    table = pa.Table.from_batches(batches)

    plain, small = folder / "plain.arrow", folder / "small.arrow"
    xd.write(table, plain)
    xd.write(plain, small, compression="zstd")  # a path is a source, too
    print("compressed is smaller:", small.stat().st_size < plain.stat().st_size)

    with xd.open(plain) as reader:
        print(f"{reader.num_batches} batches, {reader.num_rows} rows")
        print("the last value:", pa.record_batch(reader[-1])["n"][-1])  # a view of the file: nothing was copied
        print("equal:", pa.table(reader).equals(table))
    with xd.open(small, validation="full") as reader:
        print("equal:", pa.table(reader).equals(table))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
