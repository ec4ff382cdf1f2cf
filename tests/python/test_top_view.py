"""What `crossdock top` shows of a server, in plain text and for programs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.cells import cell_len
from tests.server_samples import consumer, source, statistics

from crossdock.cli.monitor import text, view
from crossdock.cli.monitor.rates import Rates

HOSTILE = "<script>[red]\x1b[31m\n\u202e\x07" + "日" * 1_000_000


def snapshot(*answers: dict[str, Any]):
    rates = Rates()
    return [rates.add(one) for one in answers][-1]


def test_text_says_who_holds_what():
    now = snapshot(
        statistics([consumer(1), consumer(2, pid=0, peer="tcp://10.0.0.7:5")], [source("flights")]),
        statistics(
            [
                consumer(1, bytes=3 * 2**20, batches=48, leases=3, leased_bytes=196608, oldest_lease=75.0),
                consumer(2, pid=0, peer="tcp://10.0.0.7:5", carrier="tcp", way="message", name=""),
            ],
            [source("flights", rows=336776, bytes=2**25)],
            uptime=2.0,
            rejected_connections={"not_allowed": 2, "late": 0},
            protocol_errors=1,
        ),
    )
    lines = text.text_lines("shm:flights", now, None)
    assert lines[0] == "server    shm:flights, up 2.0 s, crossdock 0.1.0, process 777"
    assert lines[1] == "now       3.0 MiB/s, 48 batches/s, 0 rows/s, 0 streams/s"
    assert lines[3] == "held      192.0 KiB in 3 buffers, the oldest for 1 min 15 s"
    assert lines[4] == "rejected  3 (2 not_allowed, 1 protocol_errors)"
    header = next(line for line in lines if line.startswith("consumer"))
    first = next(line for line in lines if line.startswith("process 4001"))
    second = next(line for line in lines if line.startswith("tcp://10.0.0.7:5"))
    assert lines.index(first) < lines.index(second)  # the fastest one first
    assert first[header.index("reads") :].startswith("flights")
    assert "1 min 15 s" in first
    assert "shm map" in first
    assert "tcp message" in second
    table = next(line for line in lines if line.startswith("flights"))
    assert "336.8 k" in table
    assert "32.0 MiB" in table


def test_text_of_a_server_without_anything():
    lines = text.text_lines("shm:x", snapshot(statistics()), 80)
    assert "No consumer is connected." in lines
    assert "Nothing is published." in lines
    assert "rejected  none" in lines
    assert "now       -/s, - batches/s, - rows/s, - streams/s" in lines


def test_what_the_server_left_out_is_said():
    now = snapshot(statistics([consumer(1)], [source("t")], consumers_left_out=9744, sources_left_out=1))
    lines = text.text_lines("shm:x", now, None)
    assert "... and 9,744 more rows" in lines
    assert "... and 1 more row" in lines
    assert view.count_of("consumers", now) == "9,745"


@pytest.mark.parametrize("width", [20, 40, 80, None])
def test_hostile_texts_stay_on_their_line(width):
    now = snapshot(
        statistics(
            [consumer(1, pid=0, peer=HOSTILE, name=HOSTILE, carrier=HOSTILE, why=HOSTILE)],
            [source(HOSTILE, kind=HOSTILE), source(b"\xff" * 1000)],
            version=HOSTILE,
            rejected_connections={HOSTILE: 1},
        )
    )
    lines = text.text_lines("shm:x", now, width)
    assert all(line.isprintable() for line in lines)
    assert all(len(line) < 3000 for line in lines)
    if width is not None:
        # Long words of lines about the server are the terminal's to break.
        assert all(cell_len(line) <= width for line in lines[lines.index("") :])


def test_a_relay_says_where_it_fetches():
    relay = {"upstream": "tcp://h:7700", "bytes_used": 2**20, "max_memory": 2**30, "hits": 1200, "fetches": 3}
    lines = text.text_lines("shm:x", snapshot(statistics(**relay)), None)
    assert "relay     from tcp://h:7700, 1.0 MiB of 1.0 GiB used, 1,200 hits, 3 fetches" in lines
    lines = text.text_lines("shm:x", snapshot(statistics(**(relay | {"upstream": None}))), None)
    assert lines[1].startswith("relay     not connected to its source, ")


def test_the_object_for_programs(capsys):
    text.print_object("shm:x", snapshot(statistics([consumer(1, name=b"\xff")], [source(b"\xff"), source("t")])))
    (line,) = capsys.readouterr().out.splitlines()
    value = json.loads(line)
    assert value["uri"] == "shm:x"
    assert value["error"] is None
    assert value["server"]["pid"] == 777
    assert value["server"]["bytes_per_second"] is None
    assert value["consumers"][0]["name"] is None
    assert value["consumers"][0]["ticket"] == "ff"
    assert [(one["name"], one["ticket"]) for one in value["tables"]] == [(None, "ff"), ("t", None)]


def test_rows_keep_their_order_where_they_are_equal_and_unknown_ones_are_last():
    now = snapshot(statistics([consumer(i, oldest_lease=age) for i, age in enumerate((None, 1.0, 3.0, 1.0))]))
    column = next(one for one in view.CONSUMERS if one.title == "held for")
    order = [row["id"] for row in view.in_order(now.consumers, column, True)]
    assert order == [2, 1, 3, 0]
    assert [row["id"] for row in view.in_order(now.consumers, column, False)] == [1, 3, 2, 0]


def test_keys_of_rows_are_short_and_different():
    rows = [source("a"), source(b"a"), source(HOSTILE), source(HOSTILE + "x")]
    keys = {view.key_of("tables", row) for row in rows}
    assert len(keys) == 4
    assert all(len(key) < 50 for key in keys)
