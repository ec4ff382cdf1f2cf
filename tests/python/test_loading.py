"""Sources that pyarrow reads: files that aren't Arrow's, folders of them, and objects of other libraries."""

from __future__ import annotations

import contextlib
import errno
import gzip
import http.server
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import fsspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.json
import pyarrow.parquet
import pytest
from tests.terminal import on_a_terminal

import crossdock as xd
from crossdock import _loading


@pytest.fixture(scope="module", autouse=True)
def _a_first_csv() -> None:
    """pyarrow keeps a pipe for Ctrl-C from its first CSV file on."""
    pa.csv.read_csv(io.BytesIO(b"a\n1\n"))


TABLE = pa.table({"n": pa.array(range(1000), pa.int64()), "s": [f"row {number}" for number in range(1000)]})


def write(folder: Path, name: str, table: pa.Table = TABLE) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = name.removesuffix(".gz")
    if name.endswith(".gz"):
        plain = write(folder, text, table)
        path.write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    elif text.endswith(".parquet"):
        pa.parquet.write_table(table, path, row_group_size=300)
    elif text.endswith(".csv"):
        pa.csv.write_csv(table, path)
    elif text.endswith((".json", ".jsonl", ".ndjson")):
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    return path


def served(source: Any, **options: Any) -> pa.Table:
    with xd.serve({}) as server, xd.connect(server.uri) as client:
        server.publish("t", source, **options)
        return pa.table(client.get("t"))


NAMES = ["t.parquet", "T.CSV", "t.csv", "t.json", "t.jsonl", "t.ndjson", "t.csv.gz", "t.jsonl.gz"]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "T.CSV"])
def test_a_file_is_a_table(tmp_path, name):
    path = write(tmp_path, name)
    assert served(path).equals(TABLE)
    assert served(str(path)).equals(TABLE)
    with open(path, "rb") as opened:
        assert served(opened).equals(TABLE)
    with fsspec.open(path, "rb") as opened:
        assert served(opened).equals(TABLE)
    assert served(fsspec.open(path)).equals(TABLE)


def test_an_end_in_capitals_is_the_same(tmp_path):
    write(tmp_path, "t.csv").rename(tmp_path / "T.CSV")
    assert served(tmp_path / "T.CSV").equals(TABLE)


def test_a_parquet_file_is_read_group_by_group(tmp_path):
    with xd.serve({"t": write(tmp_path, "t.parquet")}) as server, xd.connect(server.uri) as client:
        assert [len(batch) for batch in client.get("t")] == [300, 300, 300, 100]
        assert server.stats()["sources"][0]["kind"] == "table"
        assert pa.table(client.get("t")).equals(TABLE), "as often as one likes"


def test_live_reads_while_it_sends(tmp_path):
    path = write(tmp_path, "t.parquet")
    with xd.serve({}) as server, xd.connect(server.uri) as client:
        server.publish("t", path, mode="live")
        assert pa.table(client.get("t")).equals(TABLE)
        with pytest.raises(xd.ConsumedError):
            client.get("t")


@pytest.mark.parametrize("name", ["part.parquet", "part.csv", "part.jsonl", "part.arrow"])
def test_a_folder_is_a_table(tmp_path, name):
    for number in range(3):
        write(tmp_path, f"deep/{number}{name}", TABLE.slice(number * 300, 300))
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".hidden").write_text("")
    assert served(tmp_path).equals(TABLE.slice(0, 900))


def test_a_folder_has_the_partitions_of_hive(tmp_path):
    for year in (2025, 2026):
        write(tmp_path, f"year={year}/x.parquet")
    got = served(tmp_path)
    assert got.num_rows == 2000
    assert set(got["year"].to_pylist()) == {2025, 2026}


def test_a_folder_whose_files_have_more_columns_has_all(tmp_path):
    write(tmp_path, "0.parquet", pa.table({"a": [1]}))
    write(tmp_path, "1.parquet", pa.table({"a": [2], "b": ["x"]}))
    assert served(tmp_path).to_pydict() == {"a": [1, 2], "b": [None, "x"]}


def test_a_folder_with_a_stream_of_arrow_is_refused(tmp_path):
    xd.write(TABLE, tmp_path / "0.arrow")
    assert served(tmp_path).equals(TABLE)
    xd.write(TABLE, tmp_path / "1.arrow", form="stream")
    with pytest.raises(xd.InvalidDataError, match=r"1\.arrow.*; the Arrow files of a folder must be in file form"):
        served(tmp_path)


