"""Servers that break the protocol, over shm and tcp: a client of ours says so, or has a table that holds together.

A connection counts as one hostile message, if something was sent on it that was changed or came twice, while the client
waited for more, and the client came to an end with it."""

from __future__ import annotations

import contextlib
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.soak import leftovers, mutate, reading
from tests.soak.spec_peers import ENDED, spec_server
from tests.soak.unit import Kind, Unit

import crossdock as xd


class _Server:
    """One connection that is cut off, or on which messages are changed, left out, sent twice or in another order."""

    def __init__(self, unit: Unit, ours: bool, right: bool) -> None:
        self.unit, self.random, self.by_value, self.right = unit, unit.random, not ours, right
        self.cut = self.changed = False
        self.hostile = False
        """Something hostile was sent."""

    def act(self, carrier: Any) -> None:
        with contextlib.suppress(*ENDED):  # the client has had enough
            spec_server.expect_request(carrier)
            if not self.right:
                self._change_sending(carrier)
            kinds = spec_server.packed if self.by_value else self.random.choice(
                (spec_server.packed, spec_server.remote, spec_server.mixed)
            )  # fmt: skip
            sending = spec_server.Sending(carrier, kinds, by_value=self.by_value)
            acts = self.random.choice(spec_server.ORDERS)(sending)
            twice = None
            draw = 1 if self.right else self.random.random()
            if draw < 0.2:
                acts = acts[: self.random.randrange(len(acts))]
                self.cut = True
            elif draw < 0.5:
                twice = self.random.choice(acts)
                acts.insert(self.random.randrange(len(acts)), twice)
                self.changed = True
            elif draw < 0.53:
                acts.pop(self.random.randrange(len(acts)))
                self.changed = True
            sent = 0
            for act in acts:
                act()
                sent += act is twice
                self.hostile |= sent == 2
            if self.cut:
                carrier.close(orderly=self.random.random() < 0.5)
            else:
                spec_server.until_it_goes(carrier)

    def _change_sending(self, carrier: Any) -> None:
        """Has the carrier change some of the messages that go through it."""
        if self.random.random() < 0.3:
            return
        self.changed = True
        send, left = carrier.send, [self.random.randrange(14) for _ in range(self.random.choice((1, 1, 2, 4)))]
        number = 0

        def changing(payload: bytes, tag: int | None = None, *, by_value: bool = False) -> None:
            nonlocal number
            changes = number in left
            if changes:
                if tag is not None and self.random.random() < 0.2:
                    tag ^= 1 << self.random.choice((0, 1, 8, 32, 40, 56, 57, 63))
                else:
                    payload = mutate.some_bytes(self.random, payload, in_place=self.random.random() < 0.7)
            number += 1
            send(payload, tag, by_value=by_value)
            self.hostile |= changes

        carrier.send = changing


def _read(uri: str) -> pa.Table:
    # A message that was left out is waited for: briefly, for this end knows that it may never come.
    with xd.connect(uri, timeout=5) as client:
        return reading.table_of(client.get("t", timeout=0.3, validation="full"))


def attack(unit: Unit, scheme: str) -> None:
    right = True  # the first one: were it refused, the changed ones would be for another reason
    with leftovers.none_of(unit):
        for _ in unit.rounds("hostile messages"):
            one = _Server(unit, scheme == "shm", right)
            with tempfile.TemporaryDirectory(dir=unit.folder) as folder:
                path = str(Path(folder) / "s")
                serving = spec_server.shm_server(path) if scheme == "shm" else spec_server.tcp_server()
                with serving as server:
                    server.accept(one.act)
                    refused = _look(unit, one, server.uri)
            unit.count("hostile messages", refused and one.hostile)
            unit.count("connections of servers")
            right = False


def _look(unit: Unit, one: _Server, uri: str) -> bool:
    """Whether the client refused the stream for what it had got."""
    try:
        table = _read(uri)
    except xd.TimeoutError:
        unit.count("waits for what never came")
        return False
    except xd.Error as error:
        unit.count("refused by name")
        if one.right:
            unit.finding(f"a client that nothing wrong was sent got {type(error).__name__}: {error}")
        return True
    except reading.SchemaRefused:
        unit.count("schemas that pyarrow refuses")
        return False
    except pa.ArrowException as error:
        unit.finding(f"pyarrow can't take what full validation let through: {error}")
        return False
    unit.count("tables that hold together")
    if not one.changed and not table.equals(spec_server.TABLE):
        unit.finding(f"a {'cut off' if one.cut else 'whole'} stream gave another table, of {table.num_rows} rows")
    reading.check_fully(unit, table)
    return False


KINDS = [
    Kind(f"hostile-{scheme}-servers", f"servers that break the rules over {scheme}, against our client",
         partial(attack, scheme=scheme), ("hostile messages", "tables that hold together"))
    for scheme in ("shm", "tcp")
]  # fmt: skip
