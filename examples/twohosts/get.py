"""Gets the table from the other machine: python get.py URI, which serve.py printed there."""

import os
import sys

import pyarrow as pa

import crossdock as xd

if len(sys.argv) != 2:
    sys.exit("usage: CROSSDOCK_TOKEN=SECRET python get.py URI, where serve.py prints the URI and has the same token")
token = os.environ.get("CROSSDOCK_TOKEN")
if not token:
    sys.exit("CROSSDOCK_TOKEN isn't set: set it to the same secret on both machines, as this folder's README.md says")
with xd.connect(sys.argv[1], token=token) as client:
    print(pa.table(client.get("weather")))