def test_a_folder_is_refused_by_name(tmp_path):
    with pytest.raises(xd.InvalidArgumentError, match="is a folder with nothing"):
        served(tmp_path)
    write(tmp_path, "0.parquet")
    write(tmp_path, "1.csv")
    with pytest.raises(xd.InvalidArgumentError, match=r"with 0\.parquet and 1\.csv: .* files of one format"):
        served(tmp_path)
    (tmp_path / "1.csv").unlink()
    write(tmp_path, "1.parquet", pa.table({"n": ["text"]}))
    with pytest.raises(xd.InvalidDataError, match="columns that don't fit together"):
        served(tmp_path)


def other_objects(folder: Path) -> Iterator[Any]:
    path = write(folder, "t.parquet")
    dataset = pa.dataset.dataset(path)
    yield dataset
    yield dataset.scanner(columns=["n", "s"])
    yield pa.parquet.ParquetFile(path)
    yield pl.scan_parquet(path)
    yield duckdb.sql(f"select * from '{path}'")
    yield TABLE.to_pydict()
    yield iter(TABLE.to_batches(100))


@pytest.mark.parametrize("which", range(7))
def test_objects_of_other_libraries(tmp_path, which):
    source = list(other_objects(tmp_path))[which]
    got = served(source)
    assert got.to_pydict() == TABLE.to_pydict(), type(source)


def test_pandas_has_its_index():
    frame = pd.DataFrame({"v": [1.5, 2.5]}, index=pd.Index(["a", "b"], name="key"))
    assert served(frame).to_pandas().equals(frame)
    dated = pd.DataFrame({"v": [1, 2]}, index=pd.date_range("2026-01-01", periods=2, tz="UTC"))
    assert list(served(dated).to_pandas().index) == list(dated.index)


def test_a_mapping_is_columns_where_it_has_lists_or_it_is_said():
    assert served({"a": [1, 2], "b": np.array([0.5, 1.5])}).to_pydict() == {"a": [1, 2], "b": [0.5, 1.5]}
    assert served({"a": np.array([1, 2])}, mode="table").to_pydict() == {"a": [1, 2]}
    with xd.serve({"t": {"a": np.array([1, 2])}}) as server, xd.connect(server.uri) as client:
        assert client.list()[0].kind == "tensors"
    with pytest.raises(xd.UnsupportedTypeError, match=r"pyarrow makes none of it: .*length"):
        served({"a": [1, 2], "b": [1]})


URLS = ["s3://bucket/x.parquet", "https://example.org/x.csv", "gs://b/c", "memory://x.arrow", "S3://b"]
REFUSALS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "serve": (lambda url: xd.serve({"x": url}), r"the object that fsspec\.open\(url\) returns, .* pyarrow\.fs"),
    "publish": (served, r"the object that fsspec\.open\(url\) returns, .* pyarrow\.fs"),
    "live": (lambda url: served(url, mode="live"), r"the object that fsspec\.open\(url\) returns"),
    "open": (xd.open, r"pyarrow\.ipc\.open_file\(fsspec\.open\(url\)\.open\(\)\) reads it"),
    "write": (lambda url: xd.write(TABLE, url), r"pyarrow\.ipc\.new_file.*fsspec\.open\(url, 'wb'\)\.open\(\)"),
    "write from": (lambda url: xd.write(url, "/nowhere/x.arrow"), r"fsspec\.open\(url\)"),
}


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("call", REFUSALS)
def test_urls_are_refused_with_what_helps(url, call):
    refused, help_ = REFUSALS[call]
    with pytest.raises(xd.InvalidArgumentError, match=rf"^'{url}' is a URL, and only files of this machine.*{help_}"):
        refused(url)


def test_a_url_that_was_a_path_has_its_slashes():
    for call in (xd.open, lambda url: xd.serve({"x": url})):
        with pytest.raises(xd.InvalidArgumentError, match=r"^'https://example\.org/x\.arrow' is a URL"):
            call(Path("https://example.org/x.arrow"))
    with pytest.raises(xd.InvalidArgumentError, match=r"^'file:///t/x\.arrow' is a URL.* path alone, '/t/x\.arrow'"):
        xd.open(Path("file:///t/x.arrow"))


