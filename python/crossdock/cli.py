"""The command `crossdock`: serves files, relays servers, gets tables, lists and inspects both, checks exports, lists
devices."""

from __future__ import annotations

import importlib
import logging
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import crossdock as xd
from crossdock import _inspect, _loading, _native, _options, _tensors
from crossdock._names import parsed_name, shown_name
from crossdock._options import checked_name
from crossdock._table import table_lines, terminal_width, wrapped
from crossdock._text import shown

if TYPE_CHECKING:
    pass

OK, FAILED, USAGE, NOT_FOUND, NO_CONNECTION, DAMAGED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
NO_READER = 128 + signal.SIGPIPE

_EXIT_CODES = """
Exit codes: 0 done; 1 failed (the error's name is on stderr); 2 wrong usage or a malformed URI; 3 the name or a file was
not found; 4 no connection, or out of time; 5 the data was truncated or changed on the way; 130 interrupted;
141 the reader of the output ended first, as in `| head`.
"""

# The first class that matches decides.
_CODE_OF: tuple[tuple[type[BaseException], int], ...] = (
    (xd.TruncatedStreamError, DAMAGED),
    (xd.FileChangedError, DAMAGED),
    (xd.NotFoundError, NOT_FOUND),
    (xd.UriError, USAGE),
    (xd.SchemeError, USAGE),
    (xd.InvalidArgumentError, USAGE),
    (xd.ConnectionError, NO_CONNECTION),
    (xd.HandshakeError, NO_CONNECTION),
    (xd.TimeoutError, NO_CONNECTION),
    (xd.Error, FAILED),
    (FileNotFoundError, NOT_FOUND),
    (OSError, FAILED),
    (ValueError, FAILED),  # pyarrow's errors, among others
)

_TOKEN = """
Environment: CROSSDOCK_TOKEN is the secret that servers ask for over tcp, tcp+tls, ucx, fabric and Flight, and
clients prove to know (by Flight, they send it). CROSSDOCK_LOGIN, as in ada:PASSWORD, is for Flight servers that have
logins.
"""

_Checksum = Annotated[
    bool | None,
    typer.Option(
        "--checksum/--no-checksum",
        help="Over tcp, tell bytes that the network changed from data (CRC-32C). Else: as the other end asks.",
        show_default=False,
    ),
]

_TlsCertificate = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Over tcp+tls and grpc+tls: this end's certificate (PEM), and after it those of its issuers. A server "
        "needs one.",
        show_default=False,
    ),
]

_TlsKey = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The private key of the certificate (PEM), not encrypted.", show_default=False),
]

_TlsRoots = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Over tcp+tls and grpc+tls: the certificates (PEM) of the trusted issuers. Else: those that the system "
        "trusts.",
        show_default=False,
    ),
]

_RemoteReads = Annotated[
    str | None,
    typer.Option(
        help="'trusted': over ucx, with peers strictly as specified, bodies are read from memory. Every process that "
        "reaches this one can then read and write all of its memory.",
        show_default=False,
    ),
]

app = typer.Typer(
    help="Hands tables and tensors over between processes, without a copy where that is possible.",
    rich_markup_mode=None,  # plain help: rich's boxes break lines, and show a type for flags
    epilog=_TOKEN + _EXIT_CODES,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_enable=False,
)
_debug = False


class _MissingPackageError(Exception):
    """An optional package is needed."""


def _one_line(text: str) -> str:
    """Joins the lines of a text. An indented line is an item of a list."""
    joined = ""
    for line in text.splitlines():
        words = " ".join(line.split())
        if joined and words and joined[-1] not in ".,:;!?":
            if line[0].isspace():
                joined += ";"
            elif words[0].isupper():
                joined += "."
        joined += f" {words}" if joined and words else words
    return joined


def _error_line(name: str, error: object) -> None:
    text = f"{name}: {shown(_one_line(str(error)))}"
    print(wrapped(text, terminal_width(sys.stderr)), file=sys.stderr)


def _report_error(error: BaseException) -> None:
    """Prints an error in one line, or with --debug its traceback."""
    if not _debug:
        _error_line(type(error).__name__, error)
        return
    for line in "".join(traceback.format_exception(error)).splitlines():
        print(shown(line), file=sys.stderr)


@contextmanager
def _reported() -> Iterator[None]:
    """Turns errors into one line on stderr and an exit code."""
    try:
        yield
        sys.stdout.flush()  # Raises BrokenPipeError if the output has no reader any more.
    except KeyboardInterrupt:
        with suppress(OSError):  # After SIGHUP the terminal may be closed.
            print("Interrupted", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    except _MissingPackageError as error:
        _error_line("MissingPackage", error)
        raise typer.Exit(FAILED) from None
    except BrokenPipeError:
        # The output has no reader any more: print nothing, and flush nothing to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(NO_READER) from None
    except tuple(kind for kind, _ in _CODE_OF) as error:
        _report_error(error)
        raise typer.Exit(next(code for kind, code in _CODE_OF if isinstance(error, kind))) from None


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Set[int] = frozenset()) -> int:
    """Prints a table of foreign texts. Returns the number of columns that were left out."""
    safe = [[shown(cell) for cell in row] for row in (header, *rows)]
    lines, left_out = table_lines(safe[0], safe[1:], right=right, width=terminal_width())
    for line in lines:
        print(line)
    return left_out


