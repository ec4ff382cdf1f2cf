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
        None,
        "The name of a file's table; once for each file, in the order of the files. Default: the file's name without "
        "its ending.",
        metavar="NAME",
    ),
]
Uri = Annotated[
    list[str] | None,
    _option(
        None,
        "Where to listen; may be given more than once. 'shm:NAME' is a name among this user's servers, "
        "'shm:/run/x.sock' is a path. 'tcp:' picks a port of the loopback. 'tcp://*:7700' serves other machines, and "
        "so do 'tcp+tls://*:7700', 'ucx://*:7700' and 'fabric://*:7700'. Default: 'shm:' and the first table's name.",
        metavar="URI",
    ),
]
Stable = Annotated[
    str | None,
    _option(
        None,
        "'trust': Arrow files are expected not to change while they are served. 'snapshot': each one is copied first. "
        "Default: trust.",
        metavar="trust|snapshot",
    ),
]
ConfigFile = Annotated[
    Path | None,
    _option(
        SERVICE,
        "A configuration file (TOML). SIGHUP makes the server read it again. Options of the command line replace those "
        "of the file. Each FILE is served in addition to the tables of the file.",
        metavar="FILE",
    ),
]
Check = Annotated[
    bool,
    _option(
        SERVICE, "Only check the configuration, the options and the files that they name. Nothing is served.", "--check"
    ),
]
Stats = Annotated[
    str | None,
    _option(
        ACCESS,
        "'any': every client may read the server's statistics, as `crossdock top` does. Default: only clients of its "
        "own user, and over networks those that have proved a token or a certificate.",
        metavar="any",
    ),
]
Window = Annotated[
    int | None,
    _option(
        _LIMITS, "Messages that may wait for a slow consumer before its stream pauses. Default: 64.", metavar="NUMBER"
    ),
]
LeaseLimit = Annotated[
    str | None,
    _option(
        _LIMITS, "Memory of live streams that one consumer may hold, such as 800M or 64G. Default: 1G.", metavar="SIZE"
    ),
]
LeasePatience = Annotated[
    str | None,
    _option(
        _LIMITS,
        "Seconds that a consumer may stay at --lease-limit before it gets copies of batches instead; 'none': no limit. "
        "Default: 0.01.",
        metavar="SECONDS",
    ),
]
MaxLeases = Annotated[
    int | None,
    _option(
        _LIMITS,
        "Buffers that one connection may hold when it asks for another stream. Default: 1048576.",
        metavar="NUMBER",
    ),
]
MaxStreams = Annotated[
    int | None, _option(_LIMITS, "Streams that one consumer may have at once. Default: 1024.", metavar="NUMBER")
]
MaxConnections = Annotated[
    int | None,
    _option(_LIMITS, "Connections of all clients together; 0: no limit. Default: 1024.", metavar="NUMBER"),
]
SourceThreads = Annotated[
    int | None, _option(_LIMITS, "Threads that read live sources. Default: 64.", metavar="NUMBER")
]
Wait = Annotated[
    str | None,
    _option(
        _LIMITS,
        "How the server's thread waits. 'block' sleeps. 'spin' never sleeps, and uses a whole core. 'auto' spins for a "
        "short time, then sleeps. Default: auto.",
        metavar="auto|block|spin",
    ),
]
LimitsOf = Annotated[
    list[str] | None,
    _option(
        _LIMITS,
        "A limit on what a file may contain; may be given more than once. NAME is max_depth, max_fields, max_buffers, "
        "max_metadata_bytes or max_decompressed_bytes.",
        metavar="NAME=NUMBER",
    ),
]
Users = Annotated[
    list[str] | None,
    _option(
        ACCESS,
        "A user, by name or id, who may connect over shm, in addition to this one; may be given more than once. 'any': "
        "every user.",
        metavar="USER",
    ),
]
TokenFile = Annotated[
    Path | None,
    _option(
        ACCESS,
        "A file with the secret that clients over networks must know. Other users must not be able to read the file. "
        "Replaces CROSSDOCK_TOKEN.",
        metavar="FILE",
    ),
]
TlsClientRoots = Annotated[
    Path | None,
    _option(
        ACCESS,
        "Over tcp+tls and grpc+tls: the certificates (PEM) of issuers. Every client must then have a certificate of "
        "one of these issuers.",
        metavar="FILE",
    ),
]
Flight = Annotated[
    str | None,
    _option(
        _FLIGHT,
        "Also listen here as an Arrow Flight server, where every Flight client can find and read the tables. "
        "'grpc://127.0.0.1:8815' is one address, 'grpc://*:8815' is every address of this machine; 'grpc+tls:' "
        "encrypts.",
        metavar="URI",
    ),
]
Puts = Annotated[
    str | None,
    _option(
        _FLIGHT,
        "Take tables from Flight clients. 'new': only under names that aren't taken. 'replace': also in place of the "
        "table that has the name. Default: take none.",
        metavar="new|replace",
    ),
]
MaxPut = Annotated[
    str | None, _option(_FLIGHT, "The most bytes of one table of a client. Default: 16G.", metavar="SIZE")
]
LoginsFile = Annotated[
    Path | None,
    _option(
        _FLIGHT,
        "A file of the users who may log in. Each line is a name and the hash of a password, as `crossdock "
        "hash-password` prints it.",
        metavar="FILE",
    ),
]
TicketKeys = Annotated[
    Path | None,
    _option(
        _FLIGHT,
        "A file of keys that sign tickets. Each line is a key in hexadecimal digits. The first key signs; tickets of "
        "all keys are accepted. Default: a random key.",
        metavar="FILE",
    ),
]
TicketLifetime = Annotated[
    float | None, _option(_FLIGHT, "Seconds for which a ticket may be used. Default: 300.", metavar="SECONDS")
]
LoginLifetime = Annotated[
    float | None, _option(_FLIGHT, "Seconds for which a login may be used. Default: 43200.", metavar="SECONDS")
]
