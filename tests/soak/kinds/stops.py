"""SIGSTOP: servers and clients over each network stand still for half a minute, idle or in the middle of bodies."""

from __future__ import annotations

import itertools
import mmap
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
from tests.soak.forked import expect_end, fork
from tests.soak.kinds.kill import networks
from tests.soak.unit import Kind, Unit, wait_until

import crossdock as xd

STOPPED_SECONDS = 30
PATIENCE_SECONDS = 60
ROWS = 1 << 20
BATCH = pa.record_batch({name: pa.array(range(ROWS), pa.int64()) for name in ("a", "b")})

# What a client does: the name that it gets again and again, and the columns of it. None: it waits until all go on.
ACTS: dict[str, tuple[str, list[str] | None] | None] = {
    "idle": None,
    "in a body": ("live", None),
    "in a read": ("table", ["a"]),
}
MOST_PROCESSES = 64


class _Shared:
    """What the processes tell each other."""

    def __init__(self) -> None:
        self._words = memoryview(mmap.mmap(-1, 8 * (MOST_PROCESSES + 3))).cast("Q")

    bodies = property(lambda self: self._words[:MOST_PROCESSES])
    """How many each client has got whole, by its slot; of an idle one, 1 once it is connected."""

    @property
    def go_on(self) -> bool:
        return self._words[-2] > 0

    @property
    def close(self) -> bool:
        """For servers, once their clients have left."""
        return self._words[-3] > 0

    @property
    def leave(self) -> bool:
        return self._words[-1] > 0

    def tell_to_go_on(self) -> None:
        self._words[-2] = 1

    def tell_to_leave(self) -> None:
        self._words[-1] = 1

    def tell_to_close(self) -> None:
        self._words[-3] = 1


@dataclass
class _Group:
    """A server and its clients."""

    name: str
    server: int
    clients: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The process and the slot of each, by what it does."""

    def processes(self) -> list[int]:
        return [pid for pid, _ in self.clients.values()]


def _wait(true: Callable[[], bool]) -> None:
    if not wait_until(true, 4 * PATIENCE_SECONDS):
        raise AssertionError("the unit tells no more")


def _serve(scheme: str, tell: int, shared: _Shared) -> None:
    def live() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(BATCH.schema, itertools.repeat(BATCH))

    with xd.serve({"table": pa.Table.from_batches([BATCH] * 4), "live": live}, scheme) as server:
        os.write(tell, server.uri.encode() + b"\n")
        _wait(lambda: shared.close)


def _take(uri: str, act: str, slot: int, shared: _Shared) -> None:
    what = ACTS[act]
    with xd.connect(uri, timeout=PATIENCE_SECONDS) as client:
        client.list()
        if what is None:
            shared.bodies[slot] = 1
            _wait(lambda: shared.go_on)
        name, columns = what or ("table", None)
        expected = BATCH.select(columns or BATCH.schema.names)
        while not shared.leave:
            with client.get(name, columns=columns, timeout=PATIENCE_SECONDS) as reader:
                for batch in itertools.takewhile(lambda _: not shared.leave, reader):
                    if not pa.record_batch(batch).equals(expected):
                        raise AssertionError(f"a batch of {name} isn't what was published")
                    shared.bodies[slot] += 1


def _start(scheme: str, stopped: str, slots: itertools.count[int], shared: _Shared) -> _Group:
    read, write = os.pipe()
    group = _Group(f"{scheme} ({stopped} stopped)", fork(lambda: _serve(scheme, write, shared)))
    os.close(write)
    with os.fdopen(read) as said:
        uri = said.readline().strip()
    for act in ACTS:
        slot = next(slots)
        group.clients[act] = fork(lambda act=act, slot=slot: _take(uri, act, slot, shared)), slot  # type: ignore[misc]
    return group


def stops(unit: Unit) -> None:
    shared = _Shared()
    slots = itertools.count()
    groups: list[_Group] = []
    try:
        victims: list[int] = []
        for scheme, stopped in itertools.product(networks("dev"), ("the server", "its clients")):
            group = _start(scheme, stopped, slots, shared)
            groups.append(group)
            victims += [group.server] if stopped == "the server" else group.processes()
        _stop_for_a_while(unit, shared, groups, victims)
    finally:
        shared.tell_to_go_on()
        shared.tell_to_leave()
        for group in groups:
            for act, (pid, _) in group.clients.items():
                expect_end(unit, pid, f"{group.name}: the client that was {act}")
        shared.tell_to_close()
        for group in groups:
            expect_end(unit, group.server, f"{group.name}: the server")


def _stop_for_a_while(unit: Unit, shared: _Shared, groups: list[_Group], victims: list[int]) -> None:
    clients = {f"{group.name}, {act}": slot for group in groups for act, (_, slot) in group.clients.items()}

    def bodies() -> dict[str, int]:
        return {name: shared.bodies[slot] for name, slot in clients.items()}

    def expect(text: str, right: Callable[[], set[str]]) -> bool:
        if wait_until(lambda: right() == set(clients), PATIENCE_SECONDS):
            return True
        unit.finding(f"{text}: {sorted(set(clients) - right())}")
        return False

    if not expect("clients got no body", lambda: {name for name, n in bodies().items() if n > 0}):
        return
    for pid in victims:
        os.kill(pid, signal.SIGSTOP)
    for pid in victims:
        _, status = os.waitpid(pid, os.WUNTRACED)
        unit.count("stops", os.WIFSTOPPED(status))
    time.sleep(STOPPED_SECONDS / 2)  # for what was under way
    before = bodies()
    time.sleep(STOPPED_SECONDS / 2)
    if (after := bodies()) != before:
        unit.finding(f"bodies came from a server that was stopped, or to a client: {before}, then {after}")
    for pid in victims:
        os.kill(pid, signal.SIGCONT)
    shared.tell_to_go_on()
    expect("clients get no further", lambda: {name for name, n in bodies().items() if n >= before[name] + 3})
    unit.count("bodies after stops", sum(bodies().values()) - sum(before.values()))


KINDS = [
    Kind("stops", f"servers and clients that are stopped for {STOPPED_SECONDS} s", stops,
         ("stops", "bodies after stops")),
]  # fmt: skip
