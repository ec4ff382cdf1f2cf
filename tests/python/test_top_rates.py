"""Rates from a server's counters, and numbers as people read them."""

from __future__ import annotations

import pytest
from tests.server_samples import Server, consumer, source, statistics

import crossdock as xd
from crossdock.cli.monitor.look import Observed
from crossdock.cli.monitor.rates import Rates
from crossdock.cli.units import bytes_in_prose, in_bytes, in_counts, in_prose, in_time, sparkline


def test_the_first_snapshot_has_no_rates():
    now = Rates().add(statistics([consumer(1, bytes=100)], [source("flights", streams=1)]))
    assert now.seconds is None
    assert now.totals == dict.fromkeys(
        ("streams_per_second", "batches_per_second", "rows_per_second", "bytes_per_second")
    )
    assert now.consumers[0]["bytes_per_second"] is None
    assert now.consumers[0]["bytes"] == 100
    assert now.tables[0]["bytes_per_second"] is None
    assert now.tables[0]["streams_per_second"] is None
    assert now.tables[0]["streams"] == 1
    assert now.tables[0]["readers"] == 1


def test_rates_are_over_the_servers_own_time():
    rates = Rates()
    rates.add(statistics([consumer(1), consumer(2, name="")], [source("flights", streams=3)], uptime=10.0))
    now = rates.add(
        statistics(
            [
                consumer(1, bytes=4000, rows=40, batches=4, leased_bytes=7),
                consumer(2, bytes=1000, name="", previous="flights", leased_bytes=100),
                consumer(3, bytes=2000, leased_bytes=5),
            ],
            [source("flights", streams=5), source("new", streams=2)],
            uptime=12.0,
        )
    )
    assert now.seconds == 2.0
    assert [one["bytes_per_second"] for one in now.consumers] == [2000, 500, 1000]  # the third one is new
    assert now.consumers[0]["rows_per_second"] == 20
    assert now.consumers[0]["batches_per_second"] == 2
    assert now.totals["bytes_per_second"] == 3500
    flights, new = now.tables
    assert flights["bytes_per_second"] == 3000
    assert flights["leased_bytes"] == 112
    assert flights["readers"] == 2
    assert flights["streams_per_second"] == 1
    assert new["streams_per_second"] is None  # it may be a name that was published again
    assert new["bytes_per_second"] == 0


def test_consumers_that_go_are_forgotten_and_others_come():
    rates = Rates()
    rates.add(statistics([consumer(1, bytes=1000), consumer(2, bytes=50)]))
    rates.add(statistics([consumer(2, bytes=50)], uptime=2.0))
    now = rates.add(statistics([consumer(1, bytes=300), consumer(2, bytes=60)], uptime=3.0))
    assert [one["bytes_per_second"] for one in now.consumers] == [300, 10]
    assert len(rates._consumers) == 2


def test_one_that_the_server_had_left_out_has_no_rate_at_first():
    rates = Rates()
    rates.add(statistics([consumer(1)], consumers_left_out=1))
    now = rates.add(statistics([consumer(1, bytes=10), consumer(2, bytes=10**12)], uptime=2.0))
    assert [one["bytes_per_second"] for one in now.consumers] == [10, None]
    assert rates.add(statistics([consumer(2, bytes=10**12)], uptime=3.0)).consumers[0]["bytes_per_second"] == 0


@pytest.mark.parametrize("change", [{"pid": 778, "uptime": 60.0}, {"uptime": 0.5}])
def test_a_server_that_was_started_again_begins_anew(change):
    rates = Rates()
    rates.add(statistics([consumer(1, bytes=1000)], uptime=50.0))
    again = rates.add(statistics([consumer(1, bytes=2000)], **change))
    assert again.seconds is None
    assert again.totals["bytes_per_second"] is None
    assert again.consumers[0]["bytes_per_second"] is None
    now = rates.add(statistics([consumer(1, bytes=2500)], **(change | {"uptime": change["uptime"] + 1})))
    assert now.consumers[0]["bytes_per_second"] == 500


