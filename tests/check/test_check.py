"""`crossdock.check()`: right exporters pass, each wrong one is found out for what it is, hostile ones do no harm."""

from __future__ import annotations

import ctypes
import itertools
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.exporter_samples import arrow, both, buffers, tensors, usm, usm_run_time
from tests.exporter_samples.capsules import ALIVE, RIGHT, WRONG, Wrong, capsule
from tests.pages import ROOT, blocks, runs

import crossdock as xd
from crossdock import _check, checking

FILLING_THE_LISTS = (arrow, tensors, both, buffers, usm)
PAGE = "docs/how-to/check.md"


@pytest.fixture(autouse=True)
def no_run_time(monkeypatch):
    """Pointers here are made up, and nobody is to ask a SYCL run time that another test loaded."""
    monkeypatch.setattr(_check.sycl, "run_time", lambda: None)


@pytest.fixture(autouse=True)
def no_mistake_of_the_checker(monkeypatch):
    """Fails the test for an exception that no exporter raised: it is a defect of the checker, not a finding."""
    stopped = _check.checker.Checker.stopped

    def or_raised(self, error):
        if Path(traceback.extract_tb(error.__traceback__)[-1].filename).parent.name == "_check":
            raise error
        stopped(self, error)

    monkeypatch.setattr(_check.checker.Checker, "stopped", or_raised)


def errors(report: checking.Report) -> list[str]:
    return sorted({one.rule for one in report.errors})


def name_of(make: Any) -> str:
    return f"{make.__module__.rpartition('.')[2]}-{make.__name__}"


@pytest.mark.parametrize("make", RIGHT, ids=name_of)
def test_right_exporters_have_no_finding(make):
    for report in (xd.check(make), xd.check(make())):
        # Nobody is asked whether a pointer is SYCL's, and the report says that.
        assert {one.rule for one in report} <= {"usm-pointer-unchecked"}, str(report)
        assert report.ok


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.rule}-{wrong.make.__name__}")
def test_each_wrong_exporter_breaks_its_rule_and_no_other(wrong: Wrong):
    severity = _check.RULES[wrong.rule].severity
    for report in [xd.check(wrong.make), *([xd.check(wrong.make())] if wrong.once else [])]:
        assert errors(report) == ([wrong.rule] if severity == "error" else []), str(report)
        found = [one for one in report if one.rule == wrong.rule]
        assert found, str(report)
        assert {one.severity for one in found} == {severity}
        assert report.ok == (severity != "error")


def test_every_rule_is_broken_by_somebody():
    broken = {wrong.rule for wrong in WRONG}
    assert broken <= set(_check.RULES)
    # What shows with one object alone has a test of its own below; what a SYCL run time knows, in test_check_usm.py.
    of_run_times = {wrong.rule for wrong in usm_run_time.WRONG}
    assert set(_check.RULES) - broken == {"arrow-stream-consumed"} | (of_run_times - broken)
    assert of_run_times - broken == {"usm-pointer", "usm-bounds", "usm-device-buffer"}
    assert len(WRONG) > 150
    assert all(wrong.says for wrong in WRONG)


