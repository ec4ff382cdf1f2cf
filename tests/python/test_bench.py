"""The benchmarks run, and say all that they promise; their numbers are for an idle machine, not for a test."""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import crossdock as xd

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = Path(os.environ.get("CROSSDOCK_BUILD_DIR", ROOT / "build" / "dev")) / "bench"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (PROGRAMS / "handoff_client").exists(),
        reason="the benchmarks' C++ halves aren't built; ./dev build builds them",
    ),
]


def run(name: str, out: Path, *arguments: str, named: str | None = None) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", "--quick", "--out", str(out), *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((out / f"{named or name}.json").read_text())
    for target in result["targets"]:
        assert target["name"] in " ".join(done.stdout.split())
        assert target["met"] == (
            target["measured"] <= target["bound"] if target["at_most"] else target["measured"] >= target["bound"]
        )
    return result


def test_codec_measures_both_directions_at_both_widths(tmp_path):
    result = run("codec", tmp_path / "a folder" / "that isn't there yet")
    rows = {(row["operation"], row["columns"]): row for row in result["rows"]}
    assert set(rows) == set(itertools.product(["encode", "decode"], [8, 512]))
    for row in rows.values():
        assert row["ours"] > 0
        assert row["pyarrow"] > 0
        assert row["ratio"] > 0
    assert [target["bound"] for target in result["targets"]] == [8, 6, 8, 6]


def test_scan_counts_bytes_and_compares_with_files(tmp_path):
    result = run("scan", tmp_path)
    assert [row["scheme"] for row in result["few_rows"]] == ["tcp", "shm"]
    for row in result["few_rows"]:
        assert 0 < row["share"] <= 0.05
        assert row["filtered"] > 0
        assert row["whole"] > 0
    assert [(row["engine"], row["filter"][:4]) for row in result["queries"]] == [
        ("duckdb", "half"), ("polars", "half"), ("duckdb", "1 % "), ("polars", "1 % "),
    ]  # fmt: skip
    for row in result["queries"]:
        assert all(row[way] > 0 for way in ("served", "parquet", "feather"))


def test_reload_measures_and_nobody_fails(tmp_path):
    result = run("reload", tmp_path)
    assert result["tables"] == 50
    assert set(result["reloads_s"]) == set(result["computed_ns"]) == {"none changed", "10 changed", "all changed"}
    for kind, times in result["reloads_s"].items():
        assert min(times) > 0
        assert min(result["computed_ns"][kind]) > 0
    assert result["reads"]["failures"] == []
    assert result["reads"]["else_s"]


def test_relay_compares_with_the_server_and_computes_trees(tmp_path):
    result = run("relay", tmp_path)
    assert [row["bytes"] for row in result["rows"]] == [1 << 16, 1 << 20]
    for row in result["rows"]:
        for key in ("direct", "into_arena", "first", "asks", "asks_ratio", "max_age", "max_age_ratio"):
            assert row[key] > 0
    assert [row["fan_out"] for row in result["trees"]["network"]] == [None, 1000, 32, 10, 4, 3, 2]


def test_libraries_are_compared_with_reading_the_file(tmp_path):
    result = run("libraries", tmp_path)
    for how in ("served", "itself"):
        assert set(result[how]["grown"]) == {"pandas", "polars", "duckdb", "torch", "numpy"}
        assert min(result[how]["seconds"].values()) > 0
    assert sum(result["served"]["grown"].values()) < sum(result["itself"]["grown"].values()), "they share it"


def test_trees_of_relays():
    from bench._tree import spread

    one_level = spread(1000, 1000, size=1e9, bandwidth=1e9, latency=0.5)
    assert (one_level.seconds, one_level.depth, one_level.sent_by_source) == (1000.5, 1, 1e12)
    binary = spread(6, 2, size=1e9, bandwidth=1e9, latency=0.5)
    assert (binary.seconds, binary.depth, binary.sent_by_source) == (5.0, 2, 2e9)
    # The last level has one machine: nobody shares with it.
    assert spread(3, 2, size=1e9, bandwidth=1e9, latency=0.0).seconds == 3.0
    assert spread(10, 10, size=1e9, bandwidth=1e9, latency=0.0, copies=8).sent_by_source == 80e9
    assert spread(0, 2, size=1e9, bandwidth=1e9, latency=1.0).seconds == 0.0


def test_engines_compares_each_way_with_pythons_own(tmp_path):
    result = run("engines", tmp_path, "--only", "Python")
    for name, ways in {"queue 64 MiB array": 4, "executor 256 MiB frame, 8 tasks": 2}.items():
        assert len(result["results"][name]) == ways
        assert all(cost["wall_ms"] > 0 for cost in result["results"][name].values())
    assert result["fill_ratio"] > 0
    assert len(result["targets"]) == 5


def test_engines_compares_each_way_with_rays_own(tmp_path):
    pytest.importorskip("ray")
    result = run("engines", tmp_path, "--only", "Ray")
    assert sorted(map(len, result["results"].values())) == [2, 2, 2, 3]
    assert all(row.startswith("Ray") for row in result["results"])


