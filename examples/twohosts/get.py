"""Gets the table from the other machine: python get.py URI, which serve.py printed there."""

import os
import sys

import pyarrow as pa

import crossdock as xd

if len(sys.argv) != 2:
    sys.exit("usage: CROSSDOCK_TOKEN=SECRET python get.py URI, where serve.py prints the URI and has the same token")
with xd.connect(sys.argv[1], token=os.environ["CROSSDOCK_TOKEN"]) as client:
    print(pa.table(client.get("weather")))