def _print_left_out(columns: int, rows: int = 0, hint: str = "") -> None:
    """Prints a line under a table that doesn't show so many columns and rows. Prints nothing if it shows all."""
    parts = [_inspect.counted(count, f"more {one}") for count, one in ((rows, "row"), (columns, "column")) if count]
    if parts:
        print(wrapped(f"... and {', '.join(parts)}{hint}", terminal_width()))


def _pyarrow_for(path: Path, doing: str) -> Any:
    """Imports pyarrow and its module for this file, which takes longer than writing a small table."""
    try:
        import pyarrow
    except ImportError:
        raise _MissingPackageError(f"{doing} {path} needs pyarrow: pip install pyarrow") from None
    if path.suffix.lower() in (".parquet", ".csv"):
        importlib.import_module(f"pyarrow.{path.suffix.lower()[1:]}")
    return pyarrow


def _is_network(uri: str) -> bool:
    return _options.scheme_of(uri) in ("tcp", "tcp+tls", "ucx", "fabric", "grpc", "grpc+tls")


def _token(uris: Iterable[str]) -> str | None:
    """Returns the token of the environment if one of the URIs is for a network. It isn't an option, because other users
    can see command lines. The variable is set for all commands, and must not be an error where no URI needs it."""
    if not any(_is_network(uri) for uri in uris):
        return None
    token = os.environ.get("CROSSDOCK_TOKEN")
    if token == "":
        raise xd.InvalidArgumentError("CROSSDOCK_TOKEN is empty: set it, or unset it")
    return token


def _login(uris: Iterable[str]) -> tuple[str, str] | None:
    """Returns the login of the environment if one of the URIs is a Flight server's, as `_token()` does."""
    if not any(_options.scheme_of(uri).startswith("grpc") for uri in uris):
        return None
    login = os.environ.get("CROSSDOCK_LOGIN")
    if login is None:
        return None
    user, colon, password = login.partition(":")
    if not user or not colon:
        raise xd.InvalidArgumentError("CROSSDOCK_LOGIN must be a user name, a colon and a password, as in ada:PASSWORD")
    return user, password


def _check_checksum(uris: Iterable[str], checksum: bool | None) -> None:
    _options.check_checksum(uris, checksum, "--checksum", "--checksum")


def _tls(
    uris: Iterable[str],
    certificate: Path | None,
    key: Path | None,
    *,
    roots: Path | None = None,
    client_roots: Path | None = None,
) -> xd.TLS | None:
    """Returns what the options of TLS say. They are an error where no URI needs them."""
    given = {"certificate": certificate, "key": key, "roots": roots, "client_roots": client_roots}
    option = next((f"--tls-{name.replace('_', '-')}" for name, file in given.items() if file is not None), None)
    if option is None:
        return None
    tls = xd.TLS(certificate=certificate, key=key, roots=roots, client_roots=client_roots)
    _options.check_tls(uris, tls, option)
    return tls


def _refuse_remote_handle(uri: str) -> None:
    """Refuses a URI with a remote_handle, for commands that have no --remote-reads."""
    if "remote_handle=" in uri.partition("?")[2]:
        raise xd.UnsupportedError(
            "the URI has a remote_handle, which only `crossdock get --remote-reads trusted` takes; of a server of "
            "Crossdock's, give the URI that `crossdock serve` prints"
        )


def _trusted(remote_reads: str | None) -> Literal["trusted"] | None:
    if remote_reads not in (None, "trusted"):
        raise typer.BadParameter(f"'trusted', not {remote_reads!r}", param_hint="--remote-reads")
    return "trusted" if remote_reads else None


def _connect(
    uri: str,
    timeout: float,
    checksum: bool | None = None,
    remote_reads: Literal["trusted"] | None = None,
    tls: xd.TLS | None = None,
) -> xd.Client:
    _check_checksum([uri], checksum)
    try:
        return xd.connect(
            uri,
            timeout=timeout,
            token=_token([uri]),
            login=_login([uri]),
            checksum=checksum,
            remote_reads=remote_reads,
            tls=tls,
        )
    except xd.NotFoundError as error:
        # A missing socket means that there is no server. "Not found" is only used for names in a server's catalog.
        raise xd.ConnectionError(str(error)) from None


class _LogLine(logging.Formatter):
    """Formats a record on one line, without control sequences of terminals, because it may contain text of peers."""

    def format(self, record: logging.LogRecord) -> str:
        return shown(super().format(record))