class Web(http.server.BaseHTTPRequestHandler):
    """Serves `FILES`, whole or a range of one."""

    FILES: ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        content = self.FILES.get(self.path)
        if content is None:
            self.send_error(404)
            return
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        part = content if wanted is None else content[int(wanted[1]) : int(wanted[2]) + 1]
        self.send_response(200 if wanted is None else 206)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Accept-Ranges", "bytes")
        if wanted is not None:
            self.send_header("Content-Range", f"bytes {wanted[1]}-{int(wanted[1]) + len(part) - 1}/{len(content)}")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(part)

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """URLs of the same files by what has them: memory of fsspec's, and a server of HTTP."""
    pytest.importorskip("aiohttp", reason="fsspec's HTTP needs aiohttp")
    folder = tmp_path_factory.mktemp("elsewhere")
    memory = fsspec.filesystem("memory")
    for name in ELSEWHERE:
        content = write(folder, name).read_bytes()
        memory.pipe(f"/{name}", content)
        Web.FILES[f"/{name}"] = content
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        web = f"http://127.0.0.1:{server.server_port}/"
        fsspec.filesystem("http").cat(web + ELSEWHERE[0])  # starts fsspec's thread, which stays
        yield {"memory": "memory://", "http": web}
        server.shutdown()
        thread.join()
    memory.rm("/", recursive=True)


ELSEWHERE = ["t.parquet", "t.csv", "t.jsonl", "t.csv.gz", "t.arrow", "t.feather"]


@pytest.mark.parametrize("where", ["memory", "http"])
@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_fsspec_opens_is_served(elsewhere, where, name):
    url = elsewhere[where] + name
    assert served(fsspec.open(url)).equals(TABLE)
    assert served(fsspec.open(url), mode="live").equals(TABLE)
    with fsspec.open(url, "rb") as opened:
        assert served(opened).equals(TABLE)


def test_an_open_stream_file_is_served(tmp_path):
    with pa.ipc.new_stream(tmp_path / "t.arrows", TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=1)
    assert served(fsspec.open(tmp_path / "t.arrows")).equals(TABLE)


def test_a_cut_off_arrow_file_elsewhere_is_named(elsewhere):
    whole = fsspec.filesystem("memory").cat("/t.arrow")
    fsspec.filesystem("memory").pipe("/cut.arrow", whole[:-20])
    with pytest.raises(xd.InvalidDataError, match=r"the open file /cut\.arrow can't be read as arrow"):
        served(fsspec.open("memory://cut.arrow"))


@pytest.mark.parametrize("where", ["memory", "http"])
def test_a_file_that_isnt_there_is_not_found(elsewhere, where):
    with pytest.raises(xd.NotFoundError, match=r"absent\.parquet"):
        served(fsspec.open(elsewhere[where] + "absent.parquet"))


def test_a_dataset_elsewhere_is_served(elsewhere):
    dataset = pyarrow.dataset.dataset("/t.parquet", filesystem=fsspec.filesystem("memory"))
    assert served(dataset).equals(TABLE)


def test_an_open_file_is_no_path(tmp_path):
    path = write(tmp_path, "t.arrow")
    with path.open("rb") as file:
        for opened in (file, fsspec.open(path)):
            with pytest.raises(
                TypeError, match=r"open\(\) takes the path .* not .*; pyarrow\.ipc\.open_file\(file\) reads"
            ):
                xd.open(opened)  # type: ignore[arg-type]
            with pytest.raises(
                xd.UnsupportedTypeError, match=r"an open file: give what pyarrow\.ipc\.open_file\(file\)"
            ):
                xd.write(opened, tmp_path / "other.arrow")
        with pytest.raises(
            TypeError, match=r"write\(\) takes the path .* pyarrow\.ipc\.new_file\(file, schema\) writes"
        ):
            xd.write(TABLE, file)  # type: ignore[arg-type]
    for nothing in (None, 3):
        with pytest.raises(TypeError, match=r"open\(\) takes the path of a file, not builtins\.\w+$"):
            xd.open(nothing)  # type: ignore[arg-type]


def test_a_list_of_files_is_refused_with_what_helps(tmp_path):
    path = write(tmp_path, "t.parquet")
    for files in ([path], [str(path)], [fsspec.open(path)]):
        with pytest.raises(xd.UnsupportedTypeError, match=r"a list of files .* pyarrow\.dataset\.dataset\(paths\)"):
            served(files)


def test_a_file_url_is_a_path():
    with pytest.raises(xd.InvalidArgumentError, match=r"give the path alone, '/tmp/x\.arrow'"):
        served("file:///tmp/x.arrow")


def test_a_folder_may_look_like_a_url(tmp_path, monkeypatch):
    write(tmp_path, "s3:/bucket/x.parquet")
    monkeypatch.chdir(tmp_path)
    assert served("s3://bucket/x.parquet").equals(TABLE)


