"""Tables over UCX."""

import subprocess
import sys

import pytest

import crossdock as xd

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def _ucx() -> None:
    try:
        xd.serve({}, "ucx://127.0.0.1:0").close()
    except xd.UnsupportedError as error:
        pytest.skip(f"no UCX: {error}")


@pytest.mark.usefixtures("_ucx")
def test_a_table_crosses() -> None:
    table = pa.table({"n": list(range(1000))})
    with xd.serve({"numbers": table}, "ucx://127.0.0.1:0", token="a long secret") as server:
        assert server.uri.startswith("ucx://127.0.0.1:")
        with xd.connect(server.uri, token="a long secret") as client:
            assert pa.table(client.get("numbers")) == table
        with pytest.raises(xd.PermissionError, match="token"):
            xd.connect(server.uri).list()


@pytest.mark.usefixtures("_ucx")
def test_columns_are_read_alone() -> None:
    table = pa.table({f"c{i}": [float(i)] * 100_000 for i in range(8)})
    with xd.serve({"numbers": table}, "ucx://127.0.0.1:0") as server, xd.connect(server.uri) as client:
        assert pa.table(client.get("numbers", columns=["c3"])) == table.select(["c3"])
        assert pa.table(client.get("numbers")) == table
        by_way = {one["way"]: one for one in server.stats()["consumers"]}
        assert by_way["read"]["bytes_by_value"] == 0
        assert by_way["message"]["bytes_by_value"] == table.nbytes
    with xd.serve({"numbers": table}, "ucx://127.0.0.1:0") as server, xd.connect(server.uri, way="read") as client:
        assert pa.table(client.get("numbers")) == table
        with pytest.raises(xd.UnsupportedError, match="map"):
            xd.connect(server.uri, way="map").list()


@pytest.mark.usefixtures("_ucx")
def test_files_and_memory_of_devices_are_sent_from_copies(tmp_path, script) -> None:
    program = script(
        """
        import pathlib, sys
        import pyarrow as pa, crossdock as xd
        from crossdock.testing import simulated_devices
        batch = pa.record_batch({"n": list(range(1000))})
        path = pathlib.Path(sys.argv[1])
        xd.write(batch, path)
        with simulated_devices(2):
            on_device = xd.RecordBatch(batch).to("sim:1")
            with xd.serve({"file": path, "device": on_device}, "ucx://127.0.0.1:0") as server:
                path.write_bytes(b"")  # UCX would read it in this process: SIGBUS
                with xd.connect(server.uri) as client:
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


def test_a_missing_library_is_named_with_what_to_install() -> None:
    code = """if True:
        import crossdock as xd
        with xd.serve({}, "shm:") as server:  # works: UCX is looked for when its scheme is used
            try:
                xd.connect("ucx://127.0.0.1:1")
            except xd.UnsupportedError as error:
                print(error)
    """
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"CROSSDOCK_UCX_LIBRARY": "/no/such/libucp.so"},
        capture_output=True,
        text=True,
        check=True,
    )
    if "without UCX's headers" not in run.stdout:
        assert "/no/such/libucp.so" in run.stdout
        assert "apt-get install libucx0" in run.stdout