class _LogLimit(logging.Filter):
    """Passes at most `MOST` records in `SECONDS`, and then says how many were dropped: a peer must not fill a disk."""

    MOST = 20
    SECONDS = 10.0

    def __init__(self) -> None:
        super().__init__()
        self._start = time.monotonic()
        self._count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._start >= self.SECONDS:
            left_out = self._count - self.MOST
            self._start, self._count = now, 0
            if left_out > 0:
                record.msg = f"{record.getMessage()} (before it {_inspect.counted(left_out, 'more line')} not shown)"
                record.args = ()
        self._count += 1
        return self._count <= self.MOST


def _set_up_logging(debug: bool) -> None:
    """Logs to stderr: warnings, or with `debug` everything."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        _LogLine("%(asctime)s %(name)s %(levelname)s %(message)s")
        if debug
        else _LogLine("%(asctime)s %(levelname)s: %(message)s", "%Y-%m-%d %H:%M:%S")
    )
    if not debug:
        handler.addFilter(_LogLimit())
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[handler])


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"crossdock {xd.__version__}")
        raise typer.Exit(OK)


@app.callback()
def _common(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback with an error, and log everything.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    global _debug
    _debug = debug
    _set_up_logging(debug)


# ---- serve ----


class _StoppedError(Exception):
    """The program is to end."""


def _publish(server: xd.Server, name: str | bytes, path: Path, stable: str, stop: threading.Event) -> None:
    """Publishes a file. Shows on a terminal how much of it was read, and how long the rest may take, if it isn't passed
    as it lies. Returns early when the program is to end."""
    if not _loading.is_loadable(path, "auto"):
        server.publish(name, path, stable=stable)  # type: ignore[arg-type]
        return
    console = Console(stderr=True, emoji=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown_progress:
        task = shown_progress.add_task(escape(f"reading {shown(path.name)}"), total=1.0)

        def said(part: float) -> None:
            if stop.is_set():
                raise _StoppedError
            shown_progress.update(task, completed=part)

        try:
            _pyarrow_for(path, "reading").enable_signal_handlers(False)  # ours end the reading
            server._publish_loaded(checked_name(name), _loading.load(path, said))
        except _StoppedError:
            return


def _on_end(handler: Any) -> None:
    """Sets the handler of SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal is closed). Leaves SIGHUP ignored if nohup
    has set that."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


_MOST_OF_A_NAME = 40  # A server's name has at most 48 bytes, and a number may be appended.
_MOST_NAMES = 100


def _server_name(table: str | bytes) -> str:
    """Makes a server's name from a table's: letters, digits, '.', '_' and '-', of which the first is a letter or
    digit."""
    name = (
        re.sub(r"[^A-Za-z0-9._]+", "-", table if isinstance(table, str) else "")
        .lstrip("._-")[:_MOST_OF_A_NAME]
        .rstrip("-")
    )
    return name or "tables"


def _name(text: str, hint: str) -> str | bytes:
    try:
        return parsed_name(text)
    except xd.InvalidArgumentError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from None


def _server_at(
    uris: list[str],
    checksum: bool | None,
    remote_reads: Literal["trusted"] | None,
    flight: str | None,
    tls: xd.TLS | None,
) -> xd.Server:
    _check_checksum(uris, checksum)
    token = _token([*uris, flight] if flight else uris)
    try:
        return xd.serve(uri=uris, token=token, checksum=checksum, remote_reads=remote_reads, flight=flight, tls=tls)
    except xd.NotFoundError as error:
        # A host that isn't there, or an address that this machine doesn't have, as of the commands that connect: the
        # text begins with the scheme. Else it is the folder of a socket.
        if not _is_network(str(error)):
            raise
        raise xd.ConnectionError(str(error)) from None


def _server_at_a_name(table: str | bytes, checksum: bool | None, flight: str | None, tls: xd.TLS | None) -> xd.Server:
    """Starts a server at the table's name, or at that name with the first free number, from 2 on."""
    _check_checksum(["shm:"], checksum)
    name = _server_name(table)
    token = _token([flight]) if flight else None
    for number in range(1, _MOST_NAMES):
        uri = f"shm:{name}" if number == 1 else f"shm:{name}-{number}"
        try:
            server = xd.serve(uri=uri, token=token, flight=flight, tls=tls)
        except xd.ConnectionError as error:
            if flight is not None and flight in str(error):
                raise
            continue  # A running server uses this name.
        if number > 1:
            print(f"shm:{name} is in use by another server of yours; this one is {uri}", file=sys.stderr)
        return server
    raise xd.ConnectionError(f"shm:{name} and all of its numbers are in use: choose a name with --uri shm:NAME")


