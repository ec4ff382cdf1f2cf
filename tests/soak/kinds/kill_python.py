"""kill -9 of Python clients and servers, forked from a process that has imported everything and has one thread."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import signal
import time
from pathlib import Path

import pyarrow as pa
from tests.soak import peer, promises
from tests.soak.forked import expect_end, fork
from tests.soak.kinds.kill import networks_for_kills
from tests.soak.unit import Kind, Unit, wait_until
from tests.soak.witness import ROWS, Witness

import crossdock as xd

AT_ONCE = 3
MOST_SECONDS = 0.1


def _delay(unit: Unit) -> float:
    """Seconds, short ones as likely as long ones."""
    return math.exp(unit.random.uniform(math.log(0.001), math.log(MOST_SECONDS)))


def _ended(pid: int) -> bool:
    """Leaves its status for _kill()."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill(unit: Unit, pid: int, who: str) -> None:
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        unit.count("kills")
    else:
        unit.finding(f"{who} ended by itself with status {os.waitstatus_to_exitcode(status)}")


def _read_for_ever(uri: str, read: memoryview, slot: int) -> None:
    """`read[slot]`: how many tables it has read whole."""
    while True:
        with xd.connect(uri, timeout=None) as client:
            for name in ("table", "live", "table"):
                held = list(client.get(name))
                table = pa.Table.from_batches([pa.record_batch(batch) for batch in held])
                if table.num_rows != ROWS or table["number"].to_pylist() != list(range(ROWS)):
                    raise AssertionError(f"{name} has {table.num_rows} rows, or other values")
                read[slot] += 1


def kill_clients(unit: Unit) -> None:
    with peer.PeerServer("dev", [unit.random.choice(["shm:", *networks_for_kills("dev")])]) as server:
        (uri,) = server.uris
        fresh = server.statistics()
        read = memoryview(mmap.mmap(-1, 8 * AT_ONCE)).cast("Q")  # shared with the children
        for _ in unit.rounds("whole tables"):
            for slot in range(AT_ONCE):
                read[slot] = 0
            children = [
                fork(lambda slot=slot: _read_for_ever(uri, read, slot))  # type: ignore[misc]
                for slot in range(AT_ONCE)
            ]
            for slot, child in enumerate(children):
                if unit.random.random() < 0.5 and not wait_until(lambda: read[slot] > 0 or _ended(child), 60):  # noqa: B023
                    unit.finding("a client of a server that lives reads no table")
                time.sleep(_delay(unit))
                _kill(unit, child, "a client of a server that lives")
                unit.count("whole tables", read[slot])
        # Clients of this process come last: a child of a process with connections of its own would have them, too.
        witness = Witness(unit, uri)
        witness.look()
        witness.close()
        promises.check_nothing_stays(unit, server, fresh)


def _serve_until_stopped(path: str, stop: Path) -> None:
    numbers = pa.array(range(ROWS), pa.int64())
    table = pa.Table.from_batches(pa.table({"number": numbers}).to_batches(50))
    with xd.serve({"table": table, "live": lambda: table.to_reader()}, f"shm:{path}"):
        while not stop.exists():
            time.sleep(0.001)


def _read_until_told(path: str, leave: Path, done: int) -> None:
    """Reads from whichever server is there; a byte goes to `done` for each table that was read whole."""
    while not leave.exists():
        try:
            with xd.connect(f"shm:{path}", timeout=20) as client:
                while not leave.exists():
                    for name in ("table", "live"):
                        batches = [pa.record_batch(batch) for batch in client.get(name)]
                        if [row for batch in batches for row in batch["number"].to_pylist()] != list(range(ROWS)):
                            raise AssertionError(f"{name} was short, or had other values")
                        with contextlib.suppress(BlockingIOError):
                            os.write(done, b"x")
        except xd.TimeoutError as error:
            raise AssertionError("a client waited 20 s for a server that had died") from error
        except xd.Error:
            time.sleep(0.001)


def kill_servers(unit: Unit) -> None:
    path, stop, leave = str(unit.folder / "s.sock"), unit.folder / "stop", unit.folder / "leave"
    done, write = os.pipe()
    os.set_blocking(done, False)
    os.set_blocking(write, False)
    readers = [fork(lambda: _read_until_told(path, leave, write)) for _ in range(2)]
    for _ in unit.rounds():
        server = fork(lambda: _serve_until_stopped(path, stop))
        time.sleep(_delay(unit))
        _kill(unit, server, "a server")
    with contextlib.suppress(BlockingIOError):
        while whole := os.read(done, 65536):
            unit.count("whole tables", len(whole))
    last = fork(lambda: _serve_until_stopped(path, stop))

    def read() -> bool:
        try:
            unit.count("whole tables", len(os.read(done, 1)))
        except BlockingIOError:
            return False
        return True

    if not all(wait_until(read, 60) for _ in range(4)):
        unit.finding("clients get no table from the server that came after those that were killed")
    leave.touch()
    for reader in readers:
        expect_end(unit, reader, "a client")
    stop.touch()
    expect_end(unit, last, "the last server")
    for fd in (done, write):
        os.close(fd)
    for left in unit.folder.glob("s.sock*"):
        unit.finding(f"left behind by servers: {left.name}")


KINDS = [
    Kind("kill-python-clients", "kill -9 of Python clients", kill_clients,
         ("kills", "whole tables", "tables beside them"), lambda: peer.missing("dev")),
    Kind("kill-python-servers", "kill -9 of Python servers", kill_servers, ("kills", "whole tables")),
]  # fmt: skip