def test_a_folder_is_what_it_holds_itself(tmp_path):
    folder = tmp_path / "folder"
    write(folder, "a.csv")
    (folder / "itself").symlink_to(".")
    (folder / "other").symlink_to(tmp_path)
    assert served(folder).equals(TABLE)
    (folder / "gone.csv").symlink_to("absent")
    with pytest.raises(xd.NotFoundError, match=r"folder/gone\.csv"):
        served(folder)
    (folder / "gone.csv").unlink()
    os.mkfifo(folder / "fifo.csv")
    with pytest.raises(xd.InvalidArgumentError, match=r"folder/fifo\.csv isn't a regular file"):
        served(folder)


def test_the_files_of_a_folder_are_read_as_if_alone(tmp_path):
    (tmp_path / "j").mkdir()
    (tmp_path / "j" / "a.json").write_text('{"a": 1}\n' * 300_000 + '{"a": 1, "b": 2}\n')
    assert served(tmp_path / "j").column_names == ["a", "b"]
    for year, value in ((2025, "1"), (2026, "1.5")):
        (tmp_path / "c" / f"year={year}").mkdir(parents=True)
        (tmp_path / "c" / f"year={year}" / "x.csv").write_text(f"v\n{value}\n")
    assert served(tmp_path / "c").to_pydict() == {"v": [1.0, 1.5], "year": [2025, 2026]}
    (tmp_path / "c" / "v=1").mkdir()
    write(tmp_path / "c" / "v=1", "x.csv", pa.table({"v": [1]}))
    with pytest.raises(xd.InvalidDataError, match=r"c/v=1/x\.csv has a column 'v', and so has its folder"):
        served(tmp_path / "c")


