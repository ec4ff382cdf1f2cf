"""Threads of one process that do everything at once, while signals come and children are forked."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from types import FrameType
from typing import Any

import pyarrow as pa
from tests.soak import leftovers
from tests.soak.unit import Kind, Unit

import crossdock as xd

THREADS = 3
TABLE = pa.Table.from_batches(pa.table({"n": list(range(2000)), "s": [str(i) for i in range(2000)]}).to_batches(50))


class _Stopped(Exception):
    """Raised by the handler of a signal, as Ctrl-C would."""


class _Workers:
    """Threads that use one server and one client, each in an order of its own."""

    def __init__(self, unit: Unit, server: xd.Server, uris: list[str]) -> None:
        self.unit, self.server = unit, server
        self.clients = [xd.connect(uri, timeout=60) for uri in uris]
        self.over = threading.Event()
        self.threads = [
            threading.Thread(target=self._work, args=(number, unit.random.random())) for number in range(THREADS)
        ]
        for thread in self.threads:
            thread.start()

    def finish(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join(60)
            if thread.is_alive():
                self.unit.finding("a thread hangs")
        for client in self.clients:
            client.close()

    def _work(self, number: int, seed: float) -> None:
        draws = random.Random(seed)
        held: list[Any] = []
        acts = (self._read, self._read, self._read, self._list, self._publish, self._connect)
        while not self.over.is_set():
            try:
                draws.choice(acts)(draws, number, held)
            except Exception as error:
                self.unit.finding(f"{type(error).__name__} in a thread: {error}")
                return
            if draws.random() < 0.3:
                held.clear()
            self.unit.count("acts of threads")

    def _read(self, draws: random.Random, _number: int, held: list[Any]) -> None:
        client, name = draws.choice(self.clients), draws.choice(["table", "live"])
        reader = client.get(name, timeout=60)
        if draws.random() < 0.3:
            for _ in range(draws.randrange(20)):
                held.append(next(reader))
            if draws.random() < 0.5:
                reader.close()
            return
        batches = [pa.record_batch(batch) for batch in reader]
        if not pa.Table.from_batches(batches).equals(TABLE):
            self.unit.finding(f"{name} isn't what was published")

    def _list(self, draws: random.Random, _number: int, _held: list[Any]) -> None:
        names = {entry.name for entry in draws.choice(self.clients).list()}
        if not {"table", "live"} <= names:
            self.unit.finding(f"the catalog has {names}")

    def _publish(self, draws: random.Random, number: int, held: list[Any]) -> None:
        name = f"of thread {number}"
        self.server.publish(name, TABLE)
        held.append(next(draws.choice(self.clients).get(name, timeout=60)))
        self.server.withdraw(name)

    def _connect(self, _draws: random.Random, _number: int, held: list[Any]) -> None:
        with xd.connect(self.server.uri, timeout=60) as client:
            held.append(next(client.get("live", timeout=60)))


def _fork(unit: Unit, server: xd.Server, batch: Any) -> None:
    """A child may read what is frozen and is told that the rest is its parent's; its parent loses nothing."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            right = pa.record_batch(batch)["n"][0].as_py() == 0
            try:
                server.stats()
            except xd.ForkError:
                code = 0 if right else 2
        finally:
            os._exit(code)
    deadline = time.monotonic() + 60
    while (reaped := os.waitpid(pid, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            unit.finding("a forked child hangs")
            return
        time.sleep(0.001)
    unit.count("forks")
    if reaped[1]:
        unit.finding(f"a forked child ended with status {os.waitstatus_to_exitcode(reaped[1])}")


def mixed(unit: Unit) -> None:
    armed = False
    ticks = 0

    def tick(_number: int, _frame: FrameType | None) -> None:
        nonlocal ticks, armed
        ticks += 1
        if armed and ticks % 7 == 0:
            armed = False
            raise _Stopped

    pa.table({"n": [1]}).equals(TABLE)  # pyarrow's threads start before leftovers are looked for
    with (
        leftovers.none_of(unit),
        xd.serve({"table": TABLE, "live": lambda: TABLE.to_reader()}, ["shm:", "tcp:"]) as server,
    ):
        uris = server.uris
        frozen = next(xd.connect(uris[0]).get("table"))
        workers = _Workers(unit, server, uris)
        old = signal.signal(signal.SIGALRM, tick)
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
        try:
            with xd.connect(uris[0], timeout=60) as client, xd.connect(uris[1], timeout=60) as over_tcp:
                _fork(unit, server, frozen)
                for _ in unit.rounds():
                    if unit.findings:
                        break
                    reader = unit.random.choice([client, over_tcp]).get(unit.random.choice(["table", "live"]))
                    batches: list[Any] = []
                    try:
                        armed = True
                        for batch in reader:
                            batches.append(batch)
                        armed = False
                    except _Stopped:
                        unit.count("readers interrupted")
                    if unit.random.random() < 0.1:
                        _fork(unit, server, frozen)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
            workers.finish()
        unit.count("signals", ticks)
        del frozen, batches, reader, client, over_tcp, workers
        with contextlib.suppress(UnboundLocalError):
            del batch


KINDS = [Kind("mixed", "threads, signals and forks in one process", mixed,
              ("acts of threads", "forks", "signals"))]  # fmt: skip
