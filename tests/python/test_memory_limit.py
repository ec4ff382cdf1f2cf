"""A cgroup's memory limit: what doesn't fit is an error by name, and nobody is killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import crossdock as xd

MIB = 1 << 20
LIMIT = 256 * MIB
SMALL, LARGE = 8 * MIB, 512 * MIB


def memory_root() -> tuple[Path, str] | None:
    """Where cgroups with a memory limit can be made, and the name of the limit's file."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        front, _, back = line.partition(" - ")
        point = Path(front.split()[4])
        kind, _, options = back.split()[:3]
        if kind == "cgroup" and "memory" in options.split(","):
            return point, "memory.limit_in_bytes"
        if kind == "cgroup2":
            controllers = point / "cgroup.subtree_control"
            if controllers.exists() and "memory" in controllers.read_text().split():
                return point, "memory.max"
    return None


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A cgroup that may use LIMIT bytes."""
    root = memory_root()
    if root is None:
        pytest.skip("no cgroup hierarchy for memory is mounted here, or it isn't handed on")
    point, limit = root
    folder = point / f"crossdock-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / limit).write_text(str(LIMIT))
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        pytest.skip(f"a cgroup can't be made here: {error}")
    try:
        yield folder
    finally:
        folder.rmdir()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Tables in files, whose pages don't count: the system can drop them."""
    paths = {}
    for name, size in (("small", SMALL), ("large", LARGE)):
        paths[name] = tmp_path / f"{name}.arrow"
        column = pa.array(memoryview(bytearray(size)).cast("q"), pa.int64())
        with pa.ipc.new_file(paths[name], pa.schema({"n": pa.int64()})) as sink:
            sink.write_batch(pa.record_batch({"n": column}))
    return paths


def inside(cgroup: Path, code: str, *arguments: object) -> subprocess.Popen[str]:
    """Runs Python code as a process of that cgroup, from its start on."""
    enter = f"""
        import os, sys
        with open({str(cgroup / "cgroup.procs")!r}, "w") as procs:
            procs.write(str(os.getpid()))
        import pyarrow as pa
        import crossdock as xd
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(enter) + textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.long
def test_a_client_that_would_hit_its_limit_is_told_so_and_goes_on(cgroup: Path, files: dict[str, Path]) -> None:
    with xd.serve(files, "tcp:") as server:
        client = inside(
            cgroup,
            """
            uri = sys.argv[1]
            for _ in range(2):
                with xd.connect(uri) as client:
                    try:
                        list(client.get("large"))
                    except xd.ResourceError as error:
                        print(error)
                    print(sum(batch.num_rows for batch in client.get("small")))
            """,
            server.uri,
        )
        said, _ = client.communicate(timeout=120)
        assert client.returncode == 0, "it was killed" if client.returncode < 0 else "it failed"
        lines = said.splitlines()
        assert len(lines) == 4
        for line in lines[::2]:
            assert line.startswith("a body by value needs 512.0 MiB, but the cgroup ")
            assert "(memory limit 256.0 MiB) has only " in line
        assert lines[1::2] == [str(SMALL // 8)] * 2
        with xd.connect(server.uri) as other:  # the server goes on
            assert sum(batch.num_rows for batch in other.get("small")) == SMALL // 8


@pytest.mark.long
def test_a_server_that_would_hit_its_limit_is_told_so_and_goes_on(cgroup: Path, files: dict[str, Path]) -> None:
    server = inside(
        cgroup,
        """
        tables = {name: pa.ipc.open_file(pa.memory_map(path)).read_all()
                  for name, path in zip(("small", "large"), sys.argv[1:])}
        with xd.serve({"small": tables["small"]}, "shm:") as server:
            server.publish("live", lambda: tables["large"].to_reader())
            try:
                server.publish("large", tables["large"])
            except xd.ResourceError as error:
                print(error, flush=True)
            print(server.uri, flush=True)
            sys.stdin.read()
        """,
        files["small"],
        files["large"],
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        error = server.stdout.readline()
        assert "a copy into shared memory needs 512.0 MiB, but the cgroup " in error
        with xd.connect(server.stdout.readline().strip()) as client:
            assert [entry.name for entry in client.list()] == ["live", "small"]
            with pytest.raises(xd.ResourceError, match="a region of recycled memory needs 512"):
                list(client.get("live"))
            assert sum(batch.num_rows for batch in client.get("small")) == SMALL // 8
        server.stdin.close()
    assert server.returncode == 0


def test_an_arena_asks_before_it_takes_memory(cgroup: Path) -> None:
    process = inside(
        cgroup,
        """
        arena = xd.Arena()
        try:
            arena.empty(1 << 26, "i8")
        except xd.ResourceError as error:
            print(error)
        """,
    )
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert said.startswith("an allocation in an Arena needs 512.0 MiB, but the cgroup ")