@app.command(short_help="Serves the tables in files, until Ctrl-C.", epilog=_TOKEN + _EXIT_CODES)
def serve(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Arrow IPC files (served as they lie: no copy), or Parquet, CSV and JSON-lines files and folders of "
            "them (read with pyarrow, into shared memory).",
            show_default=False,
        ),
    ],
    name: Annotated[
        list[str] | None,
        typer.Option(help="The name of a file's table; once for each file, in their order. Else: the file's stem."),
    ] = None,
    uri: Annotated[
        list[str] | None,
        typer.Option(
            help="Where to listen, may be given more than once: 'shm:NAME' is a name of this user's own, "
            "'shm:/run/x.sock' a path; 'tcp:' picks a port of the loopback, 'tcp://*:7700' serves other machines, as "
            "'tcp+tls://*:7700', 'ucx://*:7700' and 'fabric://*:7700' do. Else: 'shm:' and the first table's name.",
            show_default=False,
        ),
    ] = None,
    stable: Annotated[
        str,
        typer.Option(help="'trust' that Arrow files don't change while they are served, or 'snapshot' them: one copy."),
    ] = "trust",
    flight: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="'grpc://127.0.0.1:8815': also listens there as an Arrow Flight server, by which any Flight client "
            "finds and reads the tables; 'grpc://*:8815' at every address; 'grpc+tls:' encrypts.",
            show_default=False,
        ),
    ] = None,
    checksum: _Checksum = None,
    remote_reads: _RemoteReads = None,
    tls_certificate: _TlsCertificate = None,
    tls_key: _TlsKey = None,
    tls_client_roots: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Over tcp+tls and grpc+tls: the certificates (PEM) of the issuers of clients; every client must have "
            "one of them.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serves the tables in FILE... until Ctrl-C, SIGTERM or SIGHUP. Prints the URI to connect to; each of several on a
    line."""
    names = [_name(one, "--name") for one in name or ()] or [path.resolve().stem for path in files]
    if len(names) != len(files):
        raise typer.BadParameter(f"{len(files)} files need as many names, not {len(names)}", param_hint="--name")
    if len(set(names)) != len(names):
        twice = next(one for one in names if names.count(one) > 1)
        raise typer.BadParameter(
            f"{twice!r} would be served twice; give different names with --name", param_hint="--name"
        )
    if stable not in ("trust", "snapshot"):
        raise typer.BadParameter(f"'trust' or 'snapshot', not {stable!r}", param_hint="--stable")
    trusted = _trusted(remote_reads)
    if trusted and not any(one.lower().startswith("ucx:") for one in uri or ()):
        raise typer.BadParameter("is for ucx: give --uri ucx://...", param_hint="--remote-reads")

    with _reported():
        tls = _tls(
            [*(uri or ["shm:"]), *([flight] if flight else [])], tls_certificate, tls_key, client_roots=tls_client_roots
        )

    stop = threading.Event()
    # Set before the URI is printed: a program that reads the URI may stop the server at once.
    _on_end(lambda *_: stop.set())
    with (
        _reported(),
        _server_at(uri, checksum, trusted, flight, tls)
        if uri
        else _server_at_a_name(names[0], checksum, flight, tls) as server,
    ):
        for one, path in zip(names, files, strict=True):
            if stop.is_set():
                return
            _publish(server, one, path, stable, stop)
        if stop.is_set():
            return
        for one in (*server.uris, *([server.flight_uri] if server.flight_uri else [])):
            print(one, flush=True)
        for one in names if trusted else ():
            try:
                location = server.location(one)
            except xd.UnsupportedError as error:
                location = str(error)
            print(f"{shown(shown_name(one))}: {shown(location)}", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print(f"Ctrl-C ends it. From another shell: crossdock ls {server.uri}", file=sys.stderr)
        # Wakes regularly, so that log lines of the server's thread are delivered.
        while not stop.wait(0.5):
            pass


# ---- relay ----


@app.command(short_help="Fetches tables once for all processes of this machine.", epilog=_TOKEN + _EXIT_CODES)
def relay(
    upstream: Annotated[
        list[str],
        typer.Argument(
            metavar="URI",
            help="The server to fetch from, as it printed it. Several: the first that answers, and another one if its "
            "server ends.",
            show_default=False,
        ),
    ],
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URI",
            help="Where to listen, may be given more than once, as `crossdock serve --uri`. Other relays can fetch "
            "from a relay at a network. Else: 'shm:', which picks a name.",
            show_default=False,
        ),
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="The most memory for tables, as 800M, 64G or a number of bytes (K, M, G and T are powers of 1024). "
            "What was not asked for the longest goes first. Else: a quarter of the machine's.",
            show_default=False,
        ),
    ] = None,
    max_age: Annotated[
        float, typer.Option(min=0, help="Seconds to serve what is held without asking whether it has changed.")
    ] = 0.0,
    stale: Annotated[
        bool, typer.Option("--stale/--no-stale", help="Serve what is held while the server can't be reached.")
    ] = True,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to connect in, and that each answer and batch of the server may take.")
    ] = 10.0,
    checksum: _Checksum = None,
    tls_roots: _TlsRoots = None,
    tls_certificate: _TlsCertificate = None,
    tls_key: _TlsKey = None,
) -> None:
    """Fetches what the processes of this machine ask for from a server, once, and serves it to all of them, until
    Ctrl-C, SIGTERM or SIGHUP. Prints the URI to connect to; each of several on a line."""
    uris = at or ["shm:"]
    memory = None if max_memory is None else _bytes(max_memory, "--max-memory")
    stop = threading.Event()
    # Set before the URI is printed: a program that reads the URI may stop the relay at once.
    _on_end(lambda *_: stop.set())
    with _reported():
        for uri in upstream:
            _refuse_remote_handle(uri)
        tls = _tls([*upstream, *uris], tls_certificate, tls_key, roots=tls_roots)
        _check_checksum(upstream, checksum)
        try:
            made = xd.relay(
                upstream,
                uris,
                max_memory=memory,
                max_age=max_age,
                stale=stale,
                timeout=timeout,
                token=_token([*upstream, *uris]),
                login=_login(upstream),
                checksum=checksum,
                tls=tls,
            )
        except xd.NotFoundError as error:
            # No server is there, as of the commands that connect; or the folder of a socket to listen at.
            raise xd.ConnectionError(str(error)) from None
        with made:
            for one in made.uris:
                print(one, flush=True)
            if sys.stderr.isatty():
                print(f"Ctrl-C ends it. From another shell: crossdock ls {made.uri}", file=sys.stderr)
            # Wakes regularly, so that log lines of the relay's threads are delivered.
            while not stop.wait(0.5):
                pass


_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def _bytes(text: str, hint: str) -> int:
    """Converts a size such as 64G to bytes."""
    found = re.fullmatch(r"([0-9]{1,18})([KMGT]?)", text.strip().upper())
    if found is None or int(found[1]) == 0:
        raise typer.BadParameter(f"a size is a number from 1 on, or such as 800M or 64G, not {text!r}", param_hint=hint)
    return int(found[1]) << _UNITS[found[2]]


# ---- get ----


_FORMATS = (".arrow", ".arrows", ".feather", ".parquet", ".csv")
_TENSOR_FORMATS = (".npy",)


def _check_format(target: Path) -> None:
    if target.is_dir():
        raise typer.BadParameter(f"{shown(str(target))} is a folder; give a file in it", param_hint="--output")
    if target.suffix.lower() not in _FORMATS + _TENSOR_FORMATS:
        raise typer.BadParameter(
            f"{target} must end in {', '.join(_FORMATS)}, or of a tensor in {_TENSOR_FORMATS[0]}: the ending selects "
            "the format",
            param_hint="--output",
        )


def _check_content(target: Path, kind: str) -> None:
    """Refuses a file whose format is for the other content: tables or tensors."""
    for_tensors = target.suffix.lower() in _TENSOR_FORMATS
    if for_tensors != (kind != "table"):
        formats = _FORMATS if for_tensors else _TENSOR_FORMATS
        what = "a table is" if kind == "table" else "a tensor is" if kind == "tensor" else "several tensors are"
        raise typer.BadParameter(
            f"{target} can't hold what is served: {what} (a file of {', '.join(formats)} may)", param_hint="--output"
        )


def _open(path: Path, suffix: str, schema: Any, pyarrow: Any) -> Any:
    """Opens pyarrow's writer for the format that the suffix names."""
    match suffix:
        case ".arrow" | ".feather":
            return pyarrow.ipc.new_file(str(path), schema)
        case ".arrows":
            return pyarrow.ipc.new_stream(str(path), schema)
        case ".parquet":
            return pyarrow.parquet.ParquetWriter(str(path), schema)
        case _:
            return pyarrow.csv.CSVWriter(str(path), schema)


