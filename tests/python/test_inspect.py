"""`crossdock inspect`, as a user runs it: files of every form, servers, and the protocol's messages as they pass."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.children import Child
from tests.terminal import on_a_terminal

import crossdock as xd

COMMAND = [sys.executable, "-m", "crossdock", "inspect"]


def inspect(*arguments: object, expect: int = 0) -> tuple[str, str]:
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr


def inspect_json(*arguments: object) -> Any:
    out, err = inspect(*arguments, "--json")
    assert err == ""
    return json.loads(out)


def lines_json(*arguments: object) -> list[Any]:
    out, err = inspect(*arguments, "--json")
    assert err == ""
    return [json.loads(line) for line in out.splitlines()]


def cells(out: str, first: str) -> list[str]:
    """The cells of the line whose first cell is `first`."""
    found = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines()]
    matching = [row for row in found if row[0] == first]
    assert len(matching) == 1, f"{first!r} begins {len(matching)} lines of\n{out}"
    return matching[0]


def write_file(path: Path, batches: list[pa.RecordBatch], codec: str | None = None) -> Path:
    with pa.ipc.new_file(str(path), batches[0].schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as sink:
        for batch in batches:
            sink.write_batch(batch)
    return path


def write_stream(path: Path, batches: list[pa.RecordBatch], **options: Any) -> Path:
    with pa.ipc.new_stream(str(path), batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as sink:
        for batch in batches:
            sink.write_batch(batch)
    return path


SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("s", pa.string(), metadata={"unit": "none"}),
        pa.field("u", pa.binary(16), metadata={"ARROW:extension:name": "arrow.uuid", "ARROW:extension:metadata": ""}),
    ],
    metadata={"made by": "a test"},
)
BATCH = pa.record_batch([pa.array([1, 2, 3]), pa.array(["a", None, "bcd"]), pa.array([b"x" * 16, None, None])], SCHEMA)
MORE = pa.record_batch([pa.array([4]), pa.array(["e"]), pa.array([None], pa.binary(16))], SCHEMA)


# ---- files ----


def test_a_file(tmp_path: Path) -> None:
    path = write_file(tmp_path / "flights.arrow", [BATCH, MORE])
    out, err = inspect(path)
    assert err == ""
    first = out.splitlines()[0]
    size = f"{path.stat().st_size:,}"
    assert first == (
        f"{path}: Arrow IPC file, {size} bytes, metadata V5, little-endian, 4 rows, 2 batches, 0 dictionaries"
    )
    # No column for dictionaries, for there are none.
    assert cells(out, "field") == ["field", "type", "nullable", "extension", "metadata"]
    assert cells(out, "n") == ["n", "int64", "no"]
    assert cells(out, "s") == ["s", "utf8", "yes", "unit=none"]
    assert cells(out, "u")[:4] == ["u", "fixed_size_binary[16]", "yes", "arrow.uuid"]
    assert "schema metadata: made by=a test" in out
    # The body's bytes are pyarrow's to choose; its data's are not: 24, 1 and 16 and 4, 1 and 48.
    batches = [line.split() for line in out.splitlines() if line.startswith("batch ")]
    assert [row[:4] for row in batches] == [["batch", "0", "3", "3"], ["batch", "1", "1", "1"]]
    assert int(batches[0][5]) >= 24 + 1 + 16 + 4 + 1 + 48
    assert "buffer" not in out
    assert "more" not in out


def test_where_buffers_are(tmp_path: Path) -> None:
    path = write_file(tmp_path / "flights.arrow", [BATCH, MORE])
    content = path.read_bytes()
    about = inspect_json(path, "--buffers")
    assert about["left_out"] == {"batches": 0, "dictionaries": 0}
    batch = about["messages"][0]
    assert (batch["kind"], batch["rows"], batch["nulls"], batch["version"]) == ("record batch", 3, 3, 5)
    assert batch["body_offset"] == batch["metadata_offset"] + batch["metadata_bytes"]
    n, s, u = batch["nodes"]
    assert [(node["path"], node["type"], node["rows"], node["nulls"]) for node in batch["nodes"]] == [
        ("n", "int64", 3, 0),
        ("s", "utf8", 3, 1),
        ("u", "fixed_size_binary[16]", 3, 2),
    ]
    assert [buffer["kind"] for buffer in n["buffers"]] == ["validity", "data"]
    assert [buffer["kind"] for buffer in s["buffers"]] == ["validity", "int32 offsets", "data"]

    def bytes_of(buffer: dict[str, int]) -> bytes:
        return content[buffer["offset"] : buffer["offset"] + buffer["size"]]

    assert struct.unpack("<3q", bytes_of(n["buffers"][1])) == (1, 2, 3)
    assert struct.unpack("<4i", bytes_of(s["buffers"][1])[:16]) == (0, 1, 1, 4)
    assert bytes_of(s["buffers"][2])[:4] == b"abcd"
    assert bytes_of(s["buffers"][0])[0] == 0b101
    assert bytes_of(u["buffers"][1])[:16] == b"x" * 16
    assert batch["data_bytes"] == sum(buffer["size"] for node in batch["nodes"] for buffer in node["buffers"])

    out, _ = inspect(path, "--buffers", "--limit", 1)
    at = f"{n['buffers'][1]['offset']:,}"
    assert re.search(rf"^    n +int64 +3 +0 +validity +0$\n +n +data +24 +{at}$", out, re.MULTILINE), out
    assert "... and 1 more batch; --limit 0 shows all" in out


@pytest.mark.long
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_files(tmp_path: Path, codec: str) -> None:
    values = pa.array(range(10_000), pa.int64())
    batch = pa.record_batch([values, pa.array(["abc"] * 10_000)], ["n", "s"])
    paths = [
        write_file(tmp_path / "x.arrow", [batch], codec),
        write_stream(tmp_path / "x.arrows", [batch], compression=codec),
    ]
    for path, form in zip(paths, ("file", "stream"), strict=True):
        content = path.read_bytes()
        about = inspect_json(path, "--buffers")
        assert (about["form"], about["compressed"]) == (form, True)
        (message,) = about["messages"]
        assert message["compression"] == codec
        assert message["data_bytes"] == 80_000 + 40_004 + 30_000
        assert message["body_bytes"] < message["data_bytes"]
        numbers = message["nodes"][0]["buffers"][1]
        assert numbers["decompressed"] == 80_000
        assert numbers["size"] < 80_000
        assert struct.unpack_from("<q", content, numbers["offset"]) == (80_000,)
        out, _ = inspect(path, "--buffers")
        assert f", {codec}" in out
        assert re.search(r"^    field +type +length +nulls +buffer +bytes +decompressed +at$", out, re.MULTILINE)
    out, _ = inspect(paths[1])
    assert ": Arrow IPC stream file, " in out.splitlines()[0]
    assert out.splitlines()[0].endswith(", compressed")


def test_dictionaries(tmp_path: Path) -> None:
    def batch(values: list[str]) -> pa.RecordBatch:
        indices = pa.array([0] * len(values), pa.int8())
        return pa.record_batch([pa.DictionaryArray.from_arrays(indices, pa.array(values))], ["d"])

    batches = [batch(["a", "b"]), batch(["a", "b", "c"]), batch(["x"])]
    path = write_stream(tmp_path / "d.arrows", batches, emit_dictionary_deltas=True)
    out, _ = inspect(path)
    assert "3 batches, 3 dictionaries" in out.splitlines()[0]
    assert cells(out, "d") == ["d", "dictionary[int8 -> utf8]", "yes", "0"]
    shown = [line for line in out.splitlines() if line.startswith(("dictionary ", "batch "))]
    assert [line.split()[:3] for line in shown] == [
        ["dictionary", "0", "2"],
        ["batch", "0", "2"],
        ["dictionary", "0", "1"],
        ["batch", "1", "3"],
        ["dictionary", "0", "1"],
        ["batch", "2", "1"],
    ]
    assert [line.rsplit(", ", 1)[-1] for line in shown if line.startswith("d")][1:] == ["delta", "replacement"]
    messages = inspect_json(path)["messages"]
    assert [(one["dictionary"], one["delta"], one["replaces"]) for one in messages if one["kind"] == "dictionary"] == [
        (0, False, False),
        (0, True, False),
        (0, False, True),
    ]
    assert "nodes" not in messages[0]
    # A limit counts batches and dictionaries each.
    out, _ = inspect(path, "--limit", 1)
    assert "... and 2 more batches, 2 more dictionaries; --limit 0 shows all" in out


def test_nested_types_and_views(tmp_path: Path) -> None:
    union = pa.UnionArray.from_dense(
        pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([7]), pa.array(["x"])], ["i", "s"]
    )
    batch = pa.record_batch(
        {
            "l": pa.array([[{"a": 1, "b": True}], None], pa.list_(pa.struct({"a": pa.int16(), "b": pa.bool_()}))),
            "v": pa.array(["short", "long enough to be out of line"], pa.string_view()),
            "m": pa.array([[("k", 1.5)], []], pa.map_(pa.string(), pa.float64())),
            "u": union,
            "r": pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array([9], pa.int64())),
            "z": pa.nulls(2),
            "lv": pa.array([[1], [2, 3]], pa.list_view(pa.int8())),
            "big": pa.array(["a", "b"], pa.large_string()),
        }
    )
    path = write_file(tmp_path / "nested.arrow", [batch])
    about = inspect_json(path, "--buffers")
    assert [(field["path"], field["depth"]) for field in about["fields"][:4]] == [
        ("l", 0),
        ("l.item", 1),
        ("l.item.a", 2),
        ("l.item.b", 2),
    ]
    kinds = {
        node["path"]: [(buffer["kind"], buffer["variadic"]) for buffer in node["buffers"]]
        for node in about["messages"][0]["nodes"]
    }
    none = {name: [(kind, None) for kind in listed] for name, listed in {
        "l": ["validity", "int32 offsets"],
        "l.item": ["validity"],
        "l.item.a": ["validity", "data"],
        "l.item.b": ["validity", "bits"],
        "m": ["validity", "int32 offsets"],
        "u": ["type ids", "union offsets"],
        "r": [],
        "r.run_ends": ["validity", "data"],
        "z": [],
        "lv": ["validity", "int32 offsets", "int32 sizes"],
        "big": ["validity", "int64 offsets", "data"],
    }.items()}  # fmt: skip
    assert {name: kinds[name] for name in none} == none
    assert kinds["v"] == [("validity", None), ("views", None), ("variadic", 0)]
    variadic = next(node for node in about["messages"][0]["nodes"] if node["path"] == "v")["buffers"][2]
    found = path.read_bytes()[variadic["offset"] : variadic["offset"] + variadic["size"]]
    assert found == b"long enough to be out of line"
    out, _ = inspect(path, "--buffers")
    assert re.search(r"^ +v +variadic 0 +29 +[\d,]+$", out, re.MULTILINE), out
    assert re.search(r"^ +z +null +2 +2 +\(none\)$", out, re.MULTILINE), out


@pytest.mark.long
def test_other_files(tmp_path: Path) -> None:
    """V4, a file without batches, many batches, and the metadata of footers and messages."""
    path = write_stream(tmp_path / "v4.arrows", [BATCH], metadata_version=pa.ipc.MetadataVersion.V4)
    assert ", metadata V4, " in inspect(path)[0]
    assert inspect_json(path)["messages"][0]["version"] == 4

    with pa.ipc.new_file(str(tmp_path / "none.arrow"), pa.schema([])):
        pass
    out, _ = inspect(tmp_path / "none.arrow")
    assert "0 rows, 0 batches" in out
    assert "(no fields)" in out
    assert "message " not in out

    path = write_file(tmp_path / "many.arrow", [MORE] * 25)
    out, _ = inspect(path)
    assert "... and 15 more batches; --limit 0 shows all" in out
    assert cells(out, "batch 9")
    assert "batch 10" not in out
    assert inspect_json(path)["left_out"] == {"batches": 15, "dictionaries": 0}
    assert "batch 24" in inspect(path, "--limit", 0)[0]

    with pa.ipc.new_stream(str(tmp_path / "said.arrows"), MORE.schema) as sink:
        sink.write_batch(MORE, custom_metadata={"step": "1"})
    assert inspect(tmp_path / "said.arrows")[0].splitlines()[-1].endswith(", step=1")
    with pa.ipc.new_file(str(tmp_path / "footer.arrow"), MORE.schema, metadata={"from": "the footer"}):
        pass
    assert "footer metadata: from=the footer" in inspect(tmp_path / "footer.arrow")[0]


def test_names_from_elsewhere_are_harmless(tmp_path: Path) -> None:
    field = pa.field("a\x1b[31m\nb", pa.int8(), metadata={"k\x1b": "v" * 500, b"bytes": b"\xff"})
    schema = pa.schema([field], metadata={"\r": "\x07"})
    path = write_file(tmp_path / "evil.arrow", [pa.record_batch([pa.array([1], pa.int8())], schema)])
    out, _ = inspect(path, "--buffers")
    assert all(character.isprintable() or character == "\n" for character in out), out
    out, _ = inspect(path)
    assert cells(out, r"a\x1b[31m\nb")[1] == "int8"
    assert "(500 characters)" in out
    assert "v" * 500 not in out
    about = inspect_json(path)
    assert about["fields"][0]["metadata"] == [["k\x1b", "v" * 500], ["bytes", r"\xff"]]


@pytest.mark.long
def test_bad_files(tmp_path: Path) -> None:
    whole = write_file(tmp_path / "whole.arrow", [BATCH]).read_bytes()
    for content in (b"not an Arrow file, by any means", whole[:-20], whole[: len(whole) // 2], whole[:12]):
        (tmp_path / "bad.arrow").write_bytes(content)
        out, err = inspect(tmp_path / "bad.arrow", expect=1)
        assert out == ""
        assert err.startswith("InvalidDataError: ")
        assert "bad.arrow" in err
        assert err.count("\n") == 1
    (tmp_path / "bad.arrow").write_bytes(b"")
    _, err = inspect(tmp_path / "bad.arrow", expect=2)
    assert err.startswith("InvalidArgumentError: ")
    _, err = inspect(tmp_path / "absent.arrow", expect=3)
    assert err.startswith("NotFoundError: ")
    _, err = inspect(tmp_path, expect=2)
    assert err.startswith("InvalidArgumentError: ")


def test_what_only_serve_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pa.parquet.write_table(pa.table({"x": [1]}), "x.parquet")
    for name in ("x.csv", "my x.jsonl", "x.json"):
        Path(name).write_text('{"x": 1}\n')
    Path("folder").mkdir()
    for name, in_shell, what, kind, code in (
        ("x.parquet", "x.parquet", "a Parquet file", "InvalidDataError", 1),
        ("x.csv", "x.csv", "a CSV file", "InvalidDataError", 1),
        ("x.json", "x.json", "a JSON file", "InvalidDataError", 1),
        ("my x.jsonl", "'my x.jsonl'", "a JSON file", "InvalidDataError", 1),
        ("folder", "folder", "a folder", "InvalidArgumentError", 2),
    ):
        _, err = inspect(name, expect=code)
        assert err == (
            f"{kind}: {name} is {what}, and `crossdock inspect` reads Arrow IPC files only; `crossdock serve "
            f"{in_shell}` serves it and prints a URI, and `crossdock get URI` shows the schema and the first rows\n"
        )


def test_the_name_of_a_server_in_place_of_its_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with xd.serve({"t": pa.table({"x": [1]})}, "shm:inspected"):
        _, err = inspect("inspected", expect=3)
    assert err == "NotFoundError: opening the file inspected: No such file or directory; did you mean shm:inspected?\n"


@pytest.mark.long
def test_wrong_usage(tmp_path: Path) -> None:
    path = write_file(tmp_path / "x.arrow", [MORE])
    inspect(path, "x", expect=2)
    inspect(path, "--wire", expect=2)
    inspect(expect=2)
    inspect("shm:/nobody.sock", "--wire", expect=2)
    inspect("shm:/nobody.sock", "--buffers", expect=2)
    inspect("shm:/nobody.sock", "x", "--buffers", "--wire", expect=2)
    inspect(path, "--limit", "-1", expect=2)
    _, err = inspect("nonsense:/x", "x", expect=2)
    assert err.startswith("SchemeError: ")
    _, err = inspect(f"shm:{tmp_path}/nobody.sock", "--timeout", "1", expect=4)
    assert err.startswith("ConnectionError: ")
    # A name with a colon in it is a file's, if it is a path.
    os.rename(path, tmp_path / "shm:x")
    done = subprocess.run([*COMMAND, "./shm:x"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_narrow_terminal_loses_nothing(tmp_path: Path) -> None:
    path = write_file(tmp_path / "flights.arrow", [BATCH])
    shown = on_a_terminal([*COMMAND, str(path), "--buffers"], columns=20)
    # Lines are broken between words, and nothing else is changed.
    assert shown.decode().split() == inspect(path, "--buffers")[0].split()


# ---- servers ----


def batches_of(*batches: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches(batches)


def test_a_catalog(tmp_path: Path) -> None:
    def make() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(MORE.schema, [MORE])

    with xd.serve({"flights": batches_of(BATCH), "made": make}) as server:
        with xd.serve({"one": pa.table({"n": [1]})}) as other:
            assert "one: 1 row, " in inspect(other.uri)[0]
        out, err = inspect(server.uri)
        assert err == ""
        assert out.splitlines()[0].endswith(": 2 tables")
        assert "flights: 3 rows, " in out
        assert cells(out, "s") == ["s", "utf8", "yes", "unit=none"]
        maps = "    bodies: map: the consumer maps the server's memory\n"
        assert f"made: ? rows, ? bytes, cpu\n{maps}    (the schema is known only after" in out
        assert out.count(maps) == 2
        tables = inspect_json(server.uri)["tables"]
        assert {(one["way"], one["why"]) for one in tables} == {("map", "the consumer maps the server's memory")}
        assert [(one["name"], one["rows"]) for one in tables] == [("flights", 3), ("made", None)]
        assert tables[1]["fields"] is None
        assert [field["path"] for field in tables[0]["fields"]] == ["n", "s", "u"]


@pytest.mark.long
def test_a_stream_as_it_comes() -> None:
    with xd.serve({"flights": batches_of(BATCH, MORE)}) as server:
        out, err = inspect(server.uri, "flights", "--buffers")
        assert err == ""
        assert out.splitlines()[1] == "bodies: map: the consumer maps the server's memory"
        assert out.splitlines()[3].split() == ["field", "type", "nullable", "extension", "metadata"]
        assert out.splitlines()[4].split() == ["n", "int64", "no"]
        rows = [line for line in out.splitlines() if line.startswith("batch ")]
        assert [line.split()[:4] for line in rows] == [["batch", "0", "3", "3"], ["batch", "1", "1", "1"]]
        assert re.search(r"number 1, body by address in region \d+$", rows[0]), rows[0]
        assert re.search(r"^    n +int64 +3 +0 +validity +0$\n +n +data +24 +region \d+ \+ 0x[0-9a-f]+$", out, re.M), (
            out
        )
        assert out.splitlines()[-1] == "2 batches, 4 rows"

        schema, first, second, end = lines_json(server.uri, "flights", "--buffers")
        assert [field["path"] for field in schema["fields"]] == ["n", "s", "u"]
        assert (schema["way"], schema["why"]) == ("map", "the consumer maps the server's memory")
        assert schema["schema_metadata"] == [["made by", "a test"]]
        assert (first["number"], first["body"], len(first["regions"])) == (1, "addresses", 1)
        # total, nbuf, and a pair of each buffer
        buffers = [buffer for node in first["nodes"] for buffer in node["buffers"]]
        assert first["message_bytes"] == 16 + 16 * len(buffers) == 16 + 16 * 7
        assert first["data_bytes"] == sum(buffer["size"] for buffer in buffers)
        for buffer in buffers:
            assert (buffer["address"] == 0) == (buffer["size"] == 0)
            if buffer["size"]:
                assert buffer["region"] == first["regions"][0]
                assert buffer["address"] == buffer["region"] << 48 | buffer["offset"]
        assert second["rows"] == 1
        assert end == {"batches": 2, "rows": 4, "dictionaries": 0, "hidden_dictionaries": 0, "more": False}
        assert "nodes" not in lines_json(server.uri, "flights")[1]

        out, _ = inspect(server.uri, "flights", "--limit", 1)
        assert out.splitlines()[-1] == "1 batch, 3 rows; there are more, --limit 0 shows all"
        _, err = inspect(server.uri, "flight", expect=3)
        assert err.startswith("NotFoundError: ")


WIRE = [
    r"-> tagged    want_data  ticket 'flights'",
    r"<- untagged  type 1  number 0  metadata  schema: 3 fields, V5, custom metadata 1",
    r"<- untagged  type 1  number 1  metadata  record batch: 3 rows, 3 nodes, 7 buffers, body \d+ bytes, V5",
    r"<- tagged    number 1  body  type 1 \(addresses\): total 94, nbuf 7: 0x0\+0, 0x[0-9a-f]+\+24, 0x[0-9a-f]+\+1, "
    r"0x[0-9a-f]+\+16 and 3 more",
    r"-> tagged    free_data  6 addresses: 0x[0-9a-f]+, 0x[0-9a-f]+, 0x[0-9a-f]+, 0x[0-9a-f]+ and 2 more",
    r"<- untagged  type 1  number 2  metadata  record batch: 1 row, 3 nodes, 7 buffers, body \d+ bytes, V5",
    r"<- tagged    number 2  body  type 1 \(addresses\): total 34, nbuf 7: .* and 3 more",
    r"-> tagged    free_data  5 addresses: .* and 1 more",
    r"<- untagged  type 0  number 3  End of Stream",
]


def test_the_messages_of_a_small_stream() -> None:
    with xd.serve({"flights": batches_of(BATCH, MORE)}) as server:
        out, err = inspect(server.uri, "flights", "--wire")
        assert err == ""
        lines = out.splitlines()
        assert len(lines) == len(WIRE), out
        for line, expected in zip(lines, WIRE, strict=True):
            assert re.fullmatch(expected, line), f"{line}\nisn't\n{expected}"
        # What is freed is what was lent.
        body, freed = lines[3], lines[4]
        lent = [one.split("+")[0] for one in body.split("nbuf 7: ")[1].split(" and")[0].split(", ")]
        assert freed.split("addresses: ")[1].split(", ")[:3] == [one for one in lent if one != "0x0"]

        messages = lines_json(server.uri, "flights", "--wire")
        assert [(one["direction"], one["tagged"], one["kind"]) for one in messages] == [
            ("sent", True, "want_data"),
            ("received", False, "metadata"),
            ("received", False, "metadata"),
            ("received", True, "body"),
            ("sent", True, "free_data"),
            ("received", False, "metadata"),
            ("received", True, "body"),
            ("sent", True, "free_data"),
            ("received", False, "End of Stream"),
        ]
        tags = {key: int(value) for key, value in re.findall(r"(want_data|free_data)=(\d+)", server.locations[0])}
        assert messages[0]["tag"] == tags["want_data"]
        assert messages[0]["ticket"] == "flights"
        assert messages[0]["size"] == len("flights")
        assert messages[4]["tag"] == tags["free_data"]
        assert messages[4]["size"] == 8 * messages[4]["count"] == 48
        assert messages[3]["tag"] == 1 | 1 << 56
        assert messages[3]["size"] == 16 + 16 * 7
        assert messages[8] == {
            "direction": "received",
            "tagged": False,
            "connection": "both",
            "kind": "End of Stream",
            "size": 5,
            "number": 3,
            "text": lines[8],
        }


def test_bodies_by_value() -> None:
    """Over tcp no memory is shared."""
    with xd.serve({"flights": batches_of(BATCH)}, "tcp://127.0.0.1:0") as server:
        out, _ = inspect(server.uri, "flights", "--wire")
        lines = out.splitlines()
        metadata = re.fullmatch(
            r"<- untagged  type 1  number 1  metadata  record batch: .*, body (\d+) bytes, V5", lines[2]
        )
        assert metadata is not None, out
        assert lines[3] == f"<- tagged    number 1  body  type 0 (bytes): {metadata[1]} bytes"
        # Nothing was lent, so nothing is freed.
        assert lines[4:] == ["<- untagged  type 0  number 2  End of Stream"]
        out, _ = inspect(server.uri, "flights", "--buffers")
        assert "\nbodies: message: tcp has messages alone" in out
        assert re.search(r"^batch 0 .* number 1, body by value$", out, re.MULTILINE), out
        _, batch, end = lines_json(server.uri, "flights", "--buffers")
        assert (batch["body"], batch["regions"]) == ("bytes", [])
        assert batch["message_bytes"] == batch["body_bytes"] == int(metadata[1])
        assert batch["nodes"][0]["buffers"][1] == {
            "kind": "data",
            "variadic": None,
            "size": 24,
            "decompressed": None,
            "offset": 0,
        }
        assert end["batches"] == 1


def test_the_messages_of_dictionaries_and_of_a_cancelled_stream() -> None:
    table = batches_of(*[pa.record_batch([pa.array(["a", "b"]).dictionary_encode()], ["d"])] * 3)
    with xd.serve({"d": table}) as server:
        out, _ = inspect(server.uri, "d", "--wire", "--limit", 1)
    lines = out.splitlines()
    assert re.fullmatch(
        r"<- untagged  type 1  number 1  metadata  dictionary 0: 2 rows, 1 node, 3 buffers, body \d+ bytes, V5",
        lines[2],
    ), out
    assert lines[3].startswith("<- tagged    number 1  body  type 1 (addresses): total ")
    assert lines[4].startswith("<- untagged  type 1  number 2  metadata  record batch: 2 rows, 1 node, 2 buffers")
    assert "-> untagged  type 0  cancel" in lines
    # The batch's indices, and at the end the dictionary.
    assert sum(line.startswith("-> tagged    free_data") for line in lines) == 2


@pytest.mark.long
def test_the_messages_of_a_stream_that_stalls() -> None:
    """They are there while it does, and the wait ends."""
    go_on = threading.Event()

    def stalling() -> pa.RecordBatchReader:
        def batches():
            yield MORE
            go_on.wait(60)

        return pa.RecordBatchReader.from_batches(MORE.schema, batches())

    with xd.serve({"f": stalling}) as server:
        command = [*COMMAND, server.uri, "f", "--wire", "--timeout"]
        with Child([*command, "60"], stdout=subprocess.PIPE, text=True) as watching:
            assert watching.stdout is not None
            lines = [watching.stdout.readline() for _ in range(5)]
            assert lines[3].startswith("<- tagged    number 1  body  ")
            assert lines[4].startswith("-> tagged    free_data  ")
            watching.send_signal(signal.SIGINT)
            assert watching.stdout.read() == "-> untagged  type 0  cancel\n"
        assert watching.returncode == 130

        out, err = inspect(server.uri, "f", "--wire", "--timeout", "1", expect=4)
        assert err.startswith("TimeoutError: timed out waiting for shm:")
        assert len(out.splitlines()) == 6, out
        go_on.set()


def test_the_messages_of_a_stream_that_fails() -> None:
    def failing() -> pa.RecordBatchReader:
        def batches():
            yield MORE
            raise OSError("the disk \x1b is gone")

        return pa.RecordBatchReader.from_batches(MORE.schema, batches())

    with xd.serve({"f": failing}) as server:
        out, err = inspect(server.uri, "f", "--wire", expect=1)
        assert err.startswith("RemoteError: ")
        last = out.splitlines()[-1]
        assert last.startswith("<- untagged  type 255  number 2  error  RemoteError: "), out
        assert "\x1b" not in out
        out, err = inspect(server.uri, "g", "--wire", expect=3)
        lines = out.splitlines()
        assert lines[0] == "-> tagged    want_data  ticket 'g'"
        assert lines[1].startswith("<- untagged  type 255  number 0  error  NotFoundError: ")
        assert len(lines) == 2