def test_counters_that_decrease_are_unknown_never_negative():
    rates = Rates()
    rates.add(statistics([consumer(1, bytes=1000, rows=5)], [source("flights", streams=9)]))
    now = rates.add(statistics([consumer(1, bytes=10, rows=7)], [source("flights", streams=1)], uptime=2.0))
    assert now.consumers[0]["bytes_per_second"] is None
    assert now.consumers[0]["rows_per_second"] == 2
    assert now.totals["bytes_per_second"] is None
    assert now.tables[0]["streams_per_second"] is None
    assert now.tables[0]["bytes_per_second"] is None


def test_two_snapshots_of_one_moment_have_no_rates():
    rates = Rates()
    rates.add(statistics([consumer(1)]))
    now = rates.add(statistics([consumer(1, bytes=10)]))
    assert now.seconds is None
    assert now.consumers[0]["bytes_per_second"] is None


def test_a_lost_server_is_said_and_connected_to_again():
    before = statistics([consumer(1, bytes=1000)], uptime=1.0)
    after = statistics([consumer(1, bytes=3000)], uptime=3.0)
    first = Server(before, xd.ConnectionError("the server has\x1b ended"))
    connections = iter([first, xd.ConnectionError("nobody"), Server(after)])

    def connect() -> Server:
        made = next(connections)
        if isinstance(made, Exception):
            raise made
        return made

    observed = Observed("shm:x", connect)
    assert observed.look().error is None
    lost = observed.look()
    assert lost.error == "ConnectionError: the server has\\x1b ended"
    assert lost.snapshot is not None
    assert lost.snapshot.consumers[0]["bytes"] == 1000
    assert first.closed == 1
    assert observed.look().error == "ConnectionError: nobody"
    found = observed.look()
    assert found.error is None
    assert found.snapshot is not None
    assert found.snapshot.consumers[0]["bytes_per_second"] == 1000  # the same server: the time between counts
    assert found.history == (1000.0,)


def test_the_history_is_bounded():
    observed = Observed("shm:x", lambda: server)
    server = Server(*(statistics([consumer(1, bytes=i)], uptime=float(i)) for i in range(1000)))
    for _ in range(1000):
        look = observed.look()
    assert len(look.history) == 300


# ---- numbers ----


def test_decimal_points_stand_below_each_other():
    values = [0, 5, 999, 1023, 1024, 1500, 2**20 - 1, 3 * 2**20, 2**40, 2**62, 0.25]
    for form, decimals in ((in_bytes, 5), (in_counts, 3)):
        for value in values:
            text = form(value)
            place = text.find(".") if "." in text else len(text) - decimals - 1
            assert text[:place].replace(",", "").isdigit(), text
            assert len(text) - place == decimals + 1, text
    assert in_prose(in_bytes(1536)) == "1.5 KiB"
    assert in_prose(in_bytes(5)) == "5 B"
    assert bytes_in_prose(0) == "0 B"
    assert in_prose(in_bytes(1023.99)) == "1.0 KiB"
    assert in_prose(in_counts(1_234_567)) == "1.2 M"
    assert in_prose(in_counts(0.25)) == "0.2"
    assert in_prose(in_bytes(2**70)) == "1,048,576.0 PiB"
    assert in_prose(in_bytes(None)) == in_prose(in_counts(None)) == "-"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"), (0.0, "0.0 s"), (59.94, "59.9 s"), (59.97, "1 min 00 s"), (65, "1 min 05 s"),
        (3600, "1 h 00 min"), (90_000, "1 d 01 h"), (10**8, "1,157 d 09 h"),
    ],
)  # fmt: skip
def test_times(seconds, text):
    assert in_time(seconds) == text


def test_sparklines():
    assert sparkline([], 5) == ""
    assert sparkline([0.0, 0.0], 5) == "▁▁"
    assert sparkline([1.0, 0.0, 4.0, 8.0], 3) == "▁▄█"
    assert sparkline([1.0], 0) == ""
