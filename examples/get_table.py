"""Gets a table from another process, and reads it where it lies.

python examples/serve_table.py              # in another terminal; prints the URI
python examples/get_table.py URI weather
"""

import sys

import pyarrow as pa

import crossdock as xd


def main(uri: str, name: str) -> None:
    with xd.connect(uri) as client:
        for entry in client.list():
            print(f"{entry.name!r}: {entry.rows} rows, {entry.bytes} bytes")
        # polars.DataFrame(reader), duckdb and others take it as well. The columns lie in the server's memory.
        table = pa.table(client.get(name))
    print(table)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: get_table.py URI NAME, where examples/serve_table.py prints the URI and serves 'weather'")
    main(*sys.argv[1:])
