"""kill -9: C++ clients and servers, plain and under sanitizers, killed at random moments."""

from __future__ import annotations

from functools import partial

from bench import _peers
from tests.soak import peer, promises
from tests.soak.unit import Kind, Unit

from crossdock import _options

# An older UCX ends the whole process now and then if a peer is killed while the two connect: its own assertions in
# tcp_ep.c and async.c fail, with 1.13 once in some 9,000 kills of `soak_peer kill-clients` at `soak_peer serve ucx:`.
_FIRST_UCX = (1, 18)


def networks(build: str) -> list[str]:
    """The schemes over a network. Sanitizers don't see what the libraries of UCX and libfabric do in their memory."""
    libraries = [f"{one['transport']}:" for one in _options.networks() if one["found"]] if build == "dev" else []
    return ["tcp:", *libraries]


def networks_for_kills(build: str) -> list[str]:
    """Those whose library stands a peer that is killed at any moment."""
    return [scheme for scheme in networks(build) if scheme != "ucx:" or _peers.ucx_version() >= _FIRST_UCX]


def kill_clients(unit: Unit, build: str) -> None:
    scheme = unit.random.choice(["shm:", *networks_for_kills(build)])
    with peer.PeerServer("dev", [scheme]) as server:
        fresh = server.statistics()
        peer.drive(unit, build, "kill-clients", server.uris[0])
        promises.check_nothing_stays(unit, server, fresh)


def kill_servers(unit: Unit, build: str) -> None:
    (unit.folder / "servers").mkdir()
    uri = unit.random.choice([f"shm:{unit.folder}/s.sock", *networks_for_kills(build)])
    peer.drive(unit, build, "kill-servers", uri, str(unit.folder / "servers"))
    for left in [*unit.folder.glob("s.sock*"), *(unit.folder / "servers").iterdir()]:
        unit.finding(f"left behind by servers: {left.name}")


def _kinds(build: str) -> list[Kind]:
    suffix = "" if build == "dev" else f"-{build}"
    options = {"works": ("kills", "streams", "whole tables"), "missing": partial(peer.missing, build), "build": build}
    return [
        Kind(
            f"kill-clients{suffix}", f"kill -9 of C++ clients ({build})", partial(kill_clients, build=build), **options
        ),
        Kind(
            f"kill-servers{suffix}", f"kill -9 of C++ servers ({build})", partial(kill_servers, build=build), **options
        ),
    ]


KINDS = [kind for build in peer.BUILDS for kind in _kinds(build)]