def _write(target: Path, schema: xd.Schema, batches: Iterable[xd.RecordBatch]) -> None:
    """Writes batches to a file, which gets its final name when it is complete.

    This is one function, not an object with a method for each step: an interrupt may come between any two instructions,
    and the `finally` that removes the partial file must enclose all of them.
    """
    pyarrow = _pyarrow_for(target, "writing")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with _open(partial, target.suffix.lower(), pyarrow.schema(schema), pyarrow) as sink:
            for batch in batches:
                sink.write_batch(pyarrow.record_batch(batch))
        partial.replace(target)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError, pyarrow.ArrowTypeError) as error:
        raise xd.UnsupportedTypeError(
            f"{target} can't hold this table: {error}; .arrow holds every type, and --columns A,B leaves columns out"
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


class _Meter:
    """Counts the received data. Shows a progress bar on a terminal; summary() is a line for the end."""

    def __init__(self, name: str | bytes, rows: int | None) -> None:
        self.rows = self.bytes = self.batches = 0
        self._name = shown_name(name)
        self._start = time.monotonic()
        self._shown = 0.0
        console = Console(stderr=True, emoji=False)
        self._progress = (
            Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,} rows  {task.fields[size]}  {task.fields[rate]}/s"),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
            if console.is_terminal
            else None
        )
        if self._progress is not None:
            self._task = self._progress.add_task(escape(shown(self._name)), total=rows, size="0 B", rate="0 B")

    def add(self, batch: xd.RecordBatch) -> None:
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        self.batches += 1
        now = time.monotonic()
        if self._progress is not None and now - self._shown > 0.1:
            self._shown = now
            self._progress.update(
                self._task, completed=self.rows, size=_size(self.bytes), rate=_size(self.bytes / self._seconds())
            )

    def counting(self, batches: Iterable[xd.RecordBatch]) -> Iterator[xd.RecordBatch]:
        for batch in batches:
            self.add(batch)
            yield batch

    def _seconds(self) -> float:
        return max(time.monotonic() - self._start, 1e-6)

    def summary(self) -> str:
        seconds = self._seconds()
        return (
            f"{shown(self._name)}: {_inspect.counted(self.rows, 'row')} in "
            f"{_inspect.counted(self.batches, 'batch', 'batches')}, {_size(self.bytes)}, "
            f"{seconds:.3f} s, {_size(self.bytes / seconds)}/s"
        )

    def __enter__(self) -> _Meter:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()