class TestIsRefused:
    @pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
    def test_what_has_no_end(self, tmp_path, name):
        os.mkfifo(tmp_path / name)
        with pytest.raises(xd.InvalidArgumentError, match="isn't a regular file"):
            served(tmp_path / name)

    def test_what_may_not_be_read(self, tmp_path, monkeypatch):
        path = write(tmp_path, "t.csv")

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr("crossdock._loading.open", refuse, raising=False)  # root may read everything
        with pytest.raises(xd.PermissionError, match=r"t\.csv: Permission denied"):
            served(path)

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("t.csv.gz", gzip.compress(b"a\n1\n" * 1000, mtime=0)[:-20]),
            ("t.csv.gz", b"no gzip"),
            ("t.csv", "é\n1\n".encode("latin-1")),
            ("t.parquet", b"PAR1" + bytes(100) + b"PAR1"),
            ("t.json", b"{]"),
            ("t.csv", b""),
        ],
        ids=["cut", "false", "latin", "parquet", "json", "empty"],
    )
    def test_content_that_is_wrong(self, tmp_path, name, content):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(xd.InvalidDataError, match=re.escape(name)):
            served(tmp_path / name)

    def test_a_mode_that_there_is_not(self, tmp_path):
        with pytest.raises(xd.InvalidArgumentError, match="mode must be"):
            served(write(tmp_path, "t.csv"), mode="tabel")

    def test_what_is_not_there(self, tmp_path):
        for name in ("absent.parquet", "absent.csv", "absent.jsonl"):
            with pytest.raises(xd.NotFoundError, match=name):
                served(tmp_path / name)

    def test_another_format_than_the_name_says(self, tmp_path):
        write(tmp_path, "t.csv").rename(tmp_path / "t.parquet")
        with pytest.raises(xd.InvalidDataError, match=r"t\.parquet can't be read as parquet"):
            served(tmp_path / "t.parquet")

    def test_a_json_file_with_a_list(self, tmp_path):
        (tmp_path / "t.json").write_text(json.dumps(TABLE.to_pylist()))
        with pytest.raises(xd.InvalidDataError, match="it is one JSON array: write an object on each line"):
            served(tmp_path / "t.json")

    def test_hints_are_given_where_they_help(self, tmp_path):
        for name, content, hint in (
            ("t.csv", b"a,b\n1\n", None),
            ("t.csv", "a,b\n\u00e9,1\n".encode("utf-16"), "its text must be UTF-8"),
            ("t.json", b'{"a": 1}\n{"a": "x"}\n', None),
            ("t.json", b"1\n", "each line of a JSON file must be an object"),
        ):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(xd.InvalidDataError) as error:
                served(tmp_path / name)
            assert str(error.value).endswith(f"; {hint}") if hint else "must be" not in str(error.value)

    def test_a_file_that_was_cut(self, tmp_path):
        path = write(tmp_path, "t.parquet")
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(xd.InvalidDataError, match=r"t\.parquet"):
            served(path)

    def test_a_file_that_is_cut_while_it_is_read(self, tmp_path):
        path = tmp_path / "t.parquet"
        random = np.random.default_rng(1).integers(0, 1 << 60, 1 << 20)
        pa.parquet.write_table(pa.table({"n": random}), path, row_group_size=1 << 16)
        with xd.serve({}) as server, xd.connect(server.uri) as client:
            server.publish("t", path, mode="live")
            with open(path, "r+b") as file:
                file.truncate(path.stat().st_size // 2)
            with pytest.raises((xd.InvalidDataError, xd.RemoteError), match=r"t\.parquet, row group"):
                for _ in client.get("t"):
                    pass

    def test_a_text_that_becomes_shorter_while_it_is_read(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("n\n" + "1\n" * (4 << 20))

        def cut(part: float) -> None:
            os.truncate(path, 100)

        with pytest.raises(xd.FileChangedError, match=r"t\.csv became shorter"):
            _loading.load(path, cut)

    def test_ctrl_c_while_it_is_read(self):
        class Interrupted(io.BytesIO):
            name = "t.parquet"
            armed = False

            def read(self, size: int = -1) -> bytes:
                if self.armed:
                    raise KeyboardInterrupt
                return super().read(size)

        sink = Interrupted()
        pa.parquet.write_table(TABLE, sink)
        with xd.serve({}) as server:
            loaded = _loading.load(sink)
            sink.armed = True
            with pytest.raises(KeyboardInterrupt):
                server._prepare_loaded(b"t", loaded, False, False, 0)

    def test_a_file_without_a_name(self):
        sink = io.BytesIO()
        pa.parquet.write_table(TABLE, sink)
        sink.seek(0)
        with pytest.raises(xd.InvalidArgumentError, match="whose name is not known"):
            served(sink)

    def test_a_stable_option(self, tmp_path):
        with pytest.raises(xd.InvalidArgumentError, match="stable is for paths of Arrow files"):
            served(write(tmp_path, "t.parquet"), stable="snapshot")

    def test_a_list_of_rows(self):
        with pytest.raises(xd.UnsupportedTypeError, match=r"pa\.Table\.from_pylist"):
            served([{"a": 1}])

    def test_an_object_with_the_call_that_helps(self):
        class Query:
            def to_arrow(self) -> pa.Table:
                return TABLE

        with pytest.raises(xd.UnsupportedTypeError, match=r"Query: give what its to_arrow\(\) returns"):
            served(Query())

    def test_a_lazy_frame_that_raises(self):
        with pytest.raises(pl.exceptions.ColumnNotFoundError):
            served(pl.LazyFrame({"a": [1]}).select("absent"))


# Objects of other libraries that can't become Arrow data: the class of the error, what it says, and of what it is.
UNFIT = {
    "two types in a column": (
        lambda: pd.DataFrame({"x": [1, "a"]}),
        xd.InvalidDataError,
        "Could not convert 'a' with type str: tried to convert to int64; Conversion failed for column x with type ",
        pa.ArrowInvalid,
    ),
    "two columns of one name": (
        lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]),
        xd.InvalidDataError,
        "Duplicate column names found: ['a', 'a']",
        ValueError,
    ),
    "numbers of a type that Arrow hasn't": (
        lambda: pd.DataFrame({"x": [1j]}),
        xd.UnsupportedTypeError,
        "Unsupported numpy type 15; Conversion failed for column x with type complex128",
        pa.ArrowNotImplementedError,
    ),
    "a long integer": (
        lambda: pd.DataFrame({"x": [2**90]}),
        xd.InvalidDataError,
        "Python int too large to convert to C long",
        OverflowError,
    ),
}


