"""Files of every type, changed in a few places: opened, read whole, and served, as strictly as we can look at them."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
from tests.soak import leftovers, mutate, reading
from tests.soak.unit import ROOT, Kind, Unit

import crossdock as xd

FILES_OF_A_UNIT = 12
STABLE = ("trust", "snapshot")


def _tables(unit: Unit) -> list[pa.Table]:
    """Some columns each, of all types."""
    sys.path.insert(0, str(ROOT / "tests" / "interop"))
    import every_type

    names = list(every_type.VALUES)
    tables = []
    for _ in range(FILES_OF_A_UNIT):
        chosen = unit.random.sample(names, unit.random.randint(1, 5))
        tables.append(pa.table({name: pa.chunked_array([every_type.column(name)] * 2) for name in chosen}))
    return tables


def _written(unit: Unit, table: pa.Table, path: Path) -> bytes:
    """The bytes of a file or a stream file of ours or pyarrow's."""
    form = unit.random.choice(["file", "stream"])
    if unit.random.random() < 0.5:
        xd.write(table, path, form=form, compression=unit.random.choice([None, "lz4", "zstd"]))
    else:
        options = pa.ipc.IpcWriteOptions(compression=unit.random.choice([None, "lz4", "zstd"]))
        make = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
        with make(str(path), table.schema, options=options) as writer:
            writer.write_table(table)
    return path.read_bytes()


def _read(unit: Unit, path: Path) -> None:
    try:
        with xd.open(path, validation="full") as reader:
            table = reading.table_of(reader)
    except xd.Error:
        unit.count("refused by name")
        return
    except reading.SchemaRefused:
        unit.count("schemas that pyarrow refuses")
        return
    except pa.ArrowException as error:
        unit.finding(f"pyarrow can't take what full validation let through: {error}")
        return
    unit.count("files that hold together")
    reading.check_fully(unit, table)


def _served(server: xd.Server, client: xd.Client, path: Path, stable: str) -> pa.Table:
    server.publish("file", path, stable=stable)
    try:
        return reading.table_of(client.get("file", timeout=20, validation="full"))
    finally:
        server.withdraw("file")


def _read_right(unit: Unit, server: xd.Server, client: xd.Client, path: Path, table: pa.Table) -> None:
    """One that nothing was changed in, every way: were it refused, the changed ones would be for another reason."""
    with xd.open(path, validation="full") as reader:
        read = [reading.table_of(reader)]
    read += [_served(server, client, path, stable) for stable in STABLE]
    for one in read:
        if one.equals(table):
            unit.count("right files read")
        else:
            unit.finding(f"a right file with the columns {table.column_names} gave another table")


def files(unit: Unit) -> None:
    path = unit.folder / "file.arrow"
    originals = []
    with leftovers.none_of(unit), xd.serve({}) as server, xd.connect(server.uri) as client:
        for table in _tables(unit):
            path.unlink(missing_ok=True)
            originals.append(_written(unit, table, path))
            _read_right(unit, server, client, path, table)
        for _ in unit.rounds():
            original = unit.random.choice(originals)
            path.unlink(missing_ok=True)
            path.write_bytes(mutate.some_bytes(unit.random, original, in_place=unit.random.random() < 0.8))
            _read(unit, path)
            if unit.random.random() < 0.2:
                try:
                    _served(server, client, path, unit.random.choice(STABLE))
                    unit.count("mutated files served")
                except (xd.Error, reading.SchemaRefused):
                    unit.count("mutated files refused by the server or its client")
            unit.count("mutated files")


KINDS = [Kind("files", "mutated files, opened and served", files, ("mutated files", "right files read"))]
