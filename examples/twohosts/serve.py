"""Serves a table to other machines: python serve.py tcp://ADDRESS:PORT, with an address of this machine."""

import os
import sys

import pyarrow as pa

import crossdock as xd

weather = pa.table({"station": ["JFK", "LGA", "EWR"], "celsius": [11.5, 12.0, 10.25]})
with xd.serve({"weather": weather}, sys.argv[1], token=os.environ["CROSSDOCK_TOKEN"], checksum=True) as server:
    print(server.uri, flush=True)
    input("Enter ends it.\n")
