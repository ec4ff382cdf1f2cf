"""The ucx transport, both ends, with peers that follow the text strictly: over raw UCX, in other processes."""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from bench import _peers

import crossdock as xd

PEER = str(Path(__file__).parent / "ucx_peer.py")

# Bodies of more than 70,000 bytes and of more than 1 MiB, and a dictionary.
N = 300_000
COLUMNS = pa.table(
    {
        "n": pa.array([None if i % 7 == 0 else i for i in range(N)], pa.int64()),
        "s": pa.array([None if i % 5 == 0 else "x" * (i % 11) for i in range(N)]),
        "d": pa.array((["red", "green", None, "blue", "red"] * (N // 5)), pa.string()).dictionary_encode(),
    }
)
TABLE = pa.Table.from_batches(COLUMNS.to_batches(max_chunksize=100_000))  # of several batches

Start = Callable[..., Any]


@pytest.fixture(autouse=True)
def _ucx() -> None:
    try:
        xd.serve({}, "ucx://127.0.0.1:0").close()
    except xd.UnsupportedError as error:
        pytest.skip(f"no UCX: {error}")


@pytest.fixture
def peer(program: Start) -> Start:
    def start(*arguments: str) -> Any:
        return program(sys.executable, "-X", "faulthandler", PEER, *arguments)

    return start


@pytest.fixture(params=["system", "newer"])
def _each_ucx(_ucx: None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that the test starts have the system's UCX, or the newer one."""
    if request.param == "system":
        return
    if (newer := _peers.newer_ucx()) is None:
        pytest.skip(f"no newer UCX; {_peers.HOW}")
    monkeypatch.setenv("CROSSDOCK_UCX_LIBRARY", str(newer))


def hear(peer: Any) -> Any:
    return json.loads(peer.read_line())


def batches() -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(max_chunksize=100_000))


def endless() -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(TABLE.schema, itertools.cycle(TABLE.to_batches()))


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def table_file(tmp_path: Path) -> str:
    path = tmp_path / "table.arrows"
    with pa.ipc.new_stream(path, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return str(path)


# ---- our server ----------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[xd.Server]:
    with xd.serve({"table": TABLE, "live": batches, "endless": endless}, "ucx://127.0.0.1:0") as serving:
        yield serving


@pytest.mark.parametrize("name", ["table", "live"])
def test_a_client_gets_bodies_by_message(server: xd.Server, peer: Start, tmp_path: Path, name: str) -> None:
    assert server.locations[0].endswith("&crossdock=1")
    client = peer("client", "get", server.locations[0], name, str(tmp_path / "got"))
    for _ in range(2):
        assert hear(client) == {"types": [0], "addresses": 0}
        client.write_line()
    assert hear(client) == "written"
    (consumer,) = server.stats()["consumers"]
    assert consumer["way"] == "message"
    client.write_line()
    client.finish()
    assert pa.ipc.open_stream((tmp_path / "got").read_bytes()).read_all() == TABLE
    wait_until(lambda: not server.stats()["consumers"])


def test_a_client_reads_memory_by_the_remote_handle(peer: Start, tmp_path: Path) -> None:
    with xd.serve({}, "ucx://127.0.0.1:0", remote_reads="trusted") as server:
        server.publish("table", TABLE)
        server.publish("live", batches)
        uri = server.location("table")
        assert "&remote_handle=" in uri
        client = peer("client", "get", uri, "table", str(tmp_path / "got"))
        for round_ in range(2):
            answer = hear(client)
            assert answer["types"] == [1]
            (consumer,) = server.stats()["consumers"]
            assert consumer["way"] == "read"
            # Each address was freed once, though some came in several batches.
            assert round_ == 0 or consumer["leases"] >= answer["addresses"] > 0
            client.write_line()
        assert hear(client) == "written"
        wait_until(lambda: server.stats()["consumers"][0]["leases"] == 0)
        client.write_line()
        client.finish()
        assert pa.ipc.open_stream((tmp_path / "got").read_bytes()).read_all() == TABLE
        # Other sources come by value.
        client = peer("client", "get", uri, "live", str(tmp_path / "got"))
        for _ in range(2):
            assert hear(client)["types"] == [0]
            client.write_line()
        assert hear(client) == "written"
        client.write_line()
        client.finish()
        with pytest.raises(xd.UnsupportedError, match="live stream"):
            server.location("live")


def test_remote_reads_are_asked_for_in_so_many_words(server: xd.Server) -> None:
    with pytest.raises(xd.UnsupportedError, match=r'remote_reads="trusted"'):
        server.location("table")
    with pytest.raises(xd.InvalidArgumentError, match="trusted"):
        xd.serve({}, "ucx://127.0.0.1:0", remote_reads="yes")  # type: ignore[arg-type]
    with pytest.raises(xd.InvalidArgumentError, match="token"):
        xd.serve({}, "ucx://127.0.0.1:0", remote_reads="trusted", token="a long secret")
    with pytest.raises(xd.InvalidArgumentError, match="is for ucx"):
        xd.serve({}, ["shm:", "tcp:"], remote_reads="trusted")
    with pytest.raises(xd.InvalidArgumentError, match="is for ucx"):
        xd.connect("tcp://127.0.0.1:7700", remote_reads="trusted")


def test_a_server_with_remote_reads_says_so(log_lines: Any) -> None:
    with xd.serve({}, "ucx://127.0.0.1:0", remote_reads="trusted"):
        assert "can read and write all memory of this process" in log_lines.next()


# Has a server that trusts its peers and one that doesn't. Says where a secret lies, and for each line what it is.
SECRET_SERVERS = """
import ctypes, sys
import pyarrow as pa, crossdock as xd
secret = ctypes.create_string_buffer(b"a secret")
sources = {"t": pa.table({"n": list(range(1000))})}
address = "ucx://127.0.0.1:0"
with xd.serve(sources, address) as server, xd.serve(sources, address, remote_reads="trusted") as trusting:
    print(server.locations[0], trusting.location("t"), ctypes.addressof(secret), flush=True)
    for _ in sys.stdin:
        print(secret.raw[:8].decode(), flush=True)
"""


@pytest.mark.long
def test_a_server_that_trusts_nobody_gives_nothing_to_reads_and_writes_by_ucx(peer: Start, script: Start) -> None:
    server = script(SECRET_SERVERS)
    location, trusted, address = server.read_line().split()
    forged = f"{location}&remote_handle={trusted.partition('&remote_handle=')[2]}"
    # That of the server that trusts is the control.
    for uri, read, then in ((forged, None, "a secret"), (trusted, "a secret", "overlaid")):
        client = peer("client", "touch", uri, "t", address)
        assert hear(client) == read
        client.stop()
        server.write_line()
        assert server.read_line() == then
    # Our client, with that key, gets bodies by value.
    with xd.connect(forged.replace("&crossdock=1", ""), remote_reads="trusted") as ours:
        assert pa.table(ours.get("t")) == pa.table({"n": list(range(1000))})
    server.stop()


@pytest.mark.parametrize(
    ("act", "says"),
    [
        ("untagged", "nor one strictly as specified"),
        ("other tag", "nor one strictly as specified"),
        ("free first", "nor one strictly as specified"),
        ("request twice", "want_data"),
        ("free unsent", "4096"),
        ("control message", "active message with the id 1"),
    ],
)
def test_a_client_that_breaks_the_rules_ends_nobody_else(
    server: xd.Server, peer: Start, log_lines: Any, act: str, says: str
) -> None:
    with xd.connect(server.uri) as other:
        reader = other.get("live")
        next(reader)
        # Once a stream has ended, another request would be allowed.
        client = peer("client", act, server.locations[0], "endless")
        assert hear(client) == "ended"
        client.finish()
        while says not in log_lines.next():
            pass
        assert sum(len(batch) for batch in reader) == N - 100_000


def test_a_client_that_wants_what_is_not_there_sees_the_end(server: xd.Server, peer: Start) -> None:
    client = peer("client", "request", server.locations[0], "missing")
    assert hear(client) == "ended"
    client.finish()


def test_a_client_is_rejected_where_there_is_a_token(peer: Start, log_lines: Any) -> None:
    with xd.serve({"table": TABLE}, "ucx://127.0.0.1:0", token="a long secret") as server:
        client = peer("client", "request", server.locations[0], "table")
        assert hear(client) == "ended"
        client.finish()
        while "can't prove that it knows the token" not in log_lines.next():
            pass
        with xd.connect(server.uri, token="a long secret") as ours:
            assert pa.table(ours.get("table")) == TABLE


@pytest.mark.long
def test_a_client_that_says_nothing_is_dropped_after_a_while(server: xd.Server, peer: Start) -> None:
    client = peer("client", "silence", server.locations[0], "table")
    assert hear(client) == "ended"
    client.finish()


@pytest.mark.parametrize("name", ["table", "live"])
def test_a_client_that_is_killed_ends_nobody_else(server: xd.Server, peer: Start, name: str) -> None:
    client = peer("client", "stay", server.locations[0], name)
    assert hear(client) == "receiving"
    client.stop()
    wait_until(lambda: not server.stats()["consumers"])
    with xd.connect(server.uri) as other:
        assert pa.table(other.get(name)) == TABLE


def test_a_client_that_is_late_holds_up_its_stream_alone(peer: Start) -> None:
    batch = pa.record_batch({"n": pa.array(range(200_000))})

    def many() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(batch.schema, [batch] * 40)

    with xd.serve({"live": many}, "ucx://127.0.0.1:0", window=1) as server:
        client = peer("client", "late", server.locations[0], "live")
        assert hear(client) == "receiving"
        wait_until(lambda: server.stats()["consumers"][0]["in_flight"] >= 2)
        with xd.connect(server.uri) as other:
            assert sum(len(one) for one in other.get("live")) == 40 * 200_000
        late = min(server.stats()["consumers"], key=lambda one: one["batches"])
        assert late["in_flight"] <= 3
        assert late["batches"] < 5
        client.write_line()
        assert hear(client) == 40
        client.finish()


def test_the_server_closes_though_a_client_stays(peer: Start) -> None:
    with xd.serve({"live": batches}, "ucx://127.0.0.1:0") as server:
        client = peer("client", "stay", server.locations[0], "live")
        assert hear(client) == "receiving"
        before = time.monotonic()
        server.close()
        assert time.monotonic() - before < 5


# ---- our client ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["packed", "remote", "mixed"])
def test_our_client_gets_what_a_server_sends(peer: Start, table_file: str, act: str) -> None:
    server = peer("server", act, table_file)
    uri = hear(server)
    trusting: Any = {} if act == "packed" else {"remote_reads": "trusted"}
    with xd.connect(uri, **trusting) as client:
        for _ in range(2):
            assert pa.table(client.get("t")) == TABLE
    counts = hear(server)
    assert counts["sent"] == counts["freed"]
    assert (counts["sent"] > 0) == (act != "packed")
    server.finish()


def test_our_client_frees_nothing_where_the_uri_has_no_free_data(peer: Start, table_file: str) -> None:
    server = peer("server", "never freed", table_file)
    with xd.connect(hear(server), remote_reads="trusted") as client:
        for _ in range(2):
            assert pa.table(client.get("t")) == TABLE
    counts = hear(server)
    assert counts["freed"] == 0
    server.finish()


def test_our_client_reads_no_memory_unless_it_trusts_the_server(peer: Start, table_file: str) -> None:
    server = peer("server", "remote", table_file)
    uri = hear(server)
    with pytest.raises(xd.UnsupportedError, match=r'remote_reads="trusted"'):
        xd.connect(uri)
    # A server that sends addresses though its URI, as it was given, has no key.
    with (
        xd.connect(uri.partition("&remote_handle")[0]) as client,
        pytest.raises(xd.UnsupportedError, match="no remote_handle"),
    ):
        list(client.get("t"))
    server.stop()


def test_a_token_is_not_forgotten_at_a_server_that_asks_for_none(peer: Start, table_file: str) -> None:
    server = peer("server", "packed", table_file)
    with pytest.raises(xd.UnsupportedError, match="token"):
        xd.connect(hear(server), token="a long secret")
    server.stop()


# Reads a table with what the URI has for a key. Says the library that it used, and the error.
GET = """
import sys
import crossdock as xd
from crossdock import _options
with xd.connect(sys.argv[1], remote_reads="trusted", timeout=10) as client:
    print(next(one["library"] for one in _options.networks() if one["transport"] == "ucx"))
    try:
        list(client.get("t", timeout=10))
    except xd.Error as error:
        print(f"{type(error).__name__}: {error}")
"""


@pytest.mark.usefixtures("_each_ucx")
def test_a_key_that_is_garbage_is_an_error(peer: Start, script: Start, table_file: str) -> None:
    server = peer("server", "remote", table_file)
    uri = hear(server).partition("&remote_handle")[0]
    library, error = script(GET, uri + "&remote_handle=" + "A" * 5463).finish().splitlines()
    assert Path(library).resolve() == Path(os.environ.get("CROSSDOCK_UCX_LIBRARY", library)).resolve()
    assert error.startswith("ProtocolError: ")
    assert "sent a key of 4097 bytes for its memory" in error
    server.stop()


# Gets a table with the server's key and with forged ones: an error, or the right table.
FORGED_KEYS = """
import base64, random, sys
import pyarrow as pa, crossdock as xd
start, _, handle = sys.argv[1].replace("&crossdock=1", "").partition("&remote_handle=")
key, draw = base64.urlsafe_b64decode(handle + "=" * (-len(handle) % 4)), random.Random(1)
def get(packed):
    handle = base64.urlsafe_b64encode(packed).decode().rstrip("=")
    with xd.connect(f"{start}&remote_handle={handle}", remote_reads="trusted", timeout=10) as client:
        return pa.Table.from_batches([pa.record_batch(batch) for batch in client.get("t", timeout=10)])
expected = pa.table({"n": list(range(100_000))})
assert get(key) == expected
forged = [key[:n] for n in range(1, len(key))]
forged += [key[:n] + bytes([key[n] ^ mask]) + key[n + 1:] for n in range(len(key)) for mask in (1, 0x80, 0xFF)]
forged += [key + draw.randbytes(n) for n in (1, 100, 4096 - len(key))]
forged += [draw.randbytes(n) for n in (1, 2, 8, 9, 10, 64, 1000, 4096) for _ in range(3)] + [bytes([255]) * 4096]
for packed in forged:
    try:
        assert get(packed) == expected
    except xd.Error:
        pass
try:
    get(bytes(4097))
except xd.ProtocolError as error:  # so the key of the URI is what bodies are read with
    assert "must have 1 to 4096" in str(error)
    print("done")
"""


@pytest.mark.long
@pytest.mark.usefixtures("_each_ucx")
def test_a_forged_key_is_an_error_or_not_looked_at(script: Start) -> None:
    """UCX looks at what its networks need of a key: over tcp nothing, but it reads all of the key."""
    server = script("""
        import sys
        import pyarrow as pa, crossdock as xd
        table = pa.table({"n": list(range(100_000))})
        with xd.serve({"t": table}, "ucx://127.0.0.1:0", remote_reads="trusted") as server:
            print(server.location("t"), flush=True)
            sys.stdin.readline()
    """)
    assert script(FORGED_KEYS, server.read_line()).finish() == "done\n"
    server.write_line()
    server.finish()


def test_a_control_message_of_a_server_is_refused(peer: Start, table_file: str) -> None:
    server = peer("server", "control message", table_file)
    with xd.connect(hear(server)) as client, pytest.raises(xd.ProtocolError, match="id 1"):
        client.get("t")
    assert hear(server) == "ended"
    server.finish()


def test_half_a_stream_is_no_shorter_table(peer: Start, table_file: str) -> None:
    server = peer("server", "half", table_file)
    with xd.connect(hear(server)) as client:
        reader = client.get("t")
        with pytest.raises(xd.TruncatedStreamError):
            list(reader)
    assert hear(server) == "closed"
    server.finish()


def test_no_server_is_an_error() -> None:
    with pytest.raises(xd.ConnectionError, match="is the server up"):
        xd.connect("ucx://127.0.0.1:1?want_data=1")
