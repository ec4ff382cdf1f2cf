"""Serves a table to other machines: python serve.py tcp://ADDRESS:PORT, with an address of this machine."""

import os
import sys

import pyarrow as pa

import crossdock as xd

if len(sys.argv) != 2:
    sys.exit("usage: CROSSDOCK_TOKEN=SECRET python serve.py tcp://ADDRESS:PORT, with an address of this machine")
token = os.environ.get("CROSSDOCK_TOKEN")
if not token:
    sys.exit("CROSSDOCK_TOKEN isn't set: set it to the same secret on both machines, as this folder's README.md says")
weather = pa.table({"station": ["JFK", "LGA", "EWR"], "celsius": [11.5, 12.0, 10.25]})
checksum = True if sys.argv[1].startswith("tcp:") else None  # ucx and fabric have none
with xd.serve({"weather": weather}, sys.argv[1], token=token, checksum=checksum) as server:
    print(server.uri, flush=True)
    input("Enter ends it.\n")
