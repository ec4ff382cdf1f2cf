"""Tables and streams that are served in one host and read in the other."""

from __future__ import annotations

import pytest


def test_catalog_table_and_live_stream(hosts, serve, client):
    serve()
    before = hosts.client.received()
    client(
        """
with xd.connect(uri, checksum=checksum) as client:
    entries = {entry.name: entry for entry in client.list()}
    assert sorted(entries) == ["large", "live", "paced", "table", "wide"]
    assert entries["table"].rows == data.table().num_rows
    assert entries["table"].schema.names == data.table().schema.names
    assert pa.table(client.get("table")).equals(data.table())
    assert pa.table(client.get("table", columns=["text"])).equals(data.table().select(["text"]))
    assert [pa.record_batch(batch) for batch in client.get("live")] == list(data.live_batches())
"""
    ).finish()
    assert hosts.client.received() - before > 6.4e6, "all of that came over the cable"


@pytest.mark.long
def test_two_streams_at_once(serve, client):
    serve()
    client(
        """
with xd.connect(uri, checksum=checksum) as client, client.get("live") as one, client.get("live") as other:
    for number, batches in enumerate(zip(one, other, strict=True)):
        for batch in batches:
            assert pa.record_batch(batch) == data.live_batch(number)
    assert number == data.LIVE_BATCHES - 1
"""
    ).finish()


def test_no_server(hosts, client, uri):
    process = client("say_error(lambda: xd.connect(uri))")
    assert process.read_line().startswith("ConnectionError: ")
    process.finish()
