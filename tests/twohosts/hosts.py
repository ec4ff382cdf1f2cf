"""Two hosts, each with a network of its own, and a cable between them.

A host is a network namespace without a name, which exists as long as its processes. The process that keeps it ends with
this one, however this one ends, and so do the programs that are started in it: nothing can stay behind.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

SERVER_ADDRESS = "198.18.77.1"
CLIENT_ADDRESS = "198.18.77.2"
CABLE = "cable"  # Each end is the interface of that name in its host.

_TOOLS = {"ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux", "setpriv": "util-linux"}
# What nsenter, ip, tc and nft say of commands and modules that aren't there.
_MISSING = ("No such file or directory", "is unknown", "not supported", "not permitted")
_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
_AS_ROOT = ("unshare", "--net")
# UCX finds a host's interfaces in /sys, which shows those of the network that it was mounted in.
_WITH_ITS_SYSFS = ("unshare", "--mount", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "sh")
_AS_ANY_USER = ("unshare", "--user", "--map-root-user", "--net")


class CommandError(Exception):
    """A command failed; its text is the command and what it said."""


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": _PATH})
    if done.returncode != 0:
        raise CommandError(f"{' '.join(command)}: {' '.join(done.stderr.split())}")
    return done.stdout


@cache
def _how_to_unshare() -> tuple[Sequence[str], str]:
    """The command that makes a host; or none, and why there is none."""
    for tool, package in _TOOLS.items():
        if shutil.which(tool, path=_PATH) is None:
            return (), f"two hosts need the command {tool} (package {package})"
    why = ""
    for unshare in (_AS_ROOT, _AS_ANY_USER):
        try:
            run(*unshare, "ip", "link", "add", CABLE, "type", "veth", "peer", "name", "other")
            return unshare, ""
        except CommandError as error:
            why = f"two hosts can't be made here: {error}"
    return (), why


def why_not() -> str:
    """Why no hosts can be made here, in one line; empty if they can."""
    return _how_to_unshare()[1]


class Host:
    """A network. `within` begins a command that runs in it, and that ends with the thread that starts it."""

    def __init__(self, beside: Host | None = None) -> None:
        """`beside`: a host that the new one is to be joined with."""
        # A cable needs rights in both networks: both belong to one user namespace.
        command = _how_to_unshare()[0] if beside is None else (*beside._enter, *_AS_ROOT)
        self._keeper = subprocess.Popen(
            [*command, "sh", "-c", "echo ready && exec cat"],  # Ends when this process does: its input ends then.
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PATH": _PATH},
        )  # fmt: skip
        assert self._keeper.stdout is not None
        if self._keeper.stdout.readline() != "ready\n":
            self.remove()
            raise CommandError(f"{' '.join(command)} failed")
        self.pid = self._keeper.pid
        user = () if _how_to_unshare()[0] == _AS_ROOT else ("--user", "--preserve-credentials")
        self._enter = ("nsenter", "--target", str(self.pid), *user, "--net")
        self.within = (*self._enter, *_WITH_ITS_SYSFS, "setpriv", "--pdeathsig", "KILL")
        try:
            self.run("ip", "link", "set", "lo", "up")
        except BaseException:
            self.remove()
            raise

    def run(self, *command: str) -> str:
        """Runs a command in this host; what it printed."""
        return run(*self._enter, *command)

    def wait_for_cable(self) -> None:
        """Waits until the system has seen both ends up, until when UCX doesn't use it."""
        deadline = time.monotonic() + 10
        while json.loads(self.run("ip", "-json", "link", "show", CABLE))[0]["operstate"] != "UP":
            if time.monotonic() > deadline:
                raise CommandError("the cable doesn't come up")
            time.sleep(0.01)

    def received(self) -> int:
        """Bytes that came out of the cable so far."""
        lines = Path(f"/proc/{self.pid}/net/dev").read_text()
        found = re.search(rf"^ *{CABLE}: *(\d+)", lines, re.MULTILINE)
        assert found is not None, lines
        return int(found[1])

    def remove(self) -> None:
        self._keeper.kill()
        self._keeper.communicate()


def _run_or_skip(host: Host, *command: str) -> None:
    """Skips the test if this system has no such command, or its kernel no module for it."""
    try:
        host.run(*command)
    except CommandError as error:
        if not any(words in str(error) for words in _MISSING):
            raise
        pytest.skip(f"no such network can be made here: {error}")


class TwoHosts:
    """A host for servers, one for clients, and a cable. A context manager."""

    def __init__(self) -> None:
        self.client = Host()
        try:
            self._start_server_host()
        except BaseException:
            self.client.remove()
            raise

    def _start_server_host(self) -> None:
        self.server = Host(beside=self.client)
        try:
            self.client.run(
                *("ip", "link", "add", CABLE, "type", "veth"),
                *("peer", "name", CABLE, "netns", str(self.server.pid)),
            )
            for host, address in ((self.client, CLIENT_ADDRESS), (self.server, SERVER_ADDRESS)):
                host.run("ip", "address", "add", f"{address}/30", "dev", CABLE)
                host.run("ip", "link", "set", CABLE, "up")
            for host in (self.client, self.server):
                host.wait_for_cable()
        except BaseException:
            self.server.remove()
            raise

    def pull_cable(self) -> None:
        self.server.run("ip", "link", "set", CABLE, "down")

    def plug_cable_in(self) -> None:
        self.server.run("ip", "link", "set", CABLE, "up")

    def limit_rate(self, rate: str) -> None:
        """Lets so many bits a second leave the server's host, for example "200mbit"."""
        limit = ("root", "tbf", "rate", rate, "burst", "64kb", "latency", "50ms")
        _run_or_skip(self.server, "tc", "qdisc", "replace", "dev", CABLE, *limit)

    def delayed_packets(self) -> int:
        """How often that limit made a packet wait."""
        (queue,) = json.loads(self.server.run("tc", "-json", "-statistics", "qdisc", "show", "dev", CABLE))
        return int(queue["overlimits"])

    def lose_packets(self) -> None:
        """Drops every packet that comes out of the cable with a probability of 1 %, at both ends."""
        rule = f"iifname {CABLE} numgen random mod 100 == 0 counter drop"
        table = f"table inet loss {{ chain input {{ type filter hook input priority 0; {rule}; }}; }}"
        for host in (self.server, self.client):
            # The system would pass 64 KiB through the cable as one packet.
            _run_or_skip(host, "ip", "link", "set", CABLE, "gso_max_segs", "1")
            _run_or_skip(host, "nft", table)

    def lost_packets(self) -> int:
        """How many were dropped."""
        lists = [host.run("nft", "list", "table", "inet", "loss") for host in (self.server, self.client)]
        return sum(int(count) for listed in lists for count in re.findall(r"counter packets (\d+)", listed))

    def replace_server_host(self) -> None:
        """Has the server's host vanish without a word, with its programs' connections, and another take its address."""
        self.pull_cable()
        self.client.run("ip", "link", "delete", CABLE)
        self.server.remove()
        self._start_server_host()

    def remove(self) -> None:
        self.server.remove()
        self.client.remove()

    def __enter__(self) -> TwoHosts:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()