class TestObjectsThatCannotBecomeArrowData:
    @pytest.mark.parametrize("name", UNFIT)
    def test_the_error_is_ours_and_has_the_name_of_the_source(self, name, tmp_path):
        make, kind, text, cause = UNFIT[name]
        with xd.serve({}) as server:
            for give, notes in (
                (lambda: xd.serve({"a": make()}), ["while publishing 'a'"]),
                (lambda: server.update({"a": make()}), ["while publishing 'a'"]),
                (lambda: server.publish("a", make()), None),
                (lambda: xd.write(make(), tmp_path / "a.arrow"), None),
                (lambda: xd.write(make, tmp_path / "a.arrow"), None),
            ):
                with pytest.raises(kind) as raised:
                    give()
                assert re.match(r"pandas\.\S*DataFrame can't be read as Arrow data: ", str(raised.value))
                assert text in str(raised.value)
                assert isinstance(raised.value.__cause__, cause)
                assert getattr(raised.value, "__notes__", None) == notes

    def test_what_the_object_reads_is_missing(self, tmp_path):
        with pytest.raises(xd.NotFoundError, match=r"^polars\.\S*LazyFrame: No such file") as raised:
            xd.serve({"a": pl.scan_csv(tmp_path / "absent.csv")})
        assert raised.value.__notes__ == ["while publishing 'a'"]

    def test_an_error_of_pyarrow_from_code_of_the_callers(self):
        class Mine:
            def __arrow_c_stream__(self, requested_schema: object = None) -> object:
                return pa.table({"x": pa.array([1, "a"])}).__arrow_c_stream__()

        with pytest.raises(xd.InvalidDataError, match=r"Mine can't be read as Arrow data: Could not convert 'a'"):
            served(Mine())

    def test_other_errors_keep_their_class_and_get_the_name(self):
        def rows() -> Iterator[pa.RecordBatch]:
            raise ZeroDivisionError("of its own")
            yield

        for source, kind in (
            (rows(), ZeroDivisionError),
            (pl.LazyFrame({"a": [1]}).select("absent"), pl.exceptions.ColumnNotFoundError),
        ):
            with pytest.raises(kind) as raised:
                xd.serve({"a": source})
            assert raised.value.__notes__ == ["while publishing 'a'"]


def test_what_is_decompressed_already(tmp_path):
    path = write(tmp_path, "t.csv.gz")
    with gzip.open(path) as plain, fsspec.open(path, "rb", compression="gzip") as plain_too:
        assert served(plain).equals(TABLE)
        assert served(plain_too).equals(TABLE)


WITHOUT = """
import sys
sys.modules["pyarrow"] = None
import crossdock as xd
with xd.serve({}) as server:
    for source in (sys.argv[1], {"a": [1]}):
        try:
            server.publish("t", source)
        except ModuleNotFoundError as error:
            print(error, flush=True)
"""


def test_without_pyarrow_it_says_so(tmp_path, script):
    program = script(WITHOUT, str(write(tmp_path, "t.parquet")))
    assert program.read_line().endswith("t.parquet needs pyarrow: pip install pyarrow")
    assert program.read_line() == "reading a dictionary of columns needs pyarrow: pip install pyarrow"
    program.finish()


@pytest.mark.long
def test_the_command_serves_files_and_folders(tmp_path, program):
    parquet, jsonl = write(tmp_path, "one.parquet"), write(tmp_path, "two.jsonl")
    write(tmp_path, "three/0.csv")
    serving = program(sys.executable, "-m", "crossdock", "serve", parquet, jsonl, tmp_path / "three", "--uri", "shm:")
    with xd.connect(serving.read_line()) as client:
        assert [entry.name for entry in client.list()] == ["one", "three", "two"]
        for name in ("one", "two", "three"):
            assert pa.table(client.get(name)).equals(TABLE)
    serving.send(signal.SIGTERM)
    serving.finish()


def test_the_command_shows_how_much_was_read(tmp_path):
    path = tmp_path / "t.csv"
    pa.csv.write_csv(pa.table({"n": np.arange(1 << 20)}), path)
    serve = [sys.executable, "-m", "crossdock", "serve", path, "--uri", "shm:"]
    program = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)"
    said = on_a_terminal([sys.executable, "-c", f"{program}; p.stdout.readline(); p.terminate(); p.wait()", *serve])
    assert b"reading " in said
    assert b"t.csv" in said
    assert b"%" in said


def open_files(pid: int) -> set[str]:
    found = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            found.add(os.readlink(fd))
    return found


@pytest.mark.long
def test_the_command_ends_while_it_reads(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("n\n" + "123456789\n" * (12 << 20))
    serve = [sys.executable, "-m", "crossdock", "serve", path, "--uri", "shm:"]
    for number in (signal.SIGINT, signal.SIGTERM):
        for _ in range(10):
            process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while str(path) not in open_files(process.pid):
                assert process.poll() is None
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            assert (process.returncode, err) == (0, "")
            if not out:
                break  # else the whole file was read before the signal came
        assert out == ""
