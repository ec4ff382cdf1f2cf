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
