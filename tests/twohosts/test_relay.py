"""A relay in the clients' host: what its consumers read comes over the cable once."""

from __future__ import annotations

import sys

import pytest

GET = """
relay = sys.argv[2]
with xd.connect(relay) as client:
    say("ready")
    sys.stdin.readline()
    assert pa.record_batch(next(client.get("wide"))) == data.wide()
    assert pa.table(client.get("table")).equals(data.table())
    say("got")
    sys.stdin.readline()
"""


@pytest.mark.long
def test_four_consumers_and_one_fetch(hosts, serve, client, program, uri):
    serve()
    relay = program(*hosts.client.within, sys.executable, "-m", "crossdock", "relay", uri, "--at", "shm:near")
    assert relay.read_line() == "shm:near"
    before = hosts.client.received()
    consumers = [client(GET, "shm:near") for _ in range(4)]
    for one in consumers:
        assert one.read_line() == "ready"
    for one in consumers:
        one.write_line()
    for one in consumers:
        assert one.read_line() == "got"
    received = hosts.client.received() - before
    for one in consumers:
        one.write_line()
        one.finish()
    assert 32e6 < received < 40e6, "one table of 32 MB, and not four"
    relay.process.terminate()
    relay.finish()
