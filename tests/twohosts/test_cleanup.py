"""Nothing stays behind, however a run ends."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from pathlib import Path

import pytest

# A program in each host that nothing ends but the end of the process that started it.
RUN = """
import subprocess, sys
from tests.twohosts.hosts import TwoHosts
with TwoHosts() as hosts:
    commands = [[*host.within, "sh", "-c", "echo up && exec sleep 600"] for host in (hosts.client, hosts.server)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in commands]
    for program in started:
        assert program.stdout.readline() == b"up\\n"
    print(hosts.client.pid, hosts.server.pid, *(program.pid for program in started), flush=True)
    sys.stdin.readline()
    raise RuntimeError("as when a test fails")
"""


def processes_in(networks):
    """The processes in any of these namespaces, which exist as long as one is in them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # It has ended, or is another user's.
            if os.readlink(process / "ns/net") in networks:
                found.append(process.name)
    return found


@pytest.mark.parametrize("how", ["failed", signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left(hosts, script, how):
    process = script(RUN)
    pids = [int(pid) for pid in process.read_line().split()]
    networks = {os.readlink(f"/proc/{pid}/ns/net") for pid in pids}
    assert len(networks) == 2
    assert {str(pid) for pid in pids} <= set(processes_in(networks))
    ends = [os.pidfd_open(pid) for pid in pids]
    try:
        if how == "failed":
            process.write_line()
        else:
            process.send(how)
        for end in ends:
            assert select.select([end], [], [], 30)[0], "a process is still there"
    finally:
        for end in ends:
            os.close(end)
    process.finish(expect=None)
    assert processes_in(networks) == []
