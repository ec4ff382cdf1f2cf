"""Serves a table from this process until Enter is pressed.

    python examples/serve_table.py

Then, in another terminal: python examples/get_table.py URI weather
"""

import pyarrow as pa

import crossdock as xd


def main() -> None:
    weather = pa.table({"station": ["JFK", "LGA", "EWR"], "celsius": [11.5, 12.0, 10.25]})
    # The table is copied once into shared memory, here; consumers map that memory and copy nothing.
    with xd.serve({"weather": weather}) as server:
        print(server.uri, flush=True)
        input()
        for consumer in server.stats()["consumers"]:
            print(f"process {consumer['pid']} got {consumer['rows']} rows")


if __name__ == "__main__":
    main()
