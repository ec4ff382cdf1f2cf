"""Our client gets metadata from one spec server and bodies from another.

"The streams of metadata and body data are sent across separate connections": every pair of carriers, every order,
every loss."""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from spec_server import (
    ENDED,
    FREE_DATA,
    MESSAGES,
    ORDERS,
    TABLE,
    WANT_DATA,
    Carrier,
    Sending,
    SpecServer,
    expect_request,
    in_order,
    mixed,
    packed,
    patient_next,
    remote,
    shm_server,
    tcp_server,
    until_it_goes,
)

import crossdock as xd

METADATA, BODIES = 1, 2  # the role of a connection, in the HELLO of either carrier


class TwoServers:
    """Serves one stream, by an act that is given both connections."""

    def __init__(self, metadata: SpecServer, data: SpecServer) -> None:
        self.uris = {"metadata": metadata.uri, "data": data.uri}
        self._metadata = metadata
        self._data = data

    def accept(self, act: Callable[[Carrier, Carrier], None]) -> None:
        handed: queue.Queue[Carrier] = queue.Queue()
        done = threading.Event()

        def of_data(carrier: Carrier) -> None:
            handed.put(carrier)
            assert done.wait(30)

        def of_metadata(carrier: Carrier) -> None:
            try:
                data = handed.get(timeout=10)
                assert (carrier.role, data.role) == (METADATA, BODIES)
                expect_request(carrier)  # each with a tag of its own
                expect_request(data)
                act(carrier, data)
            finally:
                done.set()

        self._metadata.accept(of_metadata)
        self._data.accept(of_data)


@pytest.fixture(params=["shm and shm", "tcp and tcp", "shm and tcp", "tcp and shm"])
def servers(request: pytest.FixtureRequest, no_leftovers: None) -> Iterator[TwoServers]:
    with contextlib.ExitStack() as stack:

        def served(scheme: str, name: str, **tags: int) -> SpecServer:
            path = os.path.join(os.environ["XDG_RUNTIME_DIR"], name)
            return stack.enter_context(shm_server(path, **tags) if scheme == "shm" else tcp_server(**tags))

        metadata, data = request.param.split(" and ")
        other_tags = {"want_data": FREE_DATA, "free_data": WANT_DATA}
        yield TwoServers(served(metadata, "metadata.sock"), served(data, "data.sock", **other_tags))


def kinds_over(servers: TwoServers) -> list[Callable[[int], int]]:
    return [packed, remote, mixed] if servers.uris["data"].startswith("shm") else [packed]


@pytest.mark.parametrize("order", ORDERS)
def test_a_stream_comes_whole_in_any_order(servers: TwoServers, order) -> None:
    for kinds in kinds_over(servers):

        def act(metadata: Carrier, data: Carrier, kinds: Callable[[int], int] = kinds) -> None:
            sending = Sending(metadata, kinds, data=data)
            for one in order(sending):
                one()
            assert until_it_goes(data) == sending.sent, "frees go where the bodies came from"
            assert until_it_goes(metadata).total() == 0

        servers.accept(act)
        with xd.connect(**servers.uris) as client:
            table = pa.table(client.get("t"))
            assert table.equals(TABLE)
            table.validate(full=True)
            del table
            gc.collect()


# In order: the act before the last is the last body, the last one the End of Stream.
ACTS = 2 * len(MESSAGES)


def lost_after(count: int, lost: str) -> Callable[[Carrier, Carrier], None]:
    """One of the two is killed after so many acts; the other goes on, and knows nothing of it."""

    def act(metadata: Carrier, data: Carrier) -> None:
        acts = in_order(Sending(metadata, packed, data=data))
        for one in acts[:count]:
            one()
        gone, stays = (metadata, data) if lost == "metadata" else (data, metadata)
        gone.close(orderly=False)
        bodies = range(2, ACTS, 2)
        with contextlib.suppress(*ENDED):  # the client has seen enough
            for i in range(count, ACTS):
                if (i in bodies) == (lost == "metadata"):
                    acts[i]()
            until_it_goes(stays)

    return act


