"""Gets a table from another process, and reads it where it lies.

python examples/get_table.py URI NAME
"""

import sys

import pyarrow as pa

import crossdock as xd


def main(uri: str, name: str) -> None:
    with xd.connect(uri) as client:
        for entry in client.list():
            print(f"{entry.name}: {entry.rows} rows, {entry.bytes} bytes")
        # polars.DataFrame(reader), duckdb and others take it as well. The columns lie in the server's memory.
        table = pa.table(client.get(name))
    print(table)


if __name__ == "__main__":
    main(*sys.argv[1:])
