"""The server of `bench.tensors`: one tensor of each size, and tables of the same bytes, until its input is closed.

python -m bench._tensors URI BYTES...
"""

from __future__ import annotations

import json
import sys

import numpy as np
import pyarrow as pa

import crossdock as xd


def main(uri: str, sizes: list[int]) -> None:
    with xd.serve(uri=uri, wait="spin" if uri.startswith("shm:") else "auto") as server:
        for size in sizes:
            values = xd.Arena().empty(size // 8, "f8")
            values[:] = 1
            server.publish(f"tensor {size}", values)
        for size in sizes:
            server.publish(f"table {size}", pa.table({"x": np.ones(size // 8)}))
        print(json.dumps({"uri": server.uri}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], [int(size) for size in sys.argv[2:]])
