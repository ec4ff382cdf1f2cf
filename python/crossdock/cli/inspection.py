"""The output of `crossdock inspect`. No text is cut: long lines are wrapped on a terminal, and left whole in a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from crossdock import _native
from crossdock._files import encoded_path
from crossdock._names import shown_name
from crossdock._text import counted, shown
from crossdock.cli import tensor_output
from crossdock.cli.layout import terminal_width, wrapped
from crossdock.cli.output import number, print_json
from crossdock.client import Client
from crossdock.errors import Error

if TYPE_CHECKING:
    from crossdock._typing import BatchAbout, BufferAbout, FieldAbout, FileAbout, SchemaAbout

# Limits of the text output, for one batch; --json writes everything.
_MOST_BUFFERS = 1000
_MOST_OF_A_VALUE = 80


def _pairs(pairs: Sequence[Sequence[str]]) -> str:
    return ", ".join(f"{shown(key)}={shown(value, _MOST_OF_A_VALUE)}" for key, value in pairs)


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[str], indent: str) -> None:
    """Prints a table. Columns are as wide as their content; empty columns are left out."""
    kept = [i for i in range(len(header)) if any(row[i] for row in rows)]
    widths = [max(len(header[i]), *(len(row[i]) for row in rows)) for i in kept]
    for row in (header, *rows):
        cells = (
            row[i].rjust(width) if header[i] in right else row[i].ljust(width)
            for i, width in zip(kept, widths, strict=True)
        )
        print(indent + "  ".join(cells).rstrip())


def _type(field: FieldAbout) -> str:
    if field["index_type"] is None:
        return field["type"]
    return f"dictionary[{field['index_type']} -> {field['type']}]"


def _dictionary(field: FieldAbout) -> str:
    if field["dictionary"] is None:
        return ""
    return f"{field['dictionary']}{' (ordered)' if field['ordered'] else ''}"


def print_schema(schema: SchemaAbout, indent: str = "") -> None:
    header = ("field", "type", "nullable", "dictionary", "extension", "metadata")
    rows = [
        (
            shown(field["path"]),
            shown(_type(field)),
            "yes" if field["nullable"] else "no",
            _dictionary(field),
            shown(field["extension"] or ""),
            _pairs([pair for pair in field["metadata"] if pair[0] != "ARROW:extension:name"]),
        )
        for field in schema["fields"]
    ]
    if rows:
        _print_table(header, rows, frozenset(), indent)
    else:
        print(f"{indent}(no fields)")
    if schema["schema_metadata"]:
        print(f"{indent}schema metadata: {_pairs(schema['schema_metadata'])}")


class _Messages:
    """Prints record batches and dictionaries as they arrive, up to a limit."""

    _ROW = "{:<14} {:>12} {:>12} {:>14} {:>14}  {}"

    def __init__(self, limit: int, buffers: bool, as_json: bool) -> None:
        self.batches = self.dictionaries = self.rows = self.hidden_dictionaries = 0
        self.messages: list[BatchAbout] = []
        self._limit = limit
        self._buffers = buffers
        self._as_json = as_json
        self._has_header = False

    @property
    def full(self) -> bool:
        """True if the limit of batches is reached."""
        return 0 < self._limit <= self.batches

    def add(self, message: BatchAbout, write_json: Callable[[BatchAbout], None]) -> None:
        """Prints a message, unless the limit for its kind is reached."""
        is_batch = message["kind"] == "record batch"
        if not is_batch and 0 < self._limit <= self.dictionaries:
            self.hidden_dictionaries += 1
            return
        what = f"batch {self.batches}" if is_batch else f"dictionary {message['dictionary']}"
        if is_batch:
            self.batches += 1
            self.rows += message["rows"]
        else:
            self.dictionaries += 1
        if self._as_json:
            write_json(message)
            return
        if not self._has_header:
            print(self._ROW.format("message", "rows", "nulls", "body bytes", "data bytes", "about"))
            self._has_header = True
        counts = (message["rows"], message["nulls"], message["body_bytes"], message["data_bytes"])
        about = self._about(message)
        line = self._ROW.format(what, *map(number, counts), about).rstrip()
        width = terminal_width()
        if width is not None and len(line) > width:
            line = f"{self._ROW.format(what, *map(number, counts), '').rstrip()}\n{wrapped('  ' + about, width)}"
        print(line, flush=True)
        if self._buffers:
            self._print_buffers(message)

    @staticmethod
    def _about(message: BatchAbout) -> str:
        about = []
        if "number" in message:
            about.append(f"number {message['number']}")
        if "body_offset" in message:
            about.append(f"metadata at {message['metadata_offset']:,}, body at {message['body_offset']:,}")
        if message.get("body") == "bytes":
            about.append("body by value")
        elif message.get("body") == "addresses":
            regions = message["regions"]
            names = f" in region{'' if len(regions) == 1 else 's'} {', '.join(map(str, regions))}" if regions else ""
            about.append(f"body by address{names}")
        if message["compression"] is not None:
            about.append(message["compression"])
        if message["delta"]:
            about.append("delta")
        if message["replaces"]:
            about.append("replacement")
        if message["metadata"]:
            about.append(_pairs(message["metadata"]))
        return ", ".join(about)

    @staticmethod
    def _print_buffers(message: BatchAbout) -> None:
        header = ("field", "type", "length", "nulls", "buffer", "bytes", "decompressed", "at")
        rows = []
        left_out = 0
        for node in message["nodes"]:
            path = shown(node["path"])
            first = (path, shown(node["type"]), number(node["rows"]), number(node["nulls"]))
            if not node["buffers"]:
                rows.append((*first, "(none)", "", "", ""))
            for buffer in node["buffers"]:
                if len(rows) >= _MOST_BUFFERS:
                    left_out += 1
                    continue
                rows.append((*first, *_buffer(buffer)))
                first = (path, "", "", "")
        if rows:
            _print_table(header, rows, frozenset(("length", "nulls", "bytes", "decompressed")), "    ")
        if left_out:
            print(f"    ... and {counted(left_out, 'more buffer')}; --json has them all")


def _buffer(buffer: BufferAbout) -> tuple[str, str, str, str]:
    kind = buffer["kind"] if buffer["variadic"] is None else f"{buffer['kind']} {buffer['variadic']}"
    decompressed = "" if buffer["decompressed"] is None else number(buffer["decompressed"])
    if buffer["size"] == 0:
        at = ""
    elif "region" in buffer:
        at = f"region {buffer['region']} + {buffer['offset']:#x}"
    else:
        at = number(buffer["offset"])
    return kind, number(buffer["size"]), decompressed, at


def _file_line(path: Path, about: FileAbout) -> str:
    form = "Arrow IPC file" if about["form"] == "file" else "Arrow IPC stream file"
    said = [
        counted(about["size"], "byte"),
        f"metadata V{about['version']}",
        f"{about['endianness']}-endian",
        counted(about["rows"], "row"),
        counted(about["batches"], "batch", "batches"),
        counted(about["dictionaries"], "dictionary", "dictionaries"),
    ]
    if about["compressed"]:
        said.append("compressed")
    return f"{shown(str(path))}: {form}, {', '.join(said)}"


def show_file(path: Path, *, buffers: bool, as_json: bool, limit: int) -> None:
    """Prints an Arrow IPC file or stream file: a summary, its schema, and its messages."""
    inspector = _native.FileInspector(encoded_path(path))
    about = inspector.about()
    messages = _Messages(limit, buffers, as_json)
    listed: list[BatchAbout] = []
    if not as_json:
        print(wrapped(_file_line(path, about), terminal_width()))
        if about["metadata"]:
            print(f"{'footer' if about['form'] == 'file' else 'message'} metadata: {_pairs(about['metadata'])}")
        print()
        print_schema(about)
        print()
    while not messages.full:
        message = inspector.next(buffers)
        if message is None:
            break
        messages.add(message, listed.append)
    batches = about["batches"] - messages.batches
    dictionaries = about["dictionaries"] - messages.dictionaries
    if as_json:
        left_out = {"batches": batches, "dictionaries": dictionaries}
        print_json({"path": os.fspath(path), **about, "messages": listed, "left_out": left_out})
    elif batches or dictionaries:
        more = []
        if batches:
            more.append(counted(batches, "more batch", "more batches"))
        if dictionaries:
            more.append(counted(dictionaries, "more dictionary", "more dictionaries"))
        print(f"... and {', '.join(more)}; --limit 0 shows all")


def _way(entry: _native.CatalogEntry) -> str:
    return f"bodies: {shown(entry.way or 'by no way')}: {shown(entry.why or 'the server says no reason')}"


def show_catalog(uri: str, client: Client, *, as_json: bool) -> None:
    """Prints all tables and tensors of a server, with their schemas."""
    entries = client.list()
    if as_json:
        tables = [
            {
                "name": entry.name if isinstance(entry.name, str) else None,
                "ticket": entry.name.hex() if isinstance(entry.name, bytes) else None,
                **tensor_output.content_about(entry),
                "rows": entry.rows,
                "bytes": entry.bytes,
                "device": entry.device,
                "way": entry.way,
                "why": entry.why,
                "version": entry.version,
                **(
                    {"schema_metadata": None, "fields": None}
                    if entry.schema is None
                    else _native.describe_schema(entry.schema)
                ),
            }
            for entry in entries
        ]
        print_json({"uri": uri, "tables": tables})
        return
    others = sum(entry.kind != "table" for entry in entries)
    also = f" and {counted(others, 'name')} of tensors" if others else ""
    print(f"{shown(uri)}: {counted(len(entries) - others, 'table')}{also}")
    for entry in entries:
        rows = "? rows" if entry.rows is None else counted(entry.rows, "row")
        what = rows if entry.kind == "table" else tensor_output.content_text(entry)
        print(f"\n{shown(shown_name(entry.name))}: {shown(what)}, {number(entry.bytes)} bytes, {shown(entry.device)}")
        if entry.way or entry.why:
            print(f"    {_way(entry)}")
        if entry.schema is None:
            print("    (the schema is known only after a client requests the table)")
        elif entry.kind == "table":
            print_schema(_native.describe_schema(entry.schema), "    ")


def _entry_of(name: str | bytes, client: Client) -> _native.CatalogEntry | None:
    """Returns the catalog's entry of a name; None of a server without a catalog."""
    with suppress(Error):
        return next((one for one in client.list() if one.name == name), None)
    return None