_HEAD_ROWS = 10


def _print_head(batches: list[xd.RecordBatch], rows: int) -> None:
    """Prints the first of `rows` rows, if pyarrow is installed, which is needed to read them."""
    try:
        import pyarrow
    except ImportError:
        print("(the first rows are shown where pyarrow is installed: pip install pyarrow)")
        return
    if not batches or not len(batches[0].schema):
        return
    head = pyarrow.Table.from_batches([pyarrow.record_batch(batch) for batch in batches]).slice(0, _HEAD_ROWS)
    numbers = {
        i for i, kind in enumerate(head.schema.types)
        if pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_decimal(kind)
    }  # fmt: skip
    values = zip(*(column.to_pylist() for column in head.columns), strict=True)
    left_out = _print_table(
        head.column_names, [["null" if value is None else str(value) for value in row] for row in values], numbers
    )
    if terminal_width() is None:
        return
    _print_left_out(left_out, rows - head.num_rows, "; --columns A,B chooses" if left_out else "")


@app.command(short_help="Gets a table or tensors: into a file, or to look at it.", epilog=_TOKEN + _EXIT_CODES)
def get(
    uri: Annotated[str, typer.Argument(metavar="URI", help="As `crossdock serve` printed it.", show_default=False)],
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The name of a table or tensors, as `crossdock ls` shows it; of bytes: b'\\\\x00'.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Write it here: .arrow or .feather (Arrow file), .arrows (Arrow stream), .parquet, .csv; of a tensor "
            ".npy.",
        ),
    ] = None,
    columns: Annotated[str | None, typer.Option(help="Only these columns, in this order: a,b,c.")] = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to connect in, and that each batch may take.")] = 10.0,
    checksum: _Checksum = None,
    remote_reads: _RemoteReads = None,
    tls_roots: _TlsRoots = None,
    tls_certificate: _TlsCertificate = None,
    tls_key: _TlsKey = None,
) -> None:
    """Gets a table or tensors; writes it to a file, or says what it is and shows its first rows or its values."""
    _on_end(signal.default_int_handler)  # All signals act as Ctrl-C, so that a partial file is removed.
    if output is not None:
        _check_format(output)
    with _reported():
        if output is not None:
            if not output.parent.is_dir():
                raise xd.NotFoundError(
                    f"{output.parent} doesn't exist or is not a folder; create it to write {output.name}"
                )
            if output.suffix.lower() in _FORMATS:
                _pyarrow_for(output, "writing")  # before the clock starts
    trusted = _trusted(remote_reads)
    wanted = _name(name, "NAME")
    with _reported():
        tls = _tls([uri], tls_certificate, tls_key, roots=tls_roots)
    with _reported(), _connect(uri, timeout, checksum, trusted, tls) as client:
        entry = next((entry for entry in client.list() if entry.name == wanted), None)
        if output is not None and entry is not None:
            _check_content(output, entry.kind)
        if entry is not None and entry.kind != "table":
            if columns is not None:
                raise xd.InvalidArgumentError(
                    f"--columns is for tables: {shown(name)} is {_tensors.content_text(entry)}"
                )
            _tensors.get(client, entry, output, timeout)
            return
        rows = None if entry is None else entry.rows
        names = None if columns is None else [column for column in columns.split(",") if column]
        with client.get(wanted, columns=names, timeout=timeout) as reader, _Meter(wanted, rows) as meter:
            head: list[xd.RecordBatch] = []
            if output is None:
                kept = 0
                for batch in reader:
                    meter.add(batch)
                    if kept < _HEAD_ROWS and batch.num_rows:
                        head.append(batch)
                        kept += batch.num_rows
            else:
                _write(output, reader.schema, meter.counting(reader))
        if output is None:
            print(wrapped(meter.summary(), terminal_width()))
            _inspect.print_schema(_native.describe_schema(reader.schema), "  ")
            print()
            _print_head(head, meter.rows)
        else:
            print(f"{meter.summary()}, written to {shown(str(output))}")


# ---- ls ----


_MOST_OF_A_WAIT = 1.0  # The most seconds to wait for one of several servers.


