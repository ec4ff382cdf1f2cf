"""`crossdock devices`: every driver, its devices, and why one is absent."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import crossdock as xd
from crossdock import _native

COMMAND = [sys.executable, "-m", "crossdock", "devices"]


def run(*arguments, **environment):
    done = subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, **environment},
    )
    return done.stdout


def test_the_table_has_every_driver():
    out = run()
    for word in ("driver", "filter string", "host:cpu:0", "cuda", "sycl", "sim"):
        assert word in out


@pytest.mark.parametrize("columns", ["40", "80"])
def test_each_device_is_one_line_where_nobody_looks(columns):
    """Programs read what is piped line by line."""
    everything = json.loads(run("--json"))
    told = everything["drivers"]
    _, *lines = run(COLUMNS=columns).splitlines()
    devices = [device for driver in told for device in driver["devices"]]
    for line, device in zip(lines, devices, strict=False):
        assert device["filter"] in line
        assert line.rstrip().endswith(device["name"])
    assert len(lines) == len(devices) + sum(not driver["devices"] for driver in told) + len(everything["networks"])


def test_json_says_what_was_tried(tmp_path):
    missing = str(tmp_path / "libnobody.so")
    told = json.loads(run("--json", CROSSDOCK_CUDA_LIBRARY=missing, CROSSDOCK_SYCL_LIBRARY=missing))
    drivers = {driver["driver"]: driver for driver in told["drivers"]}
    assert list(drivers) == ["host", "cuda", "sycl", "sim"]
    for name in ("cuda", "sycl"):
        assert not drivers[name]["found"]
        assert drivers[name]["devices"] == []
        assert missing in " ".join(drivers[name]["tried"])
    (host,) = drivers["host"]["devices"]
    assert host.pop("name")
    assert host.pop("memory") > 1 << 20
    assert host == {
        "device": "cpu", "filter": "host:cpu:0", "device_type": "cpu", "backend": "host", "usm_types": ["host"],
    }  # fmt: skip


def test_everything_else_works_without_sycl(tmp_path):
    """And says what was looked for where SYCL is asked for."""
    script = """
import crossdock as xd, numpy as np
assert xd.asarray(np.arange(3)).shape == (3,)
for use in (lambda: xd.Queue("sycl:cpu"), lambda: xd.empty(3, device="oneapi:0")):
    try:
        use()
    except (xd.NotFoundError, xd.UnsupportedError) as error:
        print(error)
"""
    missing = str(tmp_path / "libnobody.so")
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60,
        env={**os.environ, "CROSSDOCK_SYCL_LIBRARY": missing},
    ).stdout  # fmt: skip
    assert len(out.splitlines()) == 2
    for line in out.splitlines():
        assert "libnobody.so" in line


@pytest.mark.parametrize("transport", ["ucx", "fabric"])
def test_a_network_whose_library_is_missing(tmp_path, transport):
    missing = str(tmp_path / "libnobody.so")
    variable = f"CROSSDOCK_{transport.upper()}_LIBRARY"
    networks = {one["transport"]: one for one in json.loads(run("--json", **{variable: missing}))["networks"]}
    assert not networks[transport]["found"]
    if missing not in " ".join(networks[transport]["tried"]):
        assert "headers" in " ".join(networks[transport]["tried"])
        pytest.skip(f"this build has no {transport}")


@pytest.mark.long
@pytest.mark.parametrize("provider", ["shm", "net", "nobody"])
def test_a_provider_that_cant_be_used_is_said_on_its_line(provider):
    networks = {one["transport"]: one for one in json.loads(run("--json"))["networks"]}
    if not networks["fabric"]["found"]:
        pytest.skip("; ".join(networks["fabric"]["tried"]))
    *others, last = run(CROSSDOCK_FABRIC_PROVIDER=provider).splitlines()
    assert [line.split()[0] for line in others[:2]] == ["driver", "host"]
    assert others[-1].startswith("ucx: ")
    beginning = f"fabric: {networks['fabric']['library']}, version {networks['fabric']['version']}, can't be used: "
    assert last.startswith(beginning)
    assert f'"{provider}"' in last
    assert not last.removeprefix(beginning).startswith("fabric:")
    (_, told) = json.loads(run("--json", CROSSDOCK_FABRIC_PROVIDER=provider))["networks"]
    assert (told["found"], told["provider"]) == (False, provider)


@pytest.mark.long
def test_everything_else_works_without_networks(tmp_path):
    """Where neither library of a network is there: tables of the host and of a device cross over shm and tcp."""
    script = """
import sys
import pyarrow as pa, crossdock as xd
from crossdock.testing import simulated_devices
batch = pa.record_batch({"n": list(range(1000)), "t": [str(n) for n in range(1000)]})
with simulated_devices(2):
    sources = {"host": batch, "device": xd.RecordBatch(batch).to("sim:1")}
    with xd.serve(sources, ["shm:", "tcp:"]) as server:
        del sources
        for uri in server.uris:
            with xd.connect(uri) as client:
                for name in ("host", "device"):
                    for device in (None, "sim:1"):
                        (got,) = client.get(name, device=device)
                        assert got.device == (device or "cpu")
                        assert pa.record_batch(got.to("cpu")) == batch
                        del got
for uri in sys.argv[1:]:
    for use in (lambda: xd.serve({}, uri), lambda: xd.connect(uri)):
        try:
            use()
        except xd.UnsupportedError as error:
            print(error)
"""
    missing = {name: str(tmp_path / f"lib{name}.so") for name in ("ucx", "fabric")}
    try:
        servers = [xd.serve({}, f"{transport}://127.0.0.1:0") for transport in missing]
    except xd.UnsupportedError as error:
        pytest.skip(f"no servers to connect to: {error}")
    out = subprocess.run(
        [sys.executable, "-c", script, *(server.uri for server in servers)],
        capture_output=True, text=True, check=True, timeout=60,
        env={**os.environ, **{f"CROSSDOCK_{name.upper()}_LIBRARY": path for name, path in missing.items()}},
    ).stdout  # fmt: skip
    for server in servers:
        server.close()
    for path in missing.values():
        assert out.count(path) == 2


def test_simulated_devices_are_listed():
    with xd.testing.simulated_devices(2):
        (sim,) = [driver for driver in _native.devices() if driver["driver"] == "sim"]
        assert [device["filter"] for device in sim["devices"]] == ["sim:gpu:0", "sim:gpu:1"]
        for device in sim["devices"]:
            assert device["usm_types"] == ["device", "host", "shared"]
            assert xd.Queue(device["filter"]).device == device["device"]