def _show_tensors(entry: _native.CatalogEntry, client: Client, *, as_json: bool, timeout: float) -> None:
    """Prints what each tensor of a name is, and how its body is transferred."""
    tensors = tensor_output.received(client, entry, timeout)
    if as_json:
        print_json(
            {"name": shown_name(entry.name), "way": entry.way, "why": entry.why, **tensor_output.content_about(entry)}
        )
    else:
        print(f"{shown(shown_name(entry.name))}: {shown(tensor_output.content_text(entry))}")
        if entry.way or entry.why:
            print(_way(entry))
        print()
    tensor_output.show(tensors, print_json if as_json else None)


def show_stream(name: str | bytes, client: Client, *, buffers: bool, as_json: bool, limit: int, timeout: float) -> None:
    """Prints a table as it arrives: its schema, its batches and dictionaries, and how their bodies are transferred; or
    what the tensors of a name are."""
    entry = _entry_of(name, client)
    if entry is not None and entry.kind != "table":
        _show_tensors(entry, client, as_json=as_json, timeout=timeout)
        return
    log = _native.StreamLog(False, True)
    messages = _Messages(limit, buffers, as_json)

    def write(message: BatchAbout) -> None:
        if not buffers:
            message.pop("nodes")
        print_json(message)

    more = False
    with client._watch(name, log, timeout) as reader:
        schema = _native.describe_schema(reader.schema)
        if as_json:
            print_json({"name": shown_name(name), "way": entry and entry.way, "why": entry and entry.why, **schema})
        else:
            print(shown(shown_name(name)))
            if entry is not None and (entry.way or entry.why):
                print(_way(entry))
            print()
            print_schema(schema)
            print(flush=True)
        for batch in reader:
            del batch  # Released before the wait for the next one.
            if messages.full:
                more = True
                break
            for message in log.take_batches():
                messages.add(message, write)
        else:
            for message in log.take_batches():
                messages.add(message, write)
    if as_json:
        end = {"batches": messages.batches, "rows": messages.rows, "dictionaries": messages.dictionaries}
        print_json({**end, "hidden_dictionaries": messages.hidden_dictionaries, "more": more})
        return
    said = f"{counted(messages.batches, 'batch', 'batches')}, {counted(messages.rows, 'row')}"
    if messages.hidden_dictionaries:
        said += f"; {counted(messages.hidden_dictionaries, 'more dictionary', 'more dictionaries')} not shown"
    print(f"{said}; there are more, --limit 0 shows all" if more else said)
    _say_left_out(log)