def _list_servers(timeout: float, as_json: bool) -> None:
    """Prints this user's servers that listen at a name, with the names of their tables."""
    rows = []
    servers: list[dict[str, Any]] = []
    for name in _native.shm_names():
        uri = f"shm:{name}"
        try:
            with xd.connect(uri, timeout=min(timeout, _MOST_OF_A_WAIT)) as client:
                tables = [shown_name(entry.name) for entry in client.list()]
        except (xd.NotFoundError, xd.ConnectionError):
            continue  # The server was killed, or has just ended.
        except xd.Error as error:
            rows.append((uri, "?", type(error).__name__))
            servers.append({"uri": uri, "tables": None, "error": f"{type(error).__name__}: {error}"})
        else:
            rows.append((uri, f"{len(tables):,}", ", ".join(tables)))
            servers.append({"uri": uri, "tables": tables, "error": None})
    if as_json:
        _inspect.print_json({"servers": servers})
    elif rows:
        _print_table(("uri", "tables", "names"), rows, frozenset((1,)))
    else:
        print("No server of this user listens at a name; `crossdock serve FILE` starts one.", file=sys.stderr)


@app.command(short_help="Lists the tables and tensors of a server, or your servers.", epilog=_TOKEN + _EXIT_CODES)
def ls(
    uri: Annotated[
        str | None,
        typer.Argument(
            metavar="URI",
            help="As `crossdock serve` printed it. Else: all of your servers that have a name.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")] = False,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to connect in, and to wait for the answer.")] = 10.0,
    checksum: _Checksum = None,
    tls_roots: _TlsRoots = None,
    tls_certificate: _TlsCertificate = None,
    tls_key: _TlsKey = None,
) -> None:
    """Lists the tables and tensors of a server, or this user's servers that listen at a name."""
    if uri is None:
        with _reported():
            _list_servers(timeout, as_json)
        return
    with _reported():
        _refuse_remote_handle(uri)
        tls = _tls([uri], tls_certificate, tls_key, roots=tls_roots)
    with _reported(), _connect(uri, timeout, checksum, tls=tls) as client:
        if as_json:
            _inspect.show_catalog(uri, client, as_json=True)
            return
        entries = client.list()
        rows = [
            (
                shown_name(entry.name),
                _inspect.number(entry.rows) if entry.kind == "table" else "",
                _inspect.number(entry.bytes),
                (_inspect.number(None if entry.schema is None else len(entry.schema)) if entry.kind == "table" else ""),
                entry.device,
                _tensors.content_text(entry),
            )
            for entry in entries
        ]
        header: tuple[str, ...] = ("name", "rows", "bytes", "columns", "device", "tensors")
        if all(entry.kind == "table" for entry in entries):
            header, rows = header[:-1], [row[:-1] for row in rows]  # type: ignore[misc]
        left_out = _print_table(header, rows, frozenset((1, 2, 3)))
        _print_left_out(left_out)


# ---- inspect ----


@app.command(short_help="Shows what is in a file, or what a server sends.", epilog=_TOKEN + _EXIT_CODES)
def inspect(
    target: Annotated[
        str,
        typer.Argument(
            metavar="URI|FILE",
            help="A server, or an Arrow IPC file or stream file. A file whose name looks like a URI: './name:of'.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Of a server: the table or tensors to look at; else all of them, without batches."
        ),
    ] = None,
    buffers: Annotated[bool, typer.Option("--buffers", help="Show each buffer: kind, size, where it is.")] = False,
    wire: Annotated[bool, typer.Option("--wire", help="Show the protocol's messages instead, as they pass.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="For programs: one JSON object; of a stream, one on each line.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, help="Show at most so many batches, and dictionaries; 0: all.")] = 10,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to connect in, and that each batch may take.")] = 10.0,
    checksum: _Checksum = None,
    tls_roots: _TlsRoots = None,
    tls_certificate: _TlsCertificate = None,
    tls_key: _TlsKey = None,
) -> None:
    """Shows what is in a file, or what a server sends: schema, batches, dictionaries, buffers, messages."""
    if not _inspect.is_uri(target):
        for given, option in ((name, "NAME"), (wire or None, "--wire")):
            if given is not None:
                raise typer.BadParameter(f"{target} is not a URI; {option} is for the URI of a server")
        with _reported():
            try:
                _inspect.show_file(Path(target), buffers=buffers, as_json=as_json, limit=limit)
            except xd.InvalidDataError as error:
                if Path(target).suffix.lower() not in (".parquet", ".csv"):
                    raise
                raise xd.InvalidDataError(
                    f"{error}; inspect looks into Arrow files: `crossdock serve` reads {Path(target).suffix}, and "
                    f"`crossdock get URI NAME -o FILE.arrow` makes an Arrow file of what is served"
                ) from None
        return
    if name is None and (wire or buffers):
        option = "--wire" if wire else "--buffers"
        raise typer.BadParameter(f"{option} needs the NAME of a table; see `crossdock ls`")
    if wire and buffers:
        raise typer.BadParameter("--wire shows messages, --buffers shows the content of batches: give only one of them")
    with _reported():
        _refuse_remote_handle(target)
        tls = _tls([target], tls_certificate, tls_key, roots=tls_roots)
    wanted = None if name is None else _name(name, "NAME")
    with _reported(), _connect(target, timeout, checksum, tls=tls) as client:
        if wanted is None:
            _inspect.show_catalog(target, client, as_json=as_json)
        elif wire:
            _inspect.show_wire(wanted, client, as_json=as_json, limit=limit, timeout=timeout)
        else:
            _inspect.show_stream(wanted, client, buffers=buffers, as_json=as_json, limit=limit, timeout=timeout)


