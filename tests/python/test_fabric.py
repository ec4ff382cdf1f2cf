"""Tables whose data goes over libfabric."""

import subprocess
import sys

import pytest

import crossdock as xd

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def _fabric() -> None:
    try:
        xd.serve({}, "fabric://127.0.0.1:0").close()
    except xd.UnsupportedError as error:
        pytest.skip(f"no libfabric: {error}")


@pytest.mark.usefixtures("_fabric")
def test_a_table_crosses() -> None:
    table = pa.table({"n": list(range(100_000)), "t": [str(n) for n in range(100_000)]})
    with xd.serve({"numbers": table}, "fabric://127.0.0.1:0", token="a long secret") as server:
        assert server.uri.startswith("fabric://127.0.0.1:")
        with xd.connect(server.uri, token="a long secret") as client:
            assert pa.table(client.get("numbers")) == table
        with pytest.raises(xd.PermissionError, match="token"):
            xd.connect(server.uri).list()


@pytest.mark.usefixtures("_fabric")
def test_some_columns_are_read_and_whole_tables_sent() -> None:
    table = pa.table({f"c{i}": pa.array(range(i, 200_000 + i), pa.int64()) for i in range(8)})
    batches = table.to_batches(max_chunksize=10_000)
    for columns, way, why in ((["c3", "c5"], "read", "some columns"), (None, "message", "costs less")):
        with (
            xd.serve({"wide": pa.Table.from_batches(batches)}, "fabric://127.0.0.1:0", window=2) as server,
            xd.connect(server.uri) as client,
            client.get("wide", columns=columns) as reader,
        ):
            first = next(reader)
            (consumer,) = [one for one in server.stats()["consumers"] if one["name"] == "wide"]
            assert (consumer["way"], consumer["carrier"]) == (way, "fabric (tcp;ofi_rxm)")
            assert why in consumer["why"]
            got = pa.Table.from_batches([pa.record_batch(batch) for batch in (first, *reader)])
            assert got == (table.select(columns) if columns else table)


@pytest.mark.usefixtures("_fabric")
@pytest.mark.parametrize("way", ["read", "message"])
def test_a_way_can_be_forced(way: str) -> None:
    table = pa.table({"n": list(range(100_000))})
    with xd.serve({"numbers": table}, "fabric://127.0.0.1:0") as server:
        with xd.connect(server.uri, way=way) as client:
            assert pa.table(client.get("numbers")) == table
        with pytest.raises(xd.UnsupportedError, match="map"):
            xd.connect(server.uri, way="map").list()


@pytest.mark.long
@pytest.mark.usefixtures("_fabric")
def test_files_and_memory_of_devices_are_sent_from_copies(tmp_path, script) -> None:
    program = script(
        """
        import pathlib, sys
        import pyarrow as pa, crossdock as xd
        from crossdock.testing import simulated_devices
        batch = pa.record_batch({"n": list(range(100_000))})
        path = pathlib.Path(sys.argv[1])
        xd.write(batch, path)
        with simulated_devices(2):
            on_device = xd.RecordBatch(batch).to("sim:1")
            with xd.serve({"file": path, "device": on_device}, "fabric://127.0.0.1:0") as server:
                path.write_bytes(b"")  # the provider would read it in this process: SIGBUS
                for way in (None, "read"):
                    with xd.connect(server.uri, way=way) as client:
                        for name in ("file", "device"):
                            assert pa.table(client.get(name)).to_batches() == [batch]
                copied = {one["name"]: one["bytes_copied"] for one in server.stats()["sources"]}
            del on_device
        assert copied["file"] > 0
        assert copied["device"] >= 2 * batch.nbytes
        """,
        str(tmp_path / "t.arrow"),
    )
    program.finish()


@pytest.mark.usefixtures("_fabric")
def test_a_reader_may_stop_in_the_middle() -> None:
    table = pa.table({"n": pa.array(range(4_000_000), pa.int64())})
    with xd.serve({"numbers": table}, "fabric://127.0.0.1:0") as server:
        for _ in range(5):
            with xd.connect(server.uri) as client, client.get("numbers") as reader:
                next(reader)
        with xd.connect(server.uri) as client:
            assert pa.table(client.get("numbers")) == table


def test_a_missing_library_is_named_with_what_to_install() -> None:
    code = """if True:
        import crossdock as xd
        with xd.serve({}, "shm:") as server:  # works: libfabric is looked for when its scheme is used
            try:
                xd.serve({}, "fabric://127.0.0.1:0")
            except xd.UnsupportedError as error:
                print(error)
    """
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"CROSSDOCK_FABRIC_LIBRARY": "/no/such/libfabric.so"},
        capture_output=True,
        text=True,
        check=True,
    )
    if "without libfabric's headers" not in run.stdout:
        assert "/no/such/libfabric.so" in run.stdout
        assert "CROSSDOCK_FABRIC_LIBRARY" in run.stdout


def test_a_provider_is_named_by_the_environment() -> None:
    code = 'import crossdock as xd; xd.serve({}, "fabric://127.0.0.1:0")'
    for provider, why in (("shm", "use the transport shm:"), ("smoke;signals", "smoke;signals")):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={"CROSSDOCK_FABRIC_PROVIDER": provider},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 1
        assert why in run.stderr or "without libfabric's headers" in run.stderr
