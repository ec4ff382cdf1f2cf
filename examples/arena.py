"""Builds a table in memory that can be handed over as it is: publishing it copies nothing.

python examples/arena.py
"""

import numpy as np
import pyarrow as pa

import crossdock as xd


def main() -> None:
    arena = xd.Arena()
    signal = arena.empty(1_000_000)  # A NumPy array in the arena.
    np.sin(np.linspace(0, 20, len(signal)), out=signal)
    # pa.array() would copy; py_buffer() looks at the same memory.
    column = pa.Array.from_buffers(pa.float64(), len(signal), [None, pa.py_buffer(signal)])

    with xd.serve({"signal": pa.record_batch([column], ["value"])}) as server:
        (source,) = server.stats()["sources"]
        print(f"{source['bytes']} bytes served, {source['bytes_copied']} copied")
        print("read-only now:", not signal.flags.writeable)
        with xd.connect(server.uri) as client:
            got = pa.table(client.get("signal"))
    print("equal:", got.column("value").chunk(0).equals(column))


if __name__ == "__main__":
    main()