# ---- check ----


def _evaluated(target: str) -> Any:
    """Evaluates `module:expression`. Modules in the current folder can be imported."""
    module, colon, expression = target.partition(":")
    if not colon or not module or not expression.strip():
        raise typer.BadParameter(f"{target!r} is not of the form module:expression, for example numpy:arange(3)")
    try:
        code = compile(expression.strip(), target, "eval")
    except SyntaxError as error:
        raise typer.BadParameter(f"{expression!r} is not a valid expression: {error.msg}") from None
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        names = vars(importlib.import_module(module))
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise typer.BadParameter(f"there is no module {module}") from None
    try:
        return eval(code, names)
    except NameError as error:
        # Handles a missing name in the expression itself. An error inside a function that it calls is raised.
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        if error.name is None or frame.f_code.co_filename != target:
            raise
        raise typer.BadParameter(f"the module {module} has no {error.name}") from None


def _made_by(target: str, thing: object, error: TypeError) -> str | None:
    """Returns a hint for an object that can't be called without arguments, or None if that isn't the reason of
    `error`."""
    import inspect

    if not callable(thing):
        return None
    try:
        inspect.signature(thing).bind()
    except TypeError:
        module, _, expression = target.partition(":")
        return f"{target} can't be called without arguments ({error}); write '{module}:lambda: {expression}(...)'"
    except ValueError:
        pass  # A built-in without a signature.
    return None


@app.command(short_help="Checks how an object exports its data.", epilog=_EXIT_CODES)
def check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:EXPRESSION",
            help="What to check: an object, or a callable without arguments that makes one, which lets more be seen: "
            "'my_library:Array', 'numpy:arange(3)', 'pyarrow:lambda: array([1, 2])'.",
            show_default=False,
        ),
    ],
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this one; may be given more than once. Else: all that it claims. One of dlpack, "
            "dlpack-exchange, cuda-array-interface, array-interface, buffer, sycl-usm-array-interface, arrow-schema, "
            "arrow-device-array, arrow-array, arrow-device-stream, arrow-stream.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")] = False,
) -> None:
    """Checks how an object exports its data, against the text of each protocol. Exit code 1 if a rule is broken."""
    with _reported():
        thing: object = None
        try:
            thing = _evaluated(target)
            report = xd.check(thing, protocols=protocol or None)
        except (xd.UnsupportedTypeError, xd.InvalidArgumentError) as error:
            raise typer.BadParameter(str(error)) from None
        except (typer.BadParameter, KeyboardInterrupt):
            raise
        except Exception as error:
            instead = _made_by(target, thing, error) if isinstance(error, TypeError) else None
            if instead:
                raise typer.BadParameter(instead) from None
            _report_error(error)
            raise typer.Exit(FAILED) from None
        if as_json:
            import json

            print(json.dumps(report.to_dict()))
        else:
            print(report)
    raise typer.Exit(OK if report.ok else FAILED)


@app.command(short_help="Lists drivers, their devices, and networks.", epilog=_EXIT_CODES)
def devices(
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")] = False,
) -> None:
    """Lists the drivers and their devices: what each is called, its kinds of memory, and why a driver is absent. Then
    the libraries of networks."""
    with _reported():
        drivers = _native.devices()
        networks = _options.networks()
        if as_json:
            import json

            print(json.dumps({"drivers": drivers, "networks": networks}, default=str))
            return
        rows = [
            (
                driver["driver"],
                str(device["device"]),
                device["filter"],
                _size(device["memory"]) if device["memory"] else "",
                " ".join(device["usm_types"]),
                device["name"],
            )
            for driver in drivers
            for device in driver["devices"]
        ]
        left_out = _print_table(("driver", "device", "filter string", "memory", "kinds", "name"), rows, frozenset((3,)))
        _print_left_out(left_out, hint="; --json has all")
        for driver in drivers:
            if not driver["devices"]:
                why = "; ".join(driver["tried"]) or "tests make simulated ones (crossdock.testing)"
                text = f"{driver['driver']}: {'no devices' if driver['found'] else 'not found'}: {why}"
                print(wrapped(shown(text), terminal_width()))
        for network in networks:
            provider = f"{network['provider']} of " if "provider" in network else ""
            library = f"{network['library']}, version {network['version']}"
            why = "; ".join(one.removeprefix(f"{network['transport']}: ") for one in network["tried"])
            if network["found"]:
                text = provider + library
            elif network["library"]:
                text = f"{library}, can't be used: {why}"
            else:
                text = f"not found: {why}"
            print(wrapped(shown(f"{network['transport']}: {text}"), terminal_width()))


def main() -> None:
    """The console script."""
    app(prog_name="crossdock")


if __name__ == "__main__":
    main()
