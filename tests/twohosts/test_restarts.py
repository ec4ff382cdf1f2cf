"""Servers that are killed, come back, or stand still."""

from __future__ import annotations

import signal
import sys
import time

import pytest
from tests.twohosts.conftest import PORT, PRELUDE, TRANSPORTS
from tests.twohosts.hosts import SERVER_ADDRESS

pytestmark = pytest.mark.long


def test_killed_and_started_again_at_once(prepare, serve, client, uri):
    server, successor = serve(), prepare()
    process = client(
        """
with xd.connect(uri) as client:
    reader = client.get("paced")
    assert pa.record_batch(next(reader)) == data.live_batch(0)
    say("first")
    say_error(lambda: next(reader))
    sys.stdin.readline()
    assert pa.table(client.get("table")).equals(data.table())
with xd.connect(uri) as client:
    assert pa.table(client.get("table")).equals(data.table())
"""
    )
    server.write_line()
    assert process.read_line() == "first"
    server.send(signal.SIGKILL)
    server.process.wait()
    successor.write_line()
    assert successor.read_line() == uri
    line = process.read_line()
    assert line.startswith("TruncatedStreamError: ")
    assert f"{uri} is gone: it has exited or was killed" in line
    process.write_line()
    process.finish()


def test_a_host_that_vanishes_and_comes_back(hosts, serve, client, peer, uri):
    """What clients have of the old server's connections, the new one's host knows nothing of."""
    serve()
    idle = client(
        """
with xd.connect(uri) as client:
    say(len(client.list()))
    sys.stdin.readline()
    say_error(client.list)
    say_error(client.list)
    assert pa.table(client.get("table")).equals(data.table())
"""
    )
    assert idle.read_line() == "5"
    waiting = peer("get", "paced")
    assert waiting.read_line() == "schema"
    hosts.replace_server_host()
    serve()
    line = waiting.read_line()
    assert line.startswith("TruncatedStreamError: ")
    assert uri in line
    idle.write_line()
    line = idle.read_line()  # The answer to the request may be there before all of the request was sent.
    if uri.startswith("tcp:") or line != "no error":  # the others probe so often that they may know already
        assert line.startswith(("TruncatedStreamError: ", "ConnectionError: "))
        assert f"{uri} is gone" in line or f"{uri} can't be reached any more" in line
    assert idle.read_line() == "no error", "the next request makes a new connection"
    idle.finish()
    waiting.finish()


def test_a_stopped_server(serve, client):
    """Nobody takes it for a dead one: the stream goes on with it."""
    server = serve()
    process = client(
        """
with xd.connect(uri) as client, client.get("paced", timeout=0.5) as reader:
    assert pa.record_batch(next(reader)) == data.live_batch(0)
    say("first")
    sys.stdin.readline()
    for _ in range(4):
        say_error(lambda: next(reader))
    sys.stdin.readline()
    assert pa.record_batch(next(reader)) == data.live_batch(1)
"""
    )
    server.write_line()
    assert process.read_line() == "first"
    server.send(signal.SIGSTOP)
    server.write_line()
    process.write_line()
    for _ in range(4):
        assert process.read_line().startswith("TimeoutError: ")
    server.send(signal.SIGCONT)
    process.write_line()
    process.finish()


STOPPED = 12  # seconds, above every time limit that the transports have of themselves

READ_ONE_BODY = """
import time
name = sys.argv[2]
with xd.connect(uri) as client:
    say("connected")
    sys.stdin.readline()
    before = time.monotonic()
    reader = client.get(name, columns=["b"] if name == "wide" else None)
    batch = pa.record_batch(next(reader))
    say(time.monotonic() - before)
    assert batch == (data.wide().select(["b"]) if name == "wide" else data.large())
    assert list(reader) == []
"""


def test_ends_that_are_stopped_for_long(hosts, program, script):
    """The server or the client, in the middle of a body or of a read, over every transport: all at once."""
    hosts.limit_rate("100mbit")
    stopped, clients = [], []
    for port, (transport, who) in enumerate([(one, who) for one in TRANSPORTS for who in ("server", "client")], PORT):
        uri = f"{transport}://{SERVER_ADDRESS}:{port}"
        server = program(*hosts.server.within, sys.executable, "-m", "tests.twohosts.server", uri)
        assert server.read_line() == "ready"
        server.write_line()
        assert server.read_line() == uri
        names = ["large"] if transport == "tcp" else ["large", "wide"]  # tcp has no reads
        readers = [script(PRELUDE + READ_ONE_BODY, uri, name, within=hosts.client.within) for name in names]
        clients += readers
        stopped += [server] if who == "server" else readers
    for client in clients:
        assert client.read_line() == "connected"
    before = hosts.client.received()
    for client in clients:
        client.write_line()
    while hosts.client.received() < before + 1_000_000 * len(clients):  # Nothing tells of bytes in a network.
        time.sleep(0.01)
    for process in stopped:
        process.send(signal.SIGSTOP)
    hosts.limit_rate("1gbit")
    time.sleep(STOPPED)
    for process in stopped:
        process.send(signal.SIGCONT)
    for client in clients:
        assert float(client.read_line()) > STOPPED, "it was in the middle of the body"
        client.finish()
