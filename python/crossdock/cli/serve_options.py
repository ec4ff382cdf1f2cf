"""The options of `crossdock serve`, in sections. settings.py says how their values are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from crossdock.cli.options import ACCESS, SERVICE


def _option(section: str | None, help_: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help_, show_default=False, rich_help_panel=section, **more)


_LIMITS = "Limits and waiting"
_FLIGHT = "Arrow Flight"

Name = Annotated[
    list[str] | None,
    _option(
        None, "The name of a file's table; once for each file, in their order. Else: the file's stem.", metavar="NAME"
    ),
]
Uri = Annotated[
    list[str] | None,
    _option(
        None,
        "Where to listen, may be given more than once: 'shm:NAME' is a name of this user's own, "
        "'shm:/run/x.sock' a path; 'tcp:' picks a port of the loopback, 'tcp://*:7700' serves other machines, as "
        "'tcp+tls://*:7700', 'ucx://*:7700' and 'fabric://*:7700' do. Else: 'shm:' and the first table's name.",
        metavar="URI",
    ),
]
Stable = Annotated[
    str | None,
    _option(
        None,
        "'trust' that Arrow files don't change while they are served, or 'snapshot' them: one copy. Else: trust.",
        metavar="trust|snapshot",
    ),
]
ConfigFile = Annotated[
    Path | None,
    _option(
        SERVICE,
        "A configuration file (TOML). SIGHUP has it read again. What is given here as well wins; FILE... are served "
        "beside its tables.",
        metavar="FILE",
    ),
]
Check = Annotated[
    bool,
    _option(SERVICE, "Only check the configuration, the options and the files that they name, and end.", "--check"),
]
Stats = Annotated[
    str | None,
    _option(
        ACCESS,
        "'any': whoever may connect may read the server's statistics, as `crossdock top` does. Else: its own user, and "
        "over networks who has proved a token or a certificate.",
        metavar="any",
    ),
]
Window = Annotated[
    int | None,
    _option(_LIMITS, "Messages that a consumer may be behind before its stream pauses. Else: 64.", metavar="NUMBER"),
]
LeaseLimit = Annotated[
    str | None,
    _option(_LIMITS, "Memory of live streams that one consumer may hold, as 800M or 64G. Else: 1G.", metavar="SIZE"),
]
LeasePatience = Annotated[
    str | None,
    _option(
        _LIMITS,
        "Seconds that a consumer may stay at that limit before it gets batches by value, or 'none': no limit. Else: "
        "0.01.",
        metavar="SECONDS",
    ),
]
MaxLeases = Annotated[
    int | None,
    _option(
        _LIMITS,
        "Buffers that one connection may hold when it asks for another stream. Else: 1048576.",
        metavar="NUMBER",
    ),
]
MaxStreams = Annotated[
    int | None, _option(_LIMITS, "Streams that one consumer may have at once. Else: 1024.", metavar="NUMBER")
]
MaxConnections = Annotated[
    int | None,
    _option(_LIMITS, "Connections of all clients together; 0: no limit. Else: 1024.", metavar="NUMBER"),
]
SourceThreads = Annotated[int | None, _option(_LIMITS, "Threads that read live sources. Else: 64.", metavar="NUMBER")]
Wait = Annotated[
    str | None,
    _option(
        _LIMITS,
        "How the server's thread waits: 'block' sleeps, 'spin' never does, and uses a whole core, 'auto' spins "
        "for a short time. Else: auto.",
        metavar="auto|block|spin",
    ),
]
LimitsOf = Annotated[
    list[str] | None,
    _option(
        _LIMITS,
        "A limit of what a file may ask for, may be given more than once: max_depth, max_fields, max_buffers, "
        "max_metadata_bytes or max_decompressed_bytes.",
        metavar="NAME=NUMBER",
    ),
]
Users = Annotated[
    list[str] | None,
    _option(
        ACCESS,
        "A user who may connect over shm beside this one, by name or id, may be given more than once; or 'any'.",
        metavar="USER",
    ),
]
TokenFile = Annotated[
    Path | None,
    _option(
        ACCESS,
        "A file with the secret that clients must know over networks, which others mustn't be able to read. Wins over "
        "CROSSDOCK_TOKEN.",
        metavar="FILE",
    ),
]
TlsClientRoots = Annotated[
    Path | None,
    _option(
        ACCESS,
        "Over tcp+tls and grpc+tls: the certificates (PEM) of the issuers of clients; every client must have one of "
        "them.",
        metavar="FILE",
    ),
]
Flight = Annotated[
    str | None,
    _option(
        _FLIGHT,
        "'grpc://127.0.0.1:8815': also listens there as an Arrow Flight server, by which any Flight client finds and "
        "reads the tables; 'grpc://*:8815' at every address; 'grpc+tls:' encrypts.",
        metavar="URI",
    ),
]
Puts = Annotated[
    str | None,
    _option(
        _FLIGHT,
        "Take tables from clients: 'new' under names that aren't taken, 'replace' also in place of others.",
        metavar="new|replace",
    ),
]
MaxPut = Annotated[str | None, _option(_FLIGHT, "The most bytes of one such table. Else: 16G.", metavar="SIZE")]
LoginsFile = Annotated[
    Path | None,
    _option(
        _FLIGHT,
        "A file of users and hashes of their passwords, a line each, as `crossdock hash-password` prints them: who may "
        "log in.",
        metavar="FILE",
    ),
]
TicketKeys = Annotated[
    Path | None,
    _option(
        _FLIGHT,
        "A file of keys for tickets, a line of hexadecimal digits each. The first one signs, all of them check. Else: "
        "a random key.",
        metavar="FILE",
    ),
]
TicketLifetime = Annotated[
    float | None, _option(_FLIGHT, "Seconds for which a ticket may be used. Else: 300.", metavar="SECONDS")
]
LoginLifetime = Annotated[
    float | None, _option(_FLIGHT, "Seconds for which a login may be used. Else: 43200.", metavar="SECONDS")
]
