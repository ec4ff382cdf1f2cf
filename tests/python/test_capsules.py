"""The Arrow PyCapsule interface, on both sides of it."""

from __future__ import annotations

import ctypes
import gc

import nanoarrow as na
import nanoarrow.device
import pyarrow as pa
import pytest
from tests.exporter_samples import arrow
from tests.exporter_samples.capsules import ALIVE

import crossdock as xd

BATCH = pa.record_batch({"x": [1, 2, 3]})


@pytest.fixture
def client():
    with xd.serve({"t": BATCH}) as server, xd.connect(server.uri) as client:
        yield client


def name_of(capsule: object) -> str:
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return get_name(capsule).decode()


def test_capsules_have_their_names(client):
    reader = client.get("t")
    batch = next(reader)
    assert name_of(reader.schema.__arrow_c_schema__()) == "arrow_schema"
    assert name_of(reader.__arrow_c_schema__()) == "arrow_schema"
    assert name_of(batch.__arrow_c_schema__()) == "arrow_schema"
    assert [name_of(capsule) for capsule in batch.__arrow_c_array__()] == ["arrow_schema", "arrow_array"]
    assert [name_of(capsule) for capsule in batch.__arrow_c_device_array__()] == ["arrow_schema", "arrow_device_array"]
    assert name_of(client.get("t").__arrow_c_stream__()) == "arrow_array_stream"
    assert name_of(client.get("t").__arrow_c_device_stream__()) == "arrow_device_array_stream"


def test_schemas_that_are_equal_have_one_hash():
    one, same, other = (
        xd.RecordBatch(pa.record_batch({name: [1]}, metadata={"k": "v"})).schema for name in ("a", "a", "b")
    )
    assert one == same
    assert one != other
    assert len({one, same, other}) == 2


def test_a_batch_can_be_exported_any_number_of_times(client, mapping_of):
    batch = next(client.get("t"))
    copies = [pa.record_batch(batch) for _ in range(3)] + [
        pa.RecordBatch._import_from_c_device_capsule(*batch.__arrow_c_device_array__())
    ]
    addresses = {copy.column(0).buffers()[1].address for copy in copies}
    assert len(addresses) == 1, "exports share the memory"
    mapping = mapping_of(addresses.pop())
    assert mapping.permissions.startswith("r-"), "and it is read-only"
    del batch
    first = copies.pop(0)
    copies.clear()
    assert first == BATCH


def test_capsules_that_nobody_takes_are_released(client):
    # The leftovers fixture sees memory and descriptors that stay.
    reader = client.get("t")
    batch = next(reader)
    for _ in range(1000):
        batch.__arrow_c_array__()
        batch.__arrow_c_device_array__()
    client.get("t").__arrow_c_stream__()
    client.get("t").__arrow_c_device_stream__()


def test_unknown_keywords_may_only_be_none(client):
    reader = client.get("t")
    batch = next(client.get("t"))
    batch.__arrow_c_device_array__(some_future_thing=None)
    with pytest.raises(NotImplementedError, match="some_future_thing"):
        batch.__arrow_c_device_array__(some_future_thing=1)
    with pytest.raises(NotImplementedError, match="some_future_thing"):
        reader.__arrow_c_device_stream__(some_future_thing=1)
    reader.__arrow_c_device_stream__(requested_schema=None, some_future_thing=None)  # Was not consumed by the refusal.


def test_the_device_stream_says_cpu(client):
    device_type = ctypes.c_int32.from_address
    capsule = client.get("t").__arrow_c_device_stream__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    assert device_type(get_pointer(capsule, b"arrow_device_array_stream")).value == 1
    assert na.device.c_device_array(next(client.get("t"))).device_type_id == 1


class Gives:
    """A producer that gives what it was told."""

    def __init__(self, **methods: object) -> None:
        for name, result in methods.items():
            setattr(self, name, lambda requested_schema=None, result=result: result)


def test_producers_that_break_the_interface_are_refused():
    schema, array = BATCH.__arrow_c_array__()
    used = BATCH.__arrow_c_stream__()
    pa.RecordBatchReader._import_from_c_capsule(used)
    bad = {
        "no capsule": Gives(__arrow_c_stream__=3),
        "another capsule": Gives(__arrow_c_stream__=schema),
        "no pair": Gives(__arrow_c_array__=array),
        "three": Gives(__arrow_c_array__=(schema, array, array)),
        "wrong order": Gives(__arrow_c_array__=(array, schema)),
        "used": Gives(__arrow_c_stream__=used),
        "device: no pair": Gives(__arrow_c_device_array__=None),
        "device stream: another": Gives(__arrow_c_device_stream__=schema),
    }
    with xd.Server() as server:
        for what, producer in bad.items():
            with pytest.raises(xd.InvalidDataError, match="arrow"):
                server.publish(what, producer)
        with xd.connect(server.uri) as client:
            assert client.list() == []


def test_memory_of_another_device_is_refused():
    capsules = BATCH.__arrow_c_device_array__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = get_pointer(capsules[1], b"arrow_device_array")
    ctypes.c_int32.from_address(
        address + 88
    ).value = 2  # device_type, behind an 80 byte ArrowArray and the device's number
    with xd.Server() as server, pytest.raises(xd.UnsupportedError, match="no driver for memory of cuda"):
        server.publish("gpu", Gives(__arrow_c_device_array__=capsules))
    ctypes.c_int32.from_address(address + 88).value = 1


def test_what_a_producer_raises_is_raised():
    class Fails:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise RuntimeError("no stream today")

    with xd.Server() as server, pytest.raises(RuntimeError, match="no stream today"):
        server.publish("x", Fails())


def test_a_stream_that_is_taken_while_it_is_asked_for_its_schema():
    """Its producer comes back, or another thread does: one of them has it."""
    inner = []
    releases = []

    class Again(arrow.BatchStream):
        def stream(self, raw):
            get_schema = arrow.GetOut(raw.get_schema)

            def ask(address, out):
                if not inner:
                    inner.append(None)
                    try:
                        inner.append(xd.RecordBatchReader(sources[0]))
                    except ValueError as error:
                        inner.append(error)
                return get_schema(address, out)

            function = arrow.GetOut(ask)
            raw.get_schema = arrow.address_of(function)
            ALIVE[raw.private_data] += (function, get_schema)

        def released(self, given):
            releases.append(1)

    class Source:
        def __init__(self):
            self.capsule = Again().__arrow_c_stream__()

        def __arrow_c_stream__(self, requested_schema=None):
            return self.capsule

    sources = [Source()]
    reader = xd.RecordBatchReader(sources[0])
    assert isinstance(inner[1], ValueError)
    assert "already consumed" in str(inner[1])
    assert len(list(reader)) == 2
    del reader
    sources.clear()
    gc.collect()
    assert releases == [1]


def test_a_stream_whose_schema_fails_stays_its_producers():
    class Fails(arrow.BatchStream):
        def stream(self, raw):
            function = arrow.GetOut(lambda _, __: 22)
            raw.get_schema = arrow.address_of(function)
            ALIVE[raw.private_data] += (function,)

        def released(self, given):
            releases.append(1)

    releases = []
    source = Fails()
    with pytest.raises(ValueError, match="its schema"):
        xd.RecordBatchReader(source)
    gc.collect()
    assert releases == [1], "by its capsule"