def test_engines_compares_each_way_with_dasks_own(tmp_path):
    pytest.importorskip("distributed")
    result = run("engines", tmp_path, "--only", "distributed")
    assert len(result["results"]) == 11
    assert all(row.startswith("Dask") for row in result["results"])
    assert set(result["dask_growth_of_memory"]) == {"tcp", "heap", "pool"}


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="instructions are counted by valgrind")
def test_instructions_are_counted_for_both_ends(tmp_path):
    result = run("instructions", tmp_path)
    assert len(result["rows"]) == 2
    for row in result["rows"]:
        # Each is counted in a run of its own, with what it takes to look for the other end: no order is sure.
        assert min(row[what] for what in ("whole", "next", "export", "release", "alone", "server", "allocations")) > 0


def test_files_reads_and_decodes(tmp_path):
    result = run("files", tmp_path)
    assert result["batches"] == 64
    assert result["open"]["ratio"] > 0
    assert [row["codec"] for row in result["decode"]] == ["lz4", "zstd"]
    for row in result["decode"]:
        assert 0 < row["compressed_to"] < 1
        assert min(row[name] for name in ("ours", "library", "ours_threads", "library_threads")) > 0
    assert [target["bound"] for target in result["targets"]] == [1.2, 0.01, 1.1, 1.1, 1.1, 1.1]


def test_tensors_are_taken_and_received(tmp_path):
    result = run("tensors", tmp_path)
    assert [row["bytes"] for row in result["rows"]] == [64 << 10, 1 << 20, 4 << 20]
    for row in result["rows"]:
        assert min(row[name] for name in ("mapped", "into_shm", "numpy_copy", "into_tcp", "table_tcp")) > 0
    assert [target["bound"] for target in result["targets"]] == [1.2, 1.1]


def test_newcomers_connect_beside_busy_readers(tmp_path):
    result = run("newcomers", tmp_path)
    assert [row["way"] for row in result["rows"]] == ["shm", "tcp", "tcp, token"]
    for row in result["rows"]:
        for what in ("alone", "busy", "plain"):
            assert 0 < row[what]["p50"] <= row[what]["p99"] <= row[what]["max"]
    assert result["zeros"]["beside"]["p50"] > 0
    assert [target["bound"] for target in result["targets"]] == [50, 50, 50]


def test_a_server_is_observed_beside_its_readers(tmp_path):
    result = run("observe", tmp_path)
    # The readers and the one who asks. A reader whose releases the busy server hasn't taken yet takes another one.
    assert 9 <= result["connections"] <= 17
    for turns in result["turns"].values():
        assert min(turn[what] for turn in turns for what in ("rate", "cpu")) > 0
    assert 0 < result["scrape"]["p50"] <= result["scrape"]["p99"]
    assert 0 < result["request"]["p50"] <= result["request"]["p99"]
    assert [target["bound"] for target in result["targets"]] == [1.01, 1.01]


def test_consumers_all_read_at_once(tmp_path):
    result = run("consumers", tmp_path)
    assert len(result["rates"]) == result["consumers"] == 4
    assert min(result["rates"]) > 0
    assert [target["bound"] for target in result["targets"]] == [0.6, 0.5]


def test_looks_at_a_server_are_compared_with_none(tmp_path):
    result = run("top", tmp_path)
    assert [row["how"] for row in result["rows"]] == ["terminal", "page", "lines"]
    for row in result["rows"]:
        assert min(row["speed"], row["alone"]) > 0
        assert row["own_processors"] >= 0  # it may not have looked in so short a time
    assert [target["bound"] for target in result["targets"]] == [1] * 6


def test_tcp_is_measured_beside_sockets_and_flight(tmp_path):
    result = run("tcp", tmp_path, "--rounds", "1")
    assert {target["bound"] for target in result["targets"]} == {0.9, 3}


@pytest.mark.parametrize("options", [(), ("--tls",)])
def test_flight_is_measured_beside_pyarrows_server(tmp_path, options):
    pytest.importorskip("pyarrow.flight")
    try:
        xd.serve({}, flight="grpc://127.0.0.1:0").close()
    except xd.SchemeError as error:
        pytest.skip(str(error))
    result = run("flight", tmp_path, *options, named="flight-tls" if options else "flight")
    measured = {target["name"]: target for target in result["targets"]}
    assert {target["bound"] for target in measured.values()} == {5, 1, 0.95, 0, 10}
    # No timing, this: it holds on any machine.
    assert measured["bytes of bodies copied by our server meanwhile"]["met"]


def test_wire_measures_its_parts_or_says_why_not(tmp_path):
    parts = ("reads", "device")  # all of them take minutes
    result = run("wire", tmp_path, *parts)
    assert set(result["parts"]) == set(parts)
    for name, part in result["parts"].items():
        has_targets = any(target["name"].startswith(f"{name}: ") for target in result["targets"])
        assert has_targets or part["left_out"], name
    measured = {target["name"]: target for target in result["targets"]}
    # No timing, these: they hold on any machine.
    for device in ("simulated device", "CUDA double"):
        assert measured[f"device: {device}, copies"]["measured"] == 0
        assert measured[f"device: {device}, imports of each region"]["measured"] == 1