@pytest.mark.parametrize("count", range(ACTS))
def test_metadata_lost_at_any_step_is_a_truncated_stream(servers: TwoServers, count: int) -> None:
    servers.accept(lost_after(count, "metadata"))
    with xd.connect(**servers.uris) as client, pytest.raises(xd.TruncatedStreamError, match="before End of Stream"):
        list(client.get("t"))
    gc.collect()


@pytest.mark.parametrize("count", range(ACTS - 1))
def test_bodies_lost_at_any_step_are_a_truncated_stream(servers: TwoServers, count: int) -> None:
    servers.accept(lost_after(count, "data"))
    with xd.connect(**servers.uris) as client, pytest.raises(xd.TruncatedStreamError, match=r"body of message \d"):
        list(client.get("t"))
    gc.collect()


def test_who_has_sent_the_last_body_may_go(servers: TwoServers) -> None:
    servers.accept(lost_after(ACTS - 1, "data"))
    with xd.connect(**servers.uris) as client:
        assert pa.table(client.get("t")).equals(TABLE)


def test_bodies_are_nothing_without_the_metadata_that_says_how_to_read_them(servers: TwoServers) -> None:
    """All bodies are there before the first metadata; the reader waits, and then has it all."""
    asked = threading.Event()

    def act(metadata: Carrier, data: Carrier) -> None:
        sending = Sending(metadata, packed, data=data)
        for number in range(1, len(MESSAGES)):
            sending.body(number)
        sending.metadata(0)
        assert asked.wait(10)
        for number in range(1, len(MESSAGES)):
            sending.metadata(number)
        sending.end()
        until_it_goes(metadata)

    servers.accept(act)
    with xd.connect(**servers.uris) as client:
        reader = client.get("t", timeout=0.2)
        with pytest.raises(xd.TimeoutError):
            next(reader)
        asked.set()
        batches = []
        while (batch := patient_next(reader)) is not None:
            batches.append(batch)
        assert pa.Table.from_batches(batches).equals(TABLE)


@pytest.mark.parametrize("orderly", [True, False], ids=["closed", "killed"])
def test_who_has_sent_the_end_of_stream_may_go(servers: TwoServers, orderly: bool) -> None:
    """The bodies come after that, and the frees go to where they came from."""

    def act(metadata: Carrier, data: Carrier) -> None:
        sending = Sending(metadata, kinds_over(servers)[-1], data=data)
        acts = in_order(sending)
        for one in [acts[0], *acts[1::2]]:
            one()
        metadata.close(orderly=orderly)
        for one in acts[2::2]:
            one()
        assert until_it_goes(data) == sending.sent

    servers.accept(act)
    with xd.connect(**servers.uris) as client:
        table = pa.table(client.get("t"))
        assert table.equals(TABLE)
        del table
        gc.collect()


def expect_refused(servers: TwoServers, act: Callable[[Carrier, Carrier], None], match: str) -> None:
    servers.accept(act)
    with xd.connect(**servers.uris) as client, pytest.raises(xd.ProtocolError, match=match):
        list(client.get("t"))


def test_a_body_over_the_connection_of_metadata_is_refused(servers: TwoServers) -> None:
    def act(metadata: Carrier, data: Carrier) -> None:
        wrong = Sending(metadata, packed, data=metadata)
        with contextlib.suppress(*ENDED):
            wrong.metadata(0)
            wrong.body(1)
            until_it_goes(metadata)

    expect_refused(servers, act, "a body on the connection of metadata")


def test_metadata_over_the_connection_of_bodies_is_refused(servers: TwoServers) -> None:
    def act(metadata: Carrier, data: Carrier) -> None:
        right = Sending(metadata, packed, data=data)
        with contextlib.suppress(*ENDED):
            right.metadata(0)
            right.metadata(1)
            Sending(data, packed, data=data).metadata(2)
            until_it_goes(metadata)

    expect_refused(servers, act, "metadata on the connection of bodies")
