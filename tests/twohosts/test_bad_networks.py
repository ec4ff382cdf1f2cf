"""Networks that lose packets, are slow, or reach far: streams arrive whole and unchanged all the same."""

from __future__ import annotations

import sys

import pytest
from tests.twohosts.hosts import SERVER_ADDRESS

pytestmark = pytest.mark.long

READ = """
with xd.connect(uri, checksum=checksum, timeout=30) as client:
    assert [pa.record_batch(batch) for batch in client.get("live", timeout=30)] == list(data.live_batches())
    assert pa.table(client.get("table", timeout=30)).equals(data.table())
"""


def test_lost_packets(hosts, serve, client):
    hosts.lose_packets()
    serve()
    client(READ).finish()
    assert hosts.lost_packets() > 0


def test_200_mbit(hosts, serve, client):
    hosts.limit_rate("200mbit")
    serve()
    client(READ).finish()
    assert hosts.delayed_packets() > 0


@pytest.mark.usefixtures("only_tcp")
def test_50_ms(hosts, serve, client, program, uri):
    serve()
    port = uri.rpartition(":")[2]
    delay = program(
        *hosts.server.within, sys.executable, "-m", "tests.twohosts.delay_proxy", SERVER_ADDRESS, port, "50"
    )
    client(
        """
import time
uri = f"{uri.rpartition(':')[0]}:{sys.argv[2]}"
with xd.connect(uri) as client:
    asked = time.monotonic()
    client.list()
    assert time.monotonic() - asked > 0.1, "50 ms there, 50 ms back"
"""
        + READ,
        delay.read_line(),
    ).finish()
