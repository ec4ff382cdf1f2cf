"""How long it takes until a peer's death is an error, and a pulled cable: while idle, in a message, in a read."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from bench import _peers
from bench._children import role, said, serving
from bench._places import Place, two_namespaces, why_no_namespaces
from bench._wire.networks import SCHEMES, uri, why_not
from bench._wire.part import MIB, Part

BODY_BEGUN = 1_000_000  # bytes
RATE = "50mbit"  # so that a body takes some seconds
TIMEOUT = 2.0  # seconds, of a caller
LIMIT = 12.0  # seconds; longer than any error may take
CASES = {"idle": ("silent", 0), "in a message": ("batches", 0), "in a read": ("batches", 4)}  # tables and columns


def run(part: Part) -> None:
    if why := why_no_namespaces():
        part.leave_out("all of it", why)
        return
    for scheme in SCHEMES:
        if why := why_not(scheme):
            part.leave_out(scheme, why)
            continue
        try:
            for name, (table, columns) in CASES.items():
                killed(part, scheme, name, table, columns)
            cable(part, scheme)
        except pytest.skip.Exception as reason:  # of the tests' hosts
            part.leave_out(scheme, str(reason))


@dataclass(frozen=True)
class Pair:
    """A server and a client that waits for a batch."""

    place: Place
    server: subprocess.Popen[str]
    client: subprocess.Popen[str]
    began: float  # to wait; CLOCK_MONOTONIC

    def reach_body(self, table: str) -> None:
        """Waits until the client is in the middle of a body. Nothing tells of bytes in a network: they are polled."""
        assert self.place.two is not None
        host = self.place.two.client
        before = host.received()
        deadline = time.monotonic() + 60
        while table == "batches" and host.received() < before + BODY_BEGUN:
            if time.monotonic() > deadline:
                raise RuntimeError("no body came")
            time.sleep(0.01)

    def error_after(self, since: float, error: str) -> float:
        """Seconds; LIMIT where there was none by then."""
        if not select.select([self.client.stdout], [], [], LIMIT)[0]:
            return LIMIT
        end = said(self.client)
        if end["error"] != error:
            raise RuntimeError(f"the client was to end with {error}, but said {end}")
        return float(end["at"]) - since


@contextlib.contextmanager
def peers(place: Place, scheme: str, table: str, columns: int = 0, *,
          timeout: float | None = None) -> Iterator[Pair]:  # fmt: skip
    assert place.two is not None
    if table == "batches":
        place.two.limit_rate(RATE)
    server = role("_wire.ends", "serve", uri(scheme, place.host), batch_bytes=64 * MIB)
    with serving([*place.server, *server]) as (ready, serving_process):
        limits = {} if timeout is None else {"timeout": timeout}
        client = role("_wire.ends", "watch", ready["uri"], name=table, columns=columns, **limits)
        with serving([*place.client, *client]) as (waiting, watching):
            try:
                yield Pair(place, serving_process, watching, float(waiting["at"]))
            finally:
                for process in (watching, serving_process):
                    process.kill()  # nobody waits for the rest of a body


def killed(part: Part, scheme: str, name: str, table: str, columns: int) -> None:
    seconds = []
    for _ in range(part.plan.rounds):
        with two_namespaces() as place, peers(place, scheme, table, columns) as pair:
            pair.reach_body(table)
            pair.server.kill()
            seconds.append(pair.error_after(time.monotonic(), "TruncatedStreamError"))
    part.must(f"{scheme}, a killed peer, {name}: longest time to the error", max(seconds), at_most=1, unit="s")


def cable(part: Part, scheme: str) -> None:
    """Pulled in the middle of a body."""

    def pulled(place: Place, timeout: float | None, end: str, *, interrupted: bool = False) -> float:
        with peers(place, scheme, "batches", timeout=timeout) as pair:
            pair.reach_body("batches")
            assert place.two is not None
            place.two.pull_cable()
            since = time.monotonic()
            if interrupted:
                os.kill(pair.client.pid, signal.SIGINT)
            return pair.error_after(since if timeout is None else pair.began + timeout, end)

    name = f"{scheme}, a pulled cable in a body"
    with two_namespaces() as place:
        late = pulled(place, TIMEOUT, "TimeoutError")
    part.must(f"{name}: error after the caller's timeout", late, at_most=1, unit="s")
    with two_namespaces() as place:
        late = pulled(place, None, "KeyboardInterrupt", interrupted=True)
    part.must(f"{name}: Ctrl-C", late, at_most=1, unit="s")
    if scheme == "ucx" and (newer := _peers.newer_ucx()) is None:
        part.leave_out(f"{name}, UCX with a user time-out", f"no UCX that has one is installed; {_peers.HOW}")
        return
    variables = {}
    if scheme == "ucx":
        variables = {"CROSSDOCK_UCX_LIBRARY": str(newer)}
    with two_namespaces() as place:
        late = pulled(place.with_variables(variables), None, "TruncatedStreamError")
    part.must(f"{name}: error, nobody asking" + (" (UCX 1.22)" if variables else ""), late, at_most=10, unit="s")