def test_wire_names_its_parts(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "bench.wire", "telegraph", "--quick", "--out", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "there is no part telegraph; there are ucx, reads," in done.stderr


def test_validate_looks_at_text_and_lists(tmp_path):
    result = run("validate", tmp_path)
    rows = {row["column"]: row for row in result["rows"]}
    assert {"utf8", "large_utf8", "utf8_of_many_scripts", "list", "large_list"} <= set(rows)
    for row in rows.values():
        assert row["ours"] > 0
        assert row["pyarrow"] > 0
        assert row["bytes"] > 1_000_000
    assert {target["bound"] for target in result["targets"]} == {1}


def test_handoff_has_every_way_wake_mode_and_read(tmp_path):
    size = 64 << 10
    result = run("handoff", tmp_path, "--sizes", str(size))
    rows = {(row["way"], row["wake"], row["read"]): row for row in result["rows"]}
    ours = itertools.product(["Crossdock, C++", "Crossdock, Python"], ["spin", "block"], ["first", "sum"])
    peers = itertools.product(
        [
            "pyarrow alone: its C stream in one process",
            "pyarrow Flight, Unix socket",
            "pyarrow Flight, TCP loopback",
            "pyarrow IPC stream, Unix socket",
            "pyarrow IPC file in shared memory, mapped",
        ],
        ["-"],
        ["first", "sum"],
    )
    by_column = ("Crossdock, Python", "spin", "columns")
    assert set(rows) == {*ours, *peers, by_column, ("memcpy, one thread", "-", "all")}
    for row in rows.values():
        assert row["batch_bytes"] == size
        assert row["batches"] > 0
        assert 0 < row["p50"] <= row["p90"] <= row["p99"]
        assert row["stretch"] > 0
    # The address sets are counted by the consumer, not taken from what it asked for.
    assert rows["Crossdock, C++", "spin", "first"]["address_sets"] == 64
    assert [row["wake"] for row in result["latency"]] == ["spin", "block"]
    assert all(row["one_way"]["p50"] > 0 and row["limit"] > 0 for row in result["latency"])
    assert [row["batch_bytes"] for row in result["heap"]] == [size]
    assert {row["wake"] for row in result["mapping"]} == {"spin", "block"}
    assert all(row["first_batch"] > 0 for row in result["mapping"])
    assert (tmp_path / "handoff.png").read_bytes().startswith(b"\x89PNG")
    names = [target["name"] for target in result["targets"]]
    assert len(names) == len(set(names)) == 6


def test_memory_looks_at_ten_consumers_and_both_ends_of_a_connection(tmp_path):
    result = run("memory", tmp_path)
    file = result["file"]
    assert file["consumers"] == len(file["private_growth"]) == 10
    # The file is shared: all of them together hold it once, and something is held.
    assert 0.5 * file["file_bytes"] < file["pss_growth"] < 2 * file["file_bytes"]
    batches = result["batches"]
    assert batches["descriptors_constant"]
    assert len(batches["samples"]) == 20
    assert len(result["targets"]) == 5


def test_exchange_compares_with_every_peer(tmp_path):
    result = run("exchange", tmp_path)
    assert set(result["out"]) == {"np.asarray", "np.from_dlpack", "torch.from_dlpack"}
    for consumer in result["out"].values():
        assert consumer["fastest"] in set(consumer["medians"]) - {"crossdock"}
        assert consumer["ratio"] > 0
    assert max(result["in"].values()) > 0  # some are differences of times, which the machine's load may turn negative
    assert set(result["batch"]["medians"]) == {"crossdock", "nanoarrow", "nanoarrow, c_array", "nothing between"}
    # What it says of the driver's calls is no timing, and holds on any machine.
    few, many = (calls["total"] for calls in result["copies"]["driver_calls"].values())
    assert few == many
    assert result["import"]["also_imported"] == []


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_columns_are_compared_with_bare_loops_and_the_header_is_timed(tmp_path):
    result = run("columns", tmp_path)
    assert len(result["cases"]) >= 5
    assert all(case["ours"] > 0 and case["bare"] > 0 for case in result["cases"].values())
    assert set(result["header_seconds"]) == {"-fsyntax-only", "-c", "-c -O2"}
    assert min(result["header_seconds"].values()) > 0


def test_offload_compares_with_dpctl(tmp_path):
    result = run("offload", tmp_path)
    assert all(map(math.isfinite, result["current"].values()))  # Differences of times: noise may make one negative.
    assert result["cpp"]["read_in_scope"] > 0
    if result["sycl"] is None:
        assert result["copies"] is None
        return
    assert min(result["sycl"].values()) > 0
    copies = {name: one["ratio"] for name, one in result["copies"].items() if name != "bytes"}
    assert len(copies) == 4
    assert min(copies.values()) > 0
