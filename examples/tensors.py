"""Serves the arrays of a model, and gets them in another process: mapped, and into memory of the caller's.

python examples/tensors.py
"""

import subprocess
import sys

import numpy as np

import crossdock as xd


def get(uri: str) -> None:
    with xd.connect(uri) as client:
        for entry in client.list():
            print(f"{entry.name!r}: {entry.kind}, {entry.bytes} bytes")
        table = np.asarray(client.tensor("embedding"))  # in the server's memory; torch.from_dlpack() takes it, too
        print("rows:", len(table), "writable:", table.flags.writeable)
        model = client.tensors("model")  # in nested dictionaries, as they were served
        print("bias:", np.asarray(model["layer"]["bias"]))
        weight = np.empty((3, 2), "f4")
        client.tensor("weight", out=weight)
        print("weight:", weight.tolist())


def main() -> None:
    weight = np.arange(6, dtype="f4").reshape(3, 2)
    model = {"layer": {"weight": weight, "bias": np.ones(3, "f4")}, "step": np.array(7)}
    embedding = xd.Arena().empty((1000, 64), "f4")  # memory that is handed over, not copied
    embedding[:] = 1
    with xd.serve({"embedding": embedding, "weight": weight, "model": model}) as server:
        subprocess.run([sys.executable, __file__, server.uri], check=True)
        copied = {source["name"]: source["bytes_copied"] for source in server.stats()["sources"]}
        print("copied:", copied, flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        get(sys.argv[1])
    else:
        main()