def test_the_page_has_every_rule_and_no_other():
    page = (ROOT / "docs" / "how-to" / "check.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| (\w+) \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
    assert rows == [(name, rule.severity, rule.section, rule.asks) for name, rule in _check.RULES.items()]


@runs("python", "docs/how-to/check.md", 0)
@runs("text", "docs/how-to/check.md")
def test_the_pages_example_runs(capsys):
    example = blocks("python", PAGE)[0]
    (told,) = blocks("text", PAGE)
    names: dict[str, Any] = {"__name__": "halves"}
    exec(example, names)
    assert capsys.readouterr().out == told
    with pytest.raises(xd.CheckFailedError, match="array-shape"):
        names["report"].raise_if_failed()


@runs("python", "docs/how-to/check.md", 1)
def test_the_pages_test_passes(tmp_path):
    """With the plug-in, as pytest finds it."""
    (tmp_path / "test_page.py").write_text(blocks("python", PAGE)[1])
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-W", "error", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path)
    assert "1 passed" in done.stdout, done.stdout


@runs("python", "docs/how-to/check.md", 2)
def test_the_pages_class_with_a_table():
    names: dict[str, Any] = {"xd": xd}
    exec(blocks("python", PAGE)[2], names)
    assert names["Flights"]().table.num_rows == 2


def test_the_page_has_every_protocol():
    page = (ROOT / "docs" / "how-to" / "check.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| ([^|]+) \|$", page, re.MULTILINE)
    assert [name for name, _ in rows] == list(_check.PROTOCOLS)
    for name, attributes in rows:
        assert set(re.findall(r"__\w+__", attributes)) == set(_check._ATTRIBUTES[name])


def test_the_checker_shares_nothing_with_what_it_checks():
    for path in (ROOT / "python" / "crossdock" / "_check").glob("*.py"):
        imported = set(re.findall(r"^(?:from|import) (crossdock[\w.]*)", path.read_text(), re.MULTILINE))
        ours = {name for name in imported if name.split(".")[:2] != ["crossdock", "_check"]}
        assert ours <= {"crossdock._text", "crossdock.errors"}, path
    exporters = (ROOT / "tests" / "exporter_samples").glob("*.py")
    assert [
        path for path in exporters if re.search(r"^\s*(from|import) crossdock", path.read_text(), re.MULTILINE)
    ] == []


def test_what_is_right_is_right_for_others_too():
    assert pa.record_batch(arrow.Batch()).to_pydict() == {
        "x": [1, None, 3],
        "s": ["a", "bb", "ccc"],
        "l": [[7, 8], [], [9]],
        "d": ["p", "q", "p"],
    }
    of_arrays = [make for make in RIGHT if make.__module__ == arrow.__name__ and make.__base__ is arrow.Data]
    assert len(of_arrays) > 10
    for make in of_arrays:
        pa.array(make()).validate(full=True)
    assert pa.RecordBatchReader.from_stream(arrow.BatchStream()).read_all().num_rows == 6
    for make in (tensors.Floats, tensors.ReadOnlyFloats, tensors.ArrayInterface, tensors.BothWays):
        given = make()
        values = np.from_dlpack(given) if hasattr(given, "__dlpack__") else np.asarray(given)
        assert values.tolist() == [[0, 1, 2], [3, 4, 5]]
        assert values.flags.writeable == (make is not tensors.ReadOnlyFloats)
    assert memoryview(buffers.buffer_type()()).tolist() == [1, 2, 3]


def test_nothing_is_left_of_what_was_checked():
    for make in (arrow.Batch, arrow.DeviceBatch, arrow.BatchStream, arrow.DeviceBatchStream, tensors.Floats):
        before = len(ALIVE)
        xd.check(make)
        xd.check(make())
        assert len(ALIVE) == before, make


class OnceOnly(arrow.Batches):
    """Streams that take from one another."""

    used = False

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        if self.used:
            raise RuntimeError("read before")
        self.used = True
        return super().__arrow_c_stream__(requested_schema)

    def __arrow_c_device_stream__(self, requested_schema: object = None, **unknown: Any) -> object:
        if any(value is not None for value in unknown.values()):
            raise NotImplementedError
        self.used = True
        return arrow.DeviceBatchStream().__arrow_c_device_stream__()

    __arrow_c_schema__ = None  # type: ignore[assignment]


def test_a_stream_that_can_be_read_once_is_read_once():
    report = xd.check(OnceOnly())
    assert [one.rule for one in report] == ["arrow-stream-consumed"]
    assert report.ok


# ---- what could crash the checker


class Gives:
    def __init__(self, **attributes: Any) -> None:
        for name, result in attributes.items():
            setattr(self, name, result if name.endswith("interface__") else lambda *_, result=result, **__: result)


JUNK = ctypes.create_string_buffer(b"\xa5" * 512)
NAMES = (b"arrow_schema", b"arrow_array", b"arrow_device_array", b"arrow_array_stream", b"arrow_device_array_stream")


def of(address: int, name: bytes) -> object:
    return capsule(address, name, None)


@pytest.mark.parametrize(
    "address", [8, ctypes.addressof(JUNK), (1 << 64) - 8, 0x7FFF_FFFF_F000], ids=["8", "junk", "the end", "no page"]
)
def test_pointers_that_lead_nowhere_or_to_nonsense_are_findings(address):
    schema, array, device, stream, device_stream = (of(address, name) for name in NAMES)
    good = arrow.Batch().__arrow_c_schema__()
    for given in (
        Gives(__arrow_c_schema__=schema),
        Gives(__arrow_c_array__=(good, array)),
        Gives(__arrow_c_array__=(schema, array)),
        Gives(__arrow_c_device_array__=(good, device)),
        Gives(__arrow_c_stream__=stream),
        Gives(__arrow_c_device_stream__=device_stream),
        Gives(__dlpack__=of(address, b"dltensor"), __dlpack_device__=(1, 0)),
        Gives(__dlpack__=of(address, b"dltensor_versioned"), __dlpack_device__=(2, 0)),
        type("Exchange", (), {"__dlpack_c_exchange_api__": of(address, b"dlpack_exchange_api")})(),
    ):
        assert not xd.check(given).ok


@pytest.mark.parametrize("what", [None, 3, "text", b"", (), (1, 2), [], {}, object(), float("nan"), {"shape": ()}])
def test_what_is_no_export_at_all_is_a_finding(what):
    for name in (
        "__arrow_c_schema__",
        "__arrow_c_array__",
        "__arrow_c_stream__",
        "__arrow_c_device_array__",
        "__dlpack__",
    ):
        assert not xd.check(Gives(**{name: what})).ok
    if what is not None:
        for name in ("__cuda_array_interface__", "__array_interface__", "__sycl_usm_array_interface__"):
            assert not xd.check(Gives(**{name: what})).ok


ATTRIBUTES = (
    "__dlpack__", "__dlpack_device__", "__cuda_array_interface__", "__array_interface__", "__arrow_c_schema__",
    "__arrow_c_array__", "__arrow_c_stream__", "__arrow_c_device_array__", "__arrow_c_device_stream__",
    "__sycl_usm_array_interface__",
)  # fmt: skip


def test_attributes_that_raise_are_findings():
    def fails(self: object) -> object:
        raise OSError("not today")

    for name in ATTRIBUTES:
        report = xd.check(type("Raises", (), {name: property(fails)})())
        assert not report.ok
        assert "not today" in str(report)


FIELDS = (
    "shape", "typestr", "data", "version", "strides", "descr", "mask", "stream", "typedescr", "offset", "syclobj",
)  # fmt: skip
ENDLESS = 10**5000  # More digits than Python writes.
VALUES = (
    -1, 1 << 70, "x", b"x", (), (-1,), (1 << 70, 2), ("a", "b"), [1], {}, 1.5, True, ((),), ENDLESS, (-ENDLESS,),
    (ENDLESS, 0), (ENDLESS, False), "|V" + "9" * 5000, tensors.NoNumber(3), (tensors.NoNumber(3),),
    tensors.NoTuple((1, 2)),
)  # fmt: skip


@pytest.mark.parametrize("make", [tensors.cai, tensors.npy, usm.usm, usm.over])
def test_no_field_of_a_dictionary_does_harm(make):
    for field in FIELDS:
        for value in VALUES:
            assert xd.check(make(**{field: value})).protocols
            assert xd.check(make(**{"shape": (1 << 62,), field: value})).protocols


def test_a_buffer_with_gaps_is_not_in_the_place_of_data():
    class Gaps(np.ndarray):
        @property
        def __sycl_usm_array_interface__(self) -> Any:
            return {"shape": (6,), "typestr": "<f4", "version": 1, "syclobj": "cpu"}

    values = np.zeros(12, "f4").view(Gaps)
    assert xd.check(values, protocols=["sycl-usm-array-interface"]).ok
    report = xd.check(values[::2], protocols=["sycl-usm-array-interface"])
    assert errors(report) == ["usm-buffer"], str(report)


def test_every_byte_of_a_structure_may_be_anything():
    """Each member of each structure in turn, turned into each of some values."""
    others = ctypes.create_string_buffer(b"\xa5" * 512)
    values = (0, 1, 8, (1 << 63) - 1, (1 << 64) - 1, ctypes.addressof(others))
    for kind, hook, base in (
        (arrow.Schema, "schema", arrow.Data),
        (arrow.Array, "array", arrow.Data),
        (arrow.DeviceArray, "device", arrow.Device),
        (tensors.Versioned, "managed", tensors.Tensor),
    ):
        # private_data and manager_ctx are the exporter's own: what is done to them is done to it.
        private = {arrow.Schema: 64, arrow.Array: 72, arrow.DeviceArray: 72, tensors.Versioned: 8}[kind]
        # It releases nothing, because it would go by what was changed.
        of_arrow = {arrow.Schema: arrow.Schema, arrow.Array: arrow.Array, arrow.DeviceArray: arrow.Array}.get(kind)
        for offset in range(0, ctypes.sizeof(kind), 8):
            for value in values if offset != private else ():

                def change(self: Any, raw: Any, at: int = offset, value: int = value) -> None:
                    if ctypes.sizeof(raw) != ctypes.sizeof(kind):  # noqa: B023
                        return
                    if of_arrow is not None:  # noqa: B023
                        release = arrow.address_of(arrow.release_nothing[of_arrow])  # noqa: B023
                        of_arrow.from_address(ctypes.addressof(raw)).release = release  # noqa: B023
                    ctypes.c_uint64.from_address(ctypes.addressof(raw) + at).value = value

                report = xd.check(type("Changed", (base,), {hook: change})())
                assert report.protocols
                assert others.raw[:-1] == b"\xa5" * 512, "the checker wrote to what is no structure of the exporter's"


def shares_children(levels: int) -> Any:
    """Both children of each struct are one and the same; with no levels, it is its own."""
    text = ctypes.create_string_buffer(b"+s")
    release = arrow.address_of(arrow.release_nothing[arrow.Schema])
    kept = [arrow.Schema(format=ctypes.addressof(text), release=release) for _ in range(levels + 1)]
    for number, raw in enumerate(kept):
        of = kept[number - 1] if number else raw
        table = (ctypes.c_void_p * 2)(*[ctypes.addressof(of)] * 2)
        if number or not levels:
            raw.n_children, raw.children = 2, ctypes.addressof(table)
        of.private = text, table  # type: ignore[attr-defined]
    return Gives(__arrow_c_schema__=arrow.owned(kept[-1], NAMES[0])), kept


@pytest.mark.long
@pytest.mark.parametrize("levels", [25, 0])
def test_a_schema_without_end_is_not_gone_through(levels, monkeypatch):
    load, loads = _check.memory.load, []

    def counted(kind, address):
        loads.append(address)
        if len(loads) > (1 << 16) + 2:
            pytest.fail("more structures are read than a schema may have")
        return load(kind, address)

    monkeypatch.setattr(_check.memory, "load", counted)
    exporter, _kept = shares_children(levels)
    report = xd.check(exporter)
    assert errors(report) == ["arrow-schema-children"]
    assert levels == 0 or "more than 65536 fields" in str(report)


def test_fields_of_all_levels_count_and_buffers_too(monkeypatch):
    """The batch has four columns, an item and a dictionary, in fifteen buffers."""
    monkeypatch.setattr(_check.schema, "FIELDS", 6)
    monkeypatch.setattr(_check.array, "BUFFERS", 15)
    assert not list(xd.check(arrow.Batch))
    monkeypatch.setattr(_check.array, "BUFFERS", 14)
    assert errors(xd.check(arrow.Batch)) == ["arrow-array-n-buffers"]
    for fields in (5, 3):
        monkeypatch.setattr(_check.schema, "FIELDS", fields)
        assert errors(xd.check(arrow.Batch)) == ["arrow-schema-children"]


@pytest.mark.parametrize("text", [b"w:%d", b"+w:%d", b"d:%d,1", b"d:9,1,%d", b"+us:%d", b"+ud:%d"])
def test_a_format_of_endless_numbers_is_none(text):
    digits = b"9" * 5000
    make = arrow.one(lambda: arrow.Node(text.replace(b"%d", digits), 0, [None]))
    assert "arrow-schema-format" in errors(xd.check(make))


class SilentError(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError("said")

    __repr__ = __str__


def test_errors_that_cannot_be_said_are_findings():
    def fails(*_: object, **__: object) -> None:
        raise SilentError

    for name in ATTRIBUTES:
        for wrong in (property(fails), fails):
            made = {"__dlpack_device__": lambda self: (1, 0), name: wrong}
            report = xd.check(type("Raises", (), made)())
            assert report.protocols
            assert name.endswith("interface__") or "SilentError: its str() raised ZeroDivisionError" in str(report)


def test_what_a_value_raises_ends_its_protocol_and_nothing_else():
    class Two(tensors.ShapeOfNoNumbers):
        __arrow_c_array__ = arrow.NegativeLength.__arrow_c_array__
        make_schema, make_array = arrow.NegativeLength.make_schema, arrow.NegativeLength.make_array
        node, schema, array = arrow.Data.node, arrow.Data.schema, arrow.NegativeLength.array
        names, destructor = arrow.Data.names, arrow.Data.destructor

    report = xd.check(Two)
    assert [(one.protocol, one.rule) for one in report] == [
        ("array-interface", "values-raise"),
        ("arrow-array", "arrow-array-length"),
    ]
    assert "ZeroDivisionError: looked at, in NoNumber.__repr__ of tensors.py" in str(report)
    (finding,) = xd.check(tensors.npy(shape=[tensors.NoNumber(2)])())
    assert finding.rule == "array-shape"
    assert finding.message == "shape is a list, whose repr() raised ZeroDivisionError"
    for wrong in (tensors.NoTuple((1, 0)), (tensors.NoNumber(1), object()), object(), (ENDLESS, 0)):
        report = xd.check(Gives(__dlpack_device__=wrong, __dlpack__=None))
        assert {"dlpack-device-result", "dlpack-device-number"} & set(errors(report))


def test_values_that_fail_side_by_side_are_a_finding():
    class Late(int):
        def __eq__(self, other: object) -> bool:
            raise ZeroDivisionError("compared")

        __hash__ = int.__hash__

    class Floats(tensors.Floats):
        @property
        def __array_interface__(self) -> Any:
            shape = (Late(2), 3)
            return {"shape": shape, "typestr": "<f4", "data": (ctypes.addressof(self.memory), False), "version": 3}

        memory = (ctypes.c_float * 6)()

    report = xd.check(Floats())
    assert ("across", "values-raise") in [(one.protocol, one.rule) for one in report]


def test_what_is_no_exception_of_the_exporter_is_raised(monkeypatch):
    class Interrupted(int):
        def __lt__(self, other: object) -> bool:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        xd.check(tensors.npy(shape=(Interrupted(2), 3)))

    made: list[object] = []

    def make() -> arrow.Batch:
        made.append(None)
        if len(made) > 2:
            raise LookupError("no more")
        return arrow.Batch()

    with pytest.raises(LookupError, match="no more"):
        xd.check(make)
    monkeypatch.setattr(_check.dictionary, "prod", None)
    with pytest.raises(TypeError, match="not callable"):  # As the fixture above has it.
        xd.check(tensors.ArrayInterface)
    monkeypatch.undo()
    monkeypatch.setattr(_check.dictionary, "prod", None)
    assert errors(xd.check(tensors.ArrayInterface)) == ["values-raise"]


# ---- all in one go


@pytest.mark.parametrize(
    ("make", "prefix", "rules"),
    [
        (
            tensors.cai(
                shape=[2, 3], typestr="f4", version=9, strides=(1.5,), data=(None, False), stream=-1, descr="x", mask=3
            ),
            "cai",
            {"shape", "typestr", "version", "strides", "data", "stream", "descr", "mask"},
        ),
        (
            tensors.npy(shape=[2, 3], typestr="f4", version=9, strides="no", data=(-1, False), descr="x", mask=3),
            "array",
            {"shape", "typestr", "version", "strides", "data", "descr", "mask"},
        ),
        (tensors.npy(version=2, data=(0, False), descr=[("", "<i4")]), "array", {"version", "null-pointer", "descr"}),
        (
            usm.usm(
                shape=[2], typestr="f4", version=2, strides=(1.5,), offset="1", data=3, syclobj=3, typedescr=[("a", 3)]
            ),
            "usm",
            {"shape", "typestr", "version", "strides", "offset", "data", "syclobj", "typedescr"},
        ),
        (tensors.cai(shape=(tensors.NoNumber(2), 3), version=9, stream=-1), "", {"values-raise"}),
    ],
    ids=["cuda", "numpy", "numpy, of what fits together", "sycl", "one entry that raises"],
)
def test_all_that_is_wrong_with_a_dictionary_is_said_at_once(make, prefix, rules):
    wanted = {f"{prefix}-{rule}" for rule in rules} if prefix else {*rules, "cai-version", "cai-stream"}
    assert set(errors(xd.check(make()))) == wanted


def test_what_is_missing_hides_nothing():
    class Without(tensors.Dictionary):
        without = ("version", "shape")
        more = {"typestr": "f4", "stream": "no"}  # noqa: RUF012

    report = xd.check(Without())
    assert errors(report) == ["cai-missing", "cai-stream", "cai-typestr"]
    assert "not there: shape, version" in str(report)


def test_all_that_is_wrong_with_a_tensor_is_said_at_once():
    class Several(tensors.Tensor):
        def managed(self, raw: Any) -> None:
            tensor = raw.dl_tensor
            tensor.device_id, tensor.bits = 3, 7
            tensor.ndim, tensor.shape, tensor.strides = 2, None, 8
            if ctypes.sizeof(raw) == ctypes.sizeof(tensors.Versioned):
                raw.flags |= 4 | 64

    assert {
        "dlpack-device-id",
        "dlpack-dtype",
        "dlpack-shape",
        "dlpack-struct-memory",
        "dlpack-flags",
    } <= set(errors(xd.check(Several())))


def test_all_that_is_wrong_with_a_schema_is_said_at_once():
    make = arrow.one(
        lambda: arrow.Node(
            b"+s",
            1,
            [None],
            children=[
                arrow.Node(b"bad", 1, [None], name=b"\xff", flags=64),
                arrow.Node(b"i", 1, [None, arrow.int32(1)], name=b"\xfe"),
                arrow.Node(b"+l", 1, [None, arrow.int32(0, 1)], name=b"l"),
            ],
        )
    )
    report = xd.check(make())
    assert set(errors(report)) == {"arrow-schema-format", "arrow-schema-name", "arrow-schema-children"}
    text = str(report)
    for place in ("child 0: the format", "child 0: the name", "child 1: the name", "child 2: format", "child 0: flags"):
        assert place in text
    assert "arrow-schema-flags" in {one.rule for one in report}


def test_all_that_is_wrong_with_an_array_is_said_at_once():
    def node() -> arrow.Node:
        return arrow.Node(
            b"+s",
            3,
            [None],
            children=[
                arrow.Node(b"i", -3, [None, arrow.int32(1, 2, 3)], name=b"a"),
                arrow.Node(b"i", 3, [None, None], name=b"b"),
                arrow.Node(b"u", 3, [None, arrow.int32(0, 2, 1, 3), b"abc"], name=b"c"),
                arrow.Node(b"i", 3, [None], name=b"d"),
            ],
        )

    report = xd.check(arrow.one(node)())
    assert set(errors(report)) == {
        "arrow-array-length", "arrow-buffer-null", "arrow-offsets", "arrow-array-n-buffers",
    }  # fmt: skip


def test_findings_of_one_rule_are_listed_to_a_limit_and_counted():
    def node() -> arrow.Node:
        children = [arrow.Node(b"bad", 1, [None], name=b"%d" % number) for number in range(100)]
        return arrow.Node(b"+s", 1, [None], children=children)

    report = xd.check(arrow.one(node)(), protocols=["arrow-schema"])
    found = [one.message for one in report if one.rule == "arrow-schema-format"]
    assert len(found) == 21
    assert found[-1].startswith("the same ")
    assert len(str(report)) < 3000
    assert str(report).endswith("21 errors, of 1 rule")


# ---- what has no end


def nested(levels: int) -> list[Any]:
    descr: list[Any] = [("a", "<i4")]
    for _ in range(levels):
        descr = [("a", descr), ("b", descr)]
    return descr


@pytest.mark.parametrize("make", [tensors.cai, tensors.npy, usm.usm])
def test_a_descr_of_a_thousand_million_fields_is_not_gone_through(make):
    itself: list[Any] = []
    itself.append(("a", itself))
    for key in ("descr", "typedescr", "mask", "shape", "data", "strides", "stream", "syclobj"):
        for value in (nested(30), tuple(nested(30)), {"a": nested(30)}, itself, [("", "<i4", (1 << 62,) * 10**6)]):
            report = xd.check(make(typestr="|V8", **{key: value})())
            assert all(len(one.message) < 1000 for one in report)
    entry = "typedescr" if make is usm.usm else "descr"
    report = xd.check(make(**{entry: nested(13)})())
    assert "more than 4096 fields" in str(report)
    assert "more than 16 levels" in str(xd.check(make(**{entry: itself})()))


def test_a_shape_of_a_million_numbers_is_not_multiplied():
    for make in (tensors.cai, tensors.npy, usm.usm):
        report = xd.check(make(shape=((1 << 62),) * 10**6)())
        assert "shape has 1000000 dimensions" in str(report)


def test_asarray_bounds_a_descr_too():
    long = "x" * (1 << 19)
    for descr, says in (
        (nested(30), "nested too deeply|more than 4,096 fields"),
        ([("a", "<i4", (1,) * 10**6)] * 3, "1000000 dimensions"),
        ([(long, "<i4")] * 3, "1,048,576 bytes"),
        ([("a", "<i4")] * 10**6, "more than 4,096 fields"),
    ):
        with pytest.raises(xd.InvalidArgumentError, match=says):
            xd.asarray(tensors.npy(typestr="|V8", descr=descr)())


def test_texts_of_a_schema_are_read_to_a_limit(monkeypatch):
    monkeypatch.setattr(_check.schema, "TEXTS", 8)
    report = xd.check(arrow.Batch)
    assert errors(report) == ["arrow-schema-metadata"]
    assert "more than 8 bytes so far" in str(report)


def test_elements_of_an_array_are_looked_at_to_a_limit(monkeypatch):
    taken: list[int] = []
    examined: list[int] = []
    integers, examine = _check.memory.integers, _check.array.examine

    def counted(address: int, count: int, *more: Any, **named: Any) -> Any:
        taken.append(count)
        return integers(address, count, *more, **named)

    def noted(*given: Any, **named: Any) -> Any:
        examined.append(1)
        return examine(*given, **named)

    def node() -> arrow.Node:
        child = arrow.Node(b"u", 30_000, [None, bytes(4 * 30_001), b""], name=b"c")
        ends = arrow.Node(b"i", 30_000, [None, arrow.int32(*range(1, 30_001))], name=b"run_ends")
        values = arrow.Node(b"b", 30_000, [None, bytes(30_000 // 8)], name=b"values")
        runs = arrow.Node(b"+r", 30_000, [], name=b"r", children=[ends, values])
        return arrow.Node(b"+s", 30_000, [None], children=[child, runs] * 10)

    monkeypatch.setattr(_check.memory, "integers", counted)
    monkeypatch.setattr(_check.array, "examine", noted)
    assert xd.check(arrow.one(node)()).ok
    assert sum(taken) > len(examined) * 200_000
    taken.clear()
    examined.clear()
    monkeypatch.setattr(_check.array, "ELEMENTS", 50_000)
    assert xd.check(arrow.one(node)()).ok
    assert sum(taken) < len(examined) * 60_000


def test_bytes_of_an_array_are_compared_to_a_limit(monkeypatch):
    sizes: list[int] = []
    monkeypatch.setattr(_check.memory, "checksum", lambda _, size: sizes.append(size))
    monkeypatch.setattr(_check.array, "CHECKSUMMED", 1000)
    assert len(_check.array.Contents(buffers=[(64, 600)] * 4).checksums()) == 4
    assert sizes == [600, 400, 0, 0]


# ---- the report and the call


def test_a_report_can_be_read_and_raised():
    report = xd.check(arrow.NegativeLength)
    assert not report.ok
    assert report.protocols == ("arrow-schema", "arrow-array")
    (finding,) = report
    assert isinstance(finding, checking.Finding)
    assert finding.rule == "arrow-array-length"
    assert finding.section == "Arrow C data interface: ArrowArray.length"
    assert "-3" in finding.message
    assert finding.wants == _check.RULES["arrow-array-length"].asks
    assert str(report) == (
        "NegativeLength: exercised arrow-schema, arrow-array\n"
        "error: arrow-array-length (arrow-array)\n"
        f"  found:   {finding.message}\n"
        f"  wants:   {finding.wants}\n"
        f"  section: {finding.section}\n"
        "1 error, of 1 rule"
    )
    assert str(finding) in str(report)
    assert report.to_dict()["counts"] == {"error": 1, "warning": 0, "note": 0}
    with pytest.raises(checking.CheckFailedError, match="length -3") as caught:
        report.raise_if_failed()
    assert xd.CheckFailedError is checking.CheckFailedError
    assert isinstance(caught.value, AssertionError)
    xd.check(arrow.Batch).raise_if_failed()
    assert "no findings" in str(xd.check(arrow.Batch))


def test_protocols_can_be_chosen():
    array = np.arange(3)
    assert xd.check(array).protocols == ("dlpack", "array-interface", "buffer")
    assert xd.check(array, protocols=["buffer"]).protocols == ("buffer",)
    with pytest.raises(TypeError, match=r"protocols must be a list of names, not one name; give \['dlpack'\]"):
        xd.check(array, protocols="dlpack")
    with pytest.raises(xd.InvalidArgumentError, match="'dl' is not a protocol"):
        xd.check(array, protocols=["dl"])
    with pytest.raises(xd.UnsupportedTypeError, match="ndarray doesn't claim arrow-array"):
        xd.check(array, protocols=["buffer", "arrow-array"])
    with pytest.raises(xd.UnsupportedTypeError, match="int doesn't claim any protocol"):
        xd.check(3)


def test_a_factory_is_called_for_each_try():
    made: list[object] = []

    def make() -> arrow.Batch:
        made.append(None)
        return arrow.Batch()

    assert xd.check(make).ok
    assert len(made) > 3
    with pytest.raises(ZeroDivisionError):
        xd.check(lambda: 1 / 0)


def test_an_object_is_as_before():
    array = np.arange(6.0).reshape(2, 3)
    batch = pa.record_batch({"x": [1, None]})
    assert xd.check(array).ok
    xd.check(batch)
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert batch.to_pydict() == {"x": [1, None]}


def test_the_checker_is_loaded_when_it_is_called(script):
    out = script("""
        import sys, crossdock
        print([name for name in ("ctypes", "crossdock._check", "pytest") if name in sys.modules])
        crossdock.check(b"")
        print([name for name in ("numpy", "pyarrow") if name in sys.modules])
    """).finish()
    assert out.split("\n")[:2] == ["[]", "[]"]


class EndlessKeys(dict):
    """What Python code makes of its keys has no end; what it holds is right."""

    def keys(self):
        return itertools.count()

    __iter__ = keys


@pytest.mark.parametrize(
    "attribute", ["__cuda_array_interface__", "__array_interface__", "__sycl_usm_array_interface__"]
)
def test_a_dictionary_is_read_as_consumers_in_c_read_it(attribute):
    values = {"shape": (0,), "typestr": "<f8", "data": (0, False), "version": 3}
    plain, endless = (
        str(xd.check(type("Exporter", (), {attribute: property(lambda self, made=made: made(values))})()))
        for made in (dict, EndlessKeys)
    )
    assert endless == plain
