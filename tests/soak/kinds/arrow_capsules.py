"""Arrow capsules with wrong values, of those that a consumer can see without knowing how large the memory is."""

from __future__ import annotations

import ctypes
import random
from typing import Any

import pyarrow as pa
from tests.exporter_samples import arrow, capsules
from tests.soak import mutate, reading
from tests.soak.unit import Kind, Unit

import crossdock as xd

FORMATS = (b"", b"i", b"l", b"n", b"b", b"u", b"U", b"z", b"vu", b"e", b"+s", b"+l", b"+L", b"+w:2", b"+w:-1", b"+m",
           b"+ud:0,1", b"+us:0", b"+r", b"+vl", b"w:3", b"w:-3", b"w:", b"d:10,2", b"d:999,2", b"d:1", b"tsu:", b"tdD",
           b"\xff", b"+", b"+x", b"i" * 300)  # fmt: skip

# How much is behind each buffer, so that a wrong type or length leads to memory of the exporter's.
BEHIND = 1 << 16


def _memory(data: bytes) -> Any:
    raw = ctypes.create_string_buffer(len(data) + BEHIND)
    at = (ctypes.addressof(raw) + 63) // 64 * 64
    ctypes.memmove(at, data, len(data))
    return raw, at


class Mutated(arrow.Data):
    def __init__(self, draws: random.Random) -> None:
        self.random = draws
        self.wrong_schema = draws.random() < 0.5
        self.wrong_array = not self.wrong_schema or draws.random() < 0.3
        self.kept: list[Any] = []

    def node(self) -> Any:
        node = arrow.batch()
        if self.random.random() < 0.3:  # wrong content: offsets, indices, text
            one = self.random.choice(node.children)
            at = self.random.randrange(len(one.buffers))
            data = one.buffers[at]
            if data is not None:
                one.buffers[at] = bytes(min(byte, 3) if i % 4 else byte for i, byte in
                                        enumerate(mutate.some_bytes(self.random, data, in_place=True)))  # fmt: skip
                if one.format in (b"u", b"+l") and at == 1:
                    # Only so far as memory is there: how far it goes is the exporter's word.
                    one.buffers[at] = arrow.int32(*(self.random.randrange(-8, 40) for _ in range(4)))
        return node

    def _one_of(self, kind: Any, raw: Any) -> Any:
        while raw.n_children > 0 and self.random.random() < 0.7:
            raw = arrow.nth(kind, raw, self.random.randrange(raw.n_children))
        if raw.dictionary and self.random.random() < 0.5:
            raw = kind.from_address(raw.dictionary)
        return raw

    def schema(self, raw: Any) -> None:
        if not self.wrong_schema:
            return
        raw = self._one_of(arrow.Schema, raw)
        what = self.random.choice(("format", "no format", "name", "flags", "children", "no children", "dictionary"))
        if what == "format":
            text = ctypes.create_string_buffer(self.random.choice(FORMATS))
            self.kept.append(text)
            raw.format = ctypes.addressof(text)
        elif what == "no format":
            raw.format = None
        elif what == "name":
            text = ctypes.create_string_buffer(self.random.randbytes(8))
            self.kept.append(text)
            raw.name = ctypes.addressof(text)
        elif what == "flags":
            raw.flags = ctypes.c_int64(mutate.number(self.random)).value
        elif what == "children":
            raw.n_children = self.random.choice((-1, 0, max(0, raw.n_children - 1), -(1 << 63)))
        elif what == "no children":
            raw.children = None
        else:
            raw.dictionary = None

    def array(self, raw: Any) -> None:
        if not self.wrong_array:
            return
        raw = self._one_of(arrow.Array, raw)
        what = self.random.choice(("length", "null_count", "offset", "n_buffers", "no buffers", "buffer", "children",
                                   "no children", "dictionary"))  # fmt: skip
        if what in ("length", "null_count", "offset"):
            setattr(
                raw, what, self.random.choice((-1, -2, 0, 1, 2, 3, -(1 << 63), *((4, 100) if what != "length" else ())))
            )
        elif what == "n_buffers":
            raw.n_buffers = self.random.choice((-1, 0, max(0, raw.n_buffers - 1), -(1 << 63)))
        elif what == "no buffers":
            raw.buffers = None
        elif what == "buffer" and raw.n_buffers:
            arrow.nth_buffer(raw, self.random.randrange(raw.n_buffers)).value = None
        elif what == "children":
            raw.n_children = self.random.choice((-1, 0, max(0, raw.n_children - 1), -(1 << 63)))
        elif what == "no children":
            raw.children = None
        else:
            raw.dictionary = None


def _take(unit: Unit, thing: Any, server: xd.Server, client: xd.Client) -> None:
    draw = unit.random.random()
    try:
        if draw < 0.5:
            for batch in xd.RecordBatchReader([thing]):
                pa.record_batch(batch).validate(full=False)
        elif draw < 0.75:
            xd.write([thing], unit.folder / "file.arrow")
        else:
            server.publish("batch", [thing])
            try:
                reading.table_of(client.get("batch", timeout=20))
            finally:
                server.withdraw("batch")
    except (xd.Error, TypeError, ValueError, NotImplementedError):
        unit.count("refused by name")
    except Exception as error:
        unit.finding(f"{type(error).__name__} for a batch with wrong values: {error}")
    else:
        unit.count("taken")


def _take_right(unit: Unit, server: xd.Server, client: xd.Client) -> None:
    """One that nothing was changed in, every way: were it refused, the changed ones would be for another reason."""
    expected = pa.Table.from_batches([pa.record_batch(arrow.Data())])
    path = unit.folder / "file.arrow"
    server.publish("batch", [arrow.Data()])
    xd.write([arrow.Data()], path)
    ways = {
        "read": xd.RecordBatchReader([arrow.Data()]),
        "written": xd.open(path),
        "served": client.get("batch", timeout=20),
    }
    for name, reader in ways.items():
        if reading.table_of(reader).equals(expected):
            unit.count("right ones taken")
        else:
            unit.finding(f"a right batch is another one once it is {name}")
    server.withdraw("batch")


def attack(unit: Unit) -> None:
    arrow._memory = _memory
    with xd.serve({}) as server, xd.connect(server.uri) as client:
        _take_right(unit, server, client)
        for _ in unit.rounds("refused by name", "taken"):
            for _ in range(50):
                _take(unit, Mutated(unit.random), server, client)
                unit.count("objects")
            capsules.ALIVE.clear()


KINDS = [Kind("arrow-capsules", "Arrow capsules with wrong values", attack,
              ("objects", "refused by name", "taken", "right ones taken"))]  # fmt: skip
