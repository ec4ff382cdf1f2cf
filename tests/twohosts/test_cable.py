"""A cable that is pulled: nothing arrives any more, and nobody says so."""

from __future__ import annotations

import signal
import time

import pytest

pytestmark = pytest.mark.long

BODY_BEGUN = 1_000_000  # bytes that came out of the cable
NOTICED = 10  # seconds that peer.cc may take, which probes after 1 s and waits 2 s for acknowledgements


def wait_for_body(hosts):
    """Waits until the client is in the middle of a body. Nothing tells of bytes in a network, so they are polled."""
    before = hosts.client.received()
    deadline = time.monotonic() + 30
    while hosts.client.received() < before + BODY_BEGUN:
        assert time.monotonic() < deadline, "no body came"
        time.sleep(0.01)


def assert_vanished(line):
    assert line.startswith("TruncatedStreamError: the connection was lost before End of Stream")
    # A socket says "Connection timed out", or "No route to host"; UCX says less.
    said = ("can't be reached any more: ", "or the network lost it (UCX: ", "ended in the middle of a message: ")
    assert any(words in line for words in said)


def wait_for_line(process, *words):
    """Waits for a line with all these words."""
    while True:
        line = process.read_line()
        if all(word in line for word in words):
            return line


@pytest.mark.usefixtures("notices_lost_peers")
def test_a_vanished_peer_is_noticed_while_idle(hosts, serve, peer):
    server = serve()
    client = peer("get", "paced")
    assert client.read_line() == "schema"
    server.write_line()
    assert client.read_line() == "10000"
    hosts.pull_cable()
    pulled = time.monotonic()
    assert_vanished(client.read_line())
    assert time.monotonic() - pulled < NOTICED
    client.finish()


@pytest.mark.usefixtures("notices_lost_peers")
def test_a_vanished_peer_is_noticed_in_a_body(hosts, peer, uri):
    """By both ends: nobody answers the client's probes, and nobody acknowledges what the server sends."""
    hosts.limit_rate("50mbit")
    server = peer("serve")
    assert "is open to everybody" in server.read_line()
    assert server.read_line() == uri
    client = peer("get", "large")
    assert client.read_line() == "schema"
    wait_for_body(hosts)
    hosts.pull_cable()
    pulled = time.monotonic()
    line = client.read_line()
    assert_vanished(line)
    assert "in the middle of a message" in line
    line = wait_for_line(server, "a connection ended")
    assert "is gone" in line or "can't be reached any more" in line
    assert time.monotonic() - pulled < NOTICED
    client.finish()
    server.write_line()
    server.finish()


def test_connecting(hosts, serve, client):
    serve()
    hosts.pull_cable()
    process = client("say_error(lambda: xd.connect(uri, timeout=0.5))")
    assert process.read_line().startswith("TimeoutError: ")
    process.finish()


READERS = {"idle": "paced", "body": "large", "read": "wide"}


def start_reader(hosts, serve, client, where, timeout):
    """Starts a client that waits for a batch, which isn't made yet or in the middle of its body. Pulls the cable."""
    hosts.limit_rate("50mbit")
    server = serve()
    columns = ["b"] if where == "read" else None
    process = client(
        f"""
def read_on(reader):
    while True:
        try:
            return next(reader)
        except xd.TimeoutError:
            pass
with xd.connect(uri) as client, client.get(sys.argv[2], columns={columns}, timeout={timeout}) as reader:
    say_error(lambda: (say("reading"), next(reader)))
    if sys.stdin.readline() == "again\\n":
        expected = {{"large": data.large(), "wide": data.wide().select(["b"]), "paced": data.live_batch(0)}}
        assert pa.record_batch(read_on(reader)) == expected[sys.argv[2]]
""",
        READERS[where],
    )
    assert process.read_line() == "reading"
    if where != "idle":
        wait_for_body(hosts)
    hosts.pull_cable()
    return server, process


@pytest.fixture(params=READERS)
def where(request: pytest.FixtureRequest, uri: str) -> str:
    """What the client is in the middle of."""
    if request.param == "read" and uri.startswith("tcp:"):
        pytest.skip("tcp has no reads")
    return str(request.param)


def test_the_callers_timeout(hosts, serve, client, uri, where):
    """It ends the wait, not the stream: with the cable in its place reading goes on."""
    server, process = start_reader(hosts, serve, client, where, timeout=0.5)
    line = process.read_line()
    assert line.startswith("TimeoutError: ")
    assert uri in line
    server.write_line()
    process.write_line("again")
    hosts.plug_cable_in()
    hosts.limit_rate("1gbit")
    process.finish()


def test_ctrl_c(hosts, serve, client, where):
    _, process = start_reader(hosts, serve, client, where, timeout=None)
    process.send(signal.SIGINT)
    sent = time.monotonic()
    assert process.read_line().startswith("KeyboardInterrupt: ")
    assert time.monotonic() - sent < NOTICED, "that error ended the wait, and no other"
    process.finish()