def _batches(reader: _native.RecordBatchReader, before_waiting: Callable[[], None]) -> Iterator[None]:
    """Reads and drops the batches of a stream. Calls `before_waiting` before each wait, when no batch is ready."""
    while True:
        there, batch = reader._try_next()
        if not there:
            before_waiting()
            batch = next(reader, None)
        if batch is None:
            return
        del batch
        yield


def show_wire(name: str | bytes, client: Client, *, as_json: bool, limit: int, timeout: float) -> None:
    """Prints the decoded messages of a stream as they are sent and received."""
    log = _native.StreamLog(True, False)

    def drain() -> None:
        for message in log.take_messages():
            if as_json:
                print_json(message)
            else:
                print(message["text"], flush=True)

    entry = _entry_of(name, client)
    if entry is not None and entry.kind != "table":
        try:
            client._watch_tensors(entry.name, entry.kind == "tensor", log, timeout)  # dropped: that sends messages, too
        finally:
            drain()
            _say_left_out(log)
        return
    count = 0
    reader = None
    try:
        reader = client._watch(name, log, timeout)
        with reader:
            drain()
            for _ in _batches(reader, drain):
                drain()
                count += 1
                if count == limit:
                    break
    finally:
        reader = None  # The reader holds the dictionaries. Dropping it frees their memory, which may send messages.
        drain()
        _say_left_out(log)


def _say_left_out(log: _native.StreamLog) -> None:
    if log.left_out:
        print(f"... {counted(log.left_out, 'message')} dropped: too many at once")
