"""The two ends of a read by NIXL over UCX, of host memory. Runs in the environment of bench/_peers.py.

python -m bench._nixl_ends serve --bytes N
python -m bench._nixl_ends read --bytes N --batches N --warm-up N     (what the other said, on standard input)
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time

import numpy as np

os.environ.setdefault("NIXL_LOG_LEVEL", "WARN")
# From an environment of its own (bench/_peers.py), so that it is no requirement of the tests.
nixl = importlib.import_module("nixl_cu12._api")

VALUE = 7


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("end", choices=["serve", "read"])
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--batches", type=int, default=1)
    parser.add_argument("--warm-up", type=int, default=0)
    given = parser.parse_args()
    # NIXL writes its log to standard output.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    agent = nixl.nixl_agent(given.end, nixl.nixl_agent_config(backends=["UCX"]))
    memory = np.full(given.bytes, VALUE if given.end == "serve" else 0, np.uint8)
    where = [(memory.ctypes.data, given.bytes, 0)]
    agent.register_memory([(*where[0], "")], "DRAM")
    local = agent.get_xfer_descs(where, "DRAM")
    if given.end == "serve":
        said = {"agent": agent.get_agent_metadata().hex(), "memory": agent.get_serialized_descs(local).hex()}
        print(json.dumps(said), file=answers, flush=True)
        sys.stdin.read()
        os._exit(0)

    said = json.loads(sys.stdin.readline())
    name = agent.add_remote_agent(bytes.fromhex(said["agent"]))
    remote = agent.deserialize_descs(bytes.fromhex(said["memory"]))
    transfer = agent.initialize_xfer("READ", local, remote, name)
    start = 0.0
    for i in range(given.warm_up + given.batches):
        if i == given.warm_up:
            start = time.perf_counter()
        state = agent.transfer(transfer)
        while state != "DONE":
            if state == "ERR":
                raise RuntimeError("NIXL's read failed")
            state = agent.check_xfer_state(transfer)
    per_batch = (time.perf_counter() - start) / given.batches * 1e9
    if memory[0] != VALUE or memory[-1] != VALUE:
        raise RuntimeError("NIXL read something else")
    print(json.dumps({"per_batch": per_batch}), file=answers, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
