"""Tables in SYCL's USM memory, on a real SYCL run time. Other processes can't open it, so they are served through the
host, by one copy that all consumers share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import crossdock as xd

dpctl = pytest.importorskip("dpctl")
dpnp = pytest.importorskip("dpnp")

if not dpctl.get_devices():
    pytest.skip("SYCL has no device here", allow_module_level=True)

BATCH = pa.record_batch(
    {
        "n": pa.array([*range(999), None]),
        "s": pa.array([str(n) for n in range(1000)]),
        "d": pa.array(["a", "b"] * 500).dictionary_encode(),
    }
)
DEVICE = "sycl:0"


def there(batch: pa.RecordBatch = BATCH) -> xd.RecordBatch:
    return xd.RecordBatch(batch).to(DEVICE)


@pytest.mark.parametrize("usm_type", ["device", "shared", "host"])
def test_an_array_of_dpnp_is_copied_once_for_all_consumers(usm_type):
    values = np.arange(100_000, dtype="f8")
    theirs = dpnp.asarray(values, usm_type=usm_type)
    with xd.serve({}, ["shm:", "tcp:"]) as server:
        server.publish("t", xd.asarray(theirs), mode="table")
        (source,) = server.stats()["sources"]
        assert (source["bytes"], source["bytes_copied"]) == (values.nbytes, values.nbytes)
        theirs[:] = 7  # it is a table: what changes later isn't seen
        theirs.sycl_queue.wait()
        for uri in server.uris * 2:
            with xd.connect(uri) as client:
                (batch,) = client.get("t")
                assert batch.device == "cpu"
                np.testing.assert_array_equal(pa.record_batch(batch)[0].to_numpy(), values)
                assert {entry.device for entry in client.list()} == {"cpu"}, "where consumers find it"
                del batch
        assert server.stats()["sources"][0]["bytes_copied"] == values.nbytes


@pytest.mark.parametrize("uri", ["shm:", "tcp:"])
@pytest.mark.parametrize("mode", ["table", "live"])
def test_batches_come_by_one_copy_and_go_back_by_one(uri, mode):
    with xd.Server(uri=uri) as server:
        server.publish("t", [there()] * 3, mode=mode)
        with xd.connect(server.uri) as client:
            reader = client.get("t", device=DEVICE)
            batches = list(reader)
            assert [batch.device for batch in batches] == [there().device] * 3
            copied = server.stats()["sources"][0]["bytes_copied"]
            assert copied == pytest.approx(3 * BATCH.nbytes, rel=0.1)
            assert reader.bytes_copied == pytest.approx(3 * BATCH.nbytes, rel=0.1)
            for batch in batches:
                assert pa.record_batch(batch.to("cpu")).equals(BATCH)


def test_dpnp_reads_what_arrived():
    with xd.Server() as server, xd.connect(server.uri) as client:
        server.publish("t", xd.asarray(dpnp.arange(1000, dtype="i4")), mode="table")
        (batch,) = client.get("t", device=DEVICE)
        theirs = dpnp.asarray(xd.from_arrow(batch))
        assert int(theirs.sum()) == 999 * 500


def test_there_is_no_arena_of_usm():
    with pytest.raises(xd.UnsupportedError, match="the driver sycl can't hand memory to other processes"):
        xd.Arena(device=DEVICE)
