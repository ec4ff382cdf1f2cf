"""Gets the table from the other machine: python get.py URI, which serve.py printed there."""

import os
import sys

import pyarrow as pa

import crossdock as xd

with xd.connect(sys.argv[1], token=os.environ["CROSSDOCK_TOKEN"]) as client:
    print(pa.table(client.get("weather")))
