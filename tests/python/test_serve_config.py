"""The configuration file of `crossdock serve`, and what SIGHUP does."""

from __future__ import annotations

import inspect
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.certificates import Certificates
from tests.service import COMMAND, Manager, Service

import crossdock as xd
from crossdock.cli import application
from crossdock.cli.config import read_config
from crossdock.cli.secrets import Logins, hashed_login, read_ticket_keys, read_token
from crossdock.cli.serve_setup import check, read_setup, start
from crossdock.cli.settings import MADE_OF, SETTINGS


def numbers(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def write(path: Path, *values: int) -> None:
    """Replaces a file, as a writer does that readers don't notice."""
    partial = path.with_suffix(".partial")
    if path.suffix == ".parquet":
        pa.parquet.write_table(numbers(*values), partial)
    else:
        with pa.ipc.new_file(str(partial), numbers(*values).schema) as sink:
            sink.write_table(numbers(*values))
    partial.replace(path)


@pytest.fixture
def serve(no_leftovers: None) -> Iterator[type[Service]]:
    started: list[Service] = []

    class Started(Service):
        def __init__(self, *arguments: object, **more: object) -> None:
            super().__init__("--log-level", "info", "serve", *arguments, **more)  # type: ignore[arg-type]
            started.append(self)

    yield Started
    for one in started:
        one.close()


def refused(*arguments: object, code: int = 2) -> str:
    """The one line that the command ends with."""
    done = subprocess.run(
        [*COMMAND, "serve", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    (line,) = done.stderr.splitlines()
    return line


def config(folder: Path, text: str, name: str = "c.toml") -> Path:
    path = folder / name
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)
    return path


def tables(uri: str) -> dict[str | bytes, list[int]]:
    with xd.connect(uri) as client:
        return {
            entry.name: pa.table(client.get(entry.name))["n"].to_pylist() for entry in client.list()
        }  # fmt: skip


# ---- one list of options ----


def command_options() -> set[str]:
    (serve,) = [one for one in application().registered_commands if one.callback and one.callback.__name__ == "serve"]
    assert serve.callback is not None
    return set(inspect.signature(serve.callback).parameters) - {"context"}


def test_every_option_of_serve_is_one_of_the_command_and_of_the_file():
    """A new option of `xd.serve()` needs one of the command, and a key in the file."""
    of_serve = set(inspect.signature(xd.serve).parameters)
    of_command = command_options()
    in_file = {setting.name for setting in SETTINGS}
    for name in of_serve:
        made_of = MADE_OF.get(name, (name,))
        assert set(made_of) <= of_command, f"`crossdock serve` lacks an option for {name}="
        assert name == "sources" or set(made_of) <= in_file, f"the configuration file lacks a key for {name}="
    assert set(MADE_OF) <= of_serve
    common = {setting.name for setting in SETTINGS if setting.key.startswith("log.")}
    assert in_file - common <= of_command


def test_the_help_has_sections():
    done = subprocess.run([*COMMAND, "serve", "--help"], capture_output=True, text=True, check=True)
    titles = re.findall(r"^([A-Z][A-Za-z ]+):$", done.stdout, re.MULTILINE)
    assert titles == ["Arguments", "Options", "As a service", "Who may connect", "Arrow Flight", "Limits and waiting"]


# ---- the file ----

EVERYTHING = """
[server]
uri = ["shm:./all.sock", "tcp:"]
window = 8
lease_limit = "64M"
lease_patience = "none"
max_leases = 1000
max_streams = 10
max_connections = 20
source_threads = 2
wait = "block"
users = [0]
token_file = "token"
checksum = true
stable = "snapshot"
grace = 1
[limits]
max_depth = 20
[log]
level = "info"
json = false
[tables]
one = "one.arrow"
"a.b" = { path = "two.arrow", stable = "trust" }
"b'\\\\xff'" = "two.arrow"
[tables.three]
path = "three.parquet"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "one.arrow", 1)
    write(tmp_path / "two.arrow", 2)
    write(tmp_path / "three.parquet", 3)
    (tmp_path / "token").write_text("a secret\n")
    (tmp_path / "token").chmod(0o600)
    return tmp_path


@pytest.mark.long
def test_everything_that_a_file_may_have(serve, folder, monkeypatch):
    monkeypatch.chdir(folder)  # where a path in a URI begins
    service = serve("--config", config(folder, EVERYTHING), lines=2)
    assert service.uris[0].endswith("all.sock")
    assert tables(service.uris[0]) == {"one": [1], "a.b": [2], b"\xff": [2], "three": [3]}
    with pytest.raises(xd.PermissionError):
        xd.connect(service.uris[1], token="a guess")
    with xd.connect(service.uris[1], token="a secret") as client:
        assert client.list()
    assert service.stop() == 0


def test_the_command_line_wins(serve, folder):
    write(folder / "four.arrow", 4)
    path = config(folder, '[server]\nuri = "shm:file"\n[tables]\none = "one.arrow"\n')
    service = serve(folder / "four.arrow", "--config", path, "--uri", "shm:line")
    assert service.uri == "shm:line"
    assert tables(service.uri) == {"one": [1], "four": [4]}
    assert service.stop() == 0


def test_a_table_of_both_is_an_error(folder):
    path = config(folder, '[tables]\none = "one.arrow"\n')
    assert refused(folder / "one.arrow", "--config", path).endswith(
        f"{path}, line 2: tables.one: one would be served twice: also as a file of the command line"
    )


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[server]\nwindow = 1\nwindoww = 2\n", 3, "server.windoww is no key of this file: did you mean window?"),
        ("[serve]\nwindow = 1\n", 1, "serve is no table of this file: did you mean server?"),
        ('[tables]\n\n[tables.x]\npath = "a"\nstabel = "trust"\n', 5, "did you mean stable?"),
        ('[tables]\nx = { path = "a", stabel = "trust" }\n', 2, "did you mean stable?"),
        ('[server]\nwindow = "8"\n', 2, "server.window must be a whole number of messages, not '8'"),
        ("[server]\nwindow = true\n", 2, "server.window must be a whole number"),
        ("[server]\nwindow = 0\n", 2, "server.window must be a number of messages from 1 to"),
        ('[server]\nlease_limit = "64Q"\n', 2, "server.lease_limit must be a number of bytes"),
        ("[server]\nlease_patience = -1\n", 2, "server.lease_patience must be a finite number of seconds from 0 on"),
        ("[server]\ngrace = nan\n", 2, "server.grace must be a finite number of seconds from 0 on"),
        ("[server]\nuri = []\n", 2, "server.uri must not be empty"),
        ("[server]\nuri = [1]\n", 2, "server.uri must be a text"),
        ('[server]\nuri = "flights"\n', 2, "server.uri must be a URI whose scheme is shm, tcp"),
        ('[flight]\nuri = "http://*:80"\n', 2, "flight.uri must be a URI whose scheme is grpc or grpc+tls"),
        ('[metrics]\naddress = "localhost"\n', 2, "metrics.address is wrong: an address for HTTP"),
        ('[server]\nusers = ["no such user"]\n', 2, "server.users has 'no such user', which is no user"),
        ('[server]\nchecksum = "yes"\n', 2, "server.checksum must be true or false"),
        ('[log]\nlevel = "loud"\n', 2, "log.level must be 'debug' or"),
        ("[limits]\n\nmax_depht = 2\n", 3, "limits.max_depht is no limit: did you mean max_depth?"),
        (
            "[limits]\nwidth = 2\n",
            2,
            "limits.width is no limit: there are max_buffers, max_decompressed_bytes, max_depth",
        ),
        ("\nlimits = { max_depht = 2 }\n", 2, "limits.max_depht is no limit: did you mean max_depth?"),
        ("\nlimits.max_depht = 2\n", 2, "limits.max_depht is no limit: did you mean max_depth?"),
        ("[limits]\nmax_fields = 9\nmax_depth = 0\n", 3, "limits.max_depth must be a number of levels from 1 to 2**31"),
        ('[limits]\nmax_fields = "9"\n', 2, "limits.max_fields must be a whole number of fields, not '9'"),
        (
            "[flight]\nticket_lifetime = 1e10\n",
            2,
            "flight.ticket_lifetime must be more than 0 seconds, and at most 100",
        ),
        ('[server]\ntoken_file = "a\\u0000b"\n', 2, "server.token_file must be the path of a file; it has a line end"),
        (
            '[server]\ntoken_file = "a\\nb"\n',
            2,
            "server.token_file must be the path of a file; it has a line end or a NUL",
        ),
        ("[server]\ntoken_file = 1\n", 2, "server.token_file must be the path of a file, not int"),
        (
            f"[server]\ngrace = {'9' * 400}\n",
            2,
            "server.grace must be a finite number of seconds from 0 on, not a number",
        ),
        (f"[server]\nlease_patience = {'9' * 400}\n", 2, "server.lease_patience must be a finite number of seconds"),
        (f'[server]\nlease_patience = "{"9" * 400}"\n', 2, "server.lease_patience must be a finite number of seconds"),
        (f"[flight]\nticket_lifetime = {'9' * 400}\n", 2, "flight.ticket_lifetime must be a finite number of seconds"),
        (
            f"[server]\nwindow = 0x{'f' * 5000}\n",
            2,
            "server.window must be a number of messages from 1 to 2**32 - 1, not",
        ),
        ('[server]\nusers = ["root\\u0000"]\n', 2, "server.users has 'root\\x00', which is no user of this machine"),
        (f'[server]\nusers = ["{"9" * 5000}"]\n', 2, "... (5,000 characters), which is no user of this machine"),
        (f"[server]\nusers = [0x{'f' * 5000}]\n", 2, "server.users has a number of 20,000 bits, which isn't a user id"),
        (
            '[flight]\nuri = "host:8815"\n',
            2,
            "flight.uri must be a URI whose scheme is grpc or grpc+tls, not 'host:8815'; did you mean grpc://host:8815?",
        ),
        ('[server]\nuri = "tpc://secret@host:1"\n', 2, "ucx or fabric, not 'tpc://...@host:1'"),
        ("\n[a.b]\nx = 1\n", 2, "a is no table of this file"),
        (
            '[server]\nwindow = 1\nuri = [ # [tls]\n"tcp:" ]\n[tables]\nx = """\n[tls]\nkey = 1\n"""\n[tls]\nkey = 1\n',
            11,
            "tls.key must be the path of a file, not int",
        ),
        ("server = 1\n", 1, "server must be a table, [server], not int"),
        ("[tables]\nx = 1\n", 2, "tables.x must be a path, or a table"),
        ("[tables]\nx = {}\n", 2, "tables.x.path must be the path"),
        ('[tables]\nx = { path = "a", stable = "maybe" }\n', 2, "must be 'trust' or 'snapshot'"),
        ('[tables]\n"b\'" = "a"\n', 2, "begins as a literal"),
        ("[server]\ntoken_file = 'token'\n[server]\n", 3, "isn't TOML, or is half written"),
        ("[server]\nwindow = \n", 2, "isn't TOML, or is half written"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(folder, text, line, words):
    path = config(folder, text)
    with pytest.raises(xd.InvalidArgumentError) as error:
        read_config(path)
    assert words in str(error.value)
    assert f"line {line}" in str(error.value)
    assert str(path) in str(error.value)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


TLS = '[server]\nuri = "tcp+tls:"\n[tls]\n'
OTHER_END = "is for tcp+tls and grpc+tls: give such a URI, as in tcp+tls://..., or leave"
NO_CERTIFICATE = "has no certificate: give a PEM text with -----BEGIN CERTIFICATE-----"
FLIGHT = '[flight]\nuri = "grpc://127.0.0.1:0"\n'

# Of each: the file, the line and what follows it. FOLDER is where the files are, CERTIFICATES where those of TLS are.
WRONG_TOGETHER = [
    (
        '[server]\nuri = "shm:a b"\n',
        2,
        "server.uri: bad URI 'shm:a b', at character 6: a space: in a path it is written",
    ),
    (
        '[server]\nuri = ["tcp:", "tcp://:99999"]\n',
        2,
        "server.uri: bad address 'tcp://:99999': its port must be a number",
    ),
    ('[server]\nuri = [\n"shm:FOLDER/none/x"]\n', 2, "server.uri: the folder of shm:FOLDER/none/x doesn't exist ("),
    ('[server]\nuri = ["shm:twice", "shm:twice"]\n', 2, "server.uri: "),
    (
        "[server]\n\nusers = [0]\n",
        3,
        "server.users is for an address that other users can reach: give server.uri with a path, as in "
        "shm:/run/t.sock, or leave server.users out",
    ),
    ('[server]\nuri = "tcp+tls:"\n', 2, "server.uri: tcp+tls: needs tls.certificate and tls.key"),
    ('\n[flight]\nuri = "grpc+tls:"\n', 3, "flight.uri: grpc+tls: needs tls.certificate and tls.key"),
    (
        f'{TLS}key = "CERTIFICATES/server.key"\n',
        4,
        "tls.key: the file CERTIFICATES/server.key is given without a certificate",
    ),
    (
        f'{TLS}certificate = "CERTIFICATES/server.pem"\n',
        4,
        "tls.certificate: the file CERTIFICATES/server.pem is given without a key: give both",
    ),
    (f'{TLS}key = "absent.pem"\n', 4, "tls.key: the file FOLDER/absent.pem doesn't exist"),
    (
        f'{TLS}client_roots = "token"\nkey = "absent"\ncertificate = "."\n',
        6,
        "tls.certificate: the file FOLDER is a folder, not a file",
    ),
    (f'{TLS}key = "token"\ncertificate = "empty.pem"\n', 5, "tls.certificate: the file FOLDER/empty.pem is empty"),
    (f'{TLS}key = "token"\ncertificate = "token"\n', 5, f"tls.certificate: the file FOLDER/token {NO_CERTIFICATE}"),
    (
        f'{TLS}key = "token"\ncertificate = "CERTIFICATES/server.pem"\n',
        4,
        "tls.key: the file FOLDER/token is no private key",
    ),
    (
        f'{TLS}certificate = "CERTIFICATES/server.pem"\nkey = "CERTIFICATES/other.key"\n',
        5,
        "tls.key: the file CERTIFICATES/other.key isn't the key of the first certificate that is given: ",
    ),
    (
        f'{TLS}certificate = "CERTIFICATES/server.pem"\nkey = "CERTIFICATES/server.key"\n\nclient_roots = "token"\n',
        7,
        f"tls.client_roots: the file FOLDER/token {NO_CERTIFICATE}",
    ),
    (
        '[tls]\ncertificate = "CERTIFICATES/server.pem"\nkey = "CERTIFICATES/server.key"\n[server]\nuri = "tcp:"\n',
        2,
        f"tls.certificate {OTHER_END} tls.certificate out",
    ),
    ('[tls]\n\nclient_roots = "CERTIFICATES/issuer.pem"\n', 3, f"tls.client_roots {OTHER_END} tls.client_roots out"),
    (
        '[server]\nuri = "tcp:"\ntoken_file = "absent"\n',
        3,
        "server.token_file: the file of the token doesn't exist in the folder FOLDER: give the file's path, not its",
    ),
    (
        '[server]\nuri = "tcp:"\ntoken_file = "empty.pem"\n',
        3,
        "server.token_file: the file of the token, FOLDER/empty.pem, must have one line of 1 to 1024 bytes",
    ),
    (
        '[server]\ntoken_file = "token"\n',
        2,
        "server.token_file is for networks, and over shm: the user id decides: give a URI of a network, or leave "
        "server.token_file out",
    ),
    (
        '[server]\nuri = "ucx:"\nchecksum = true\n',
        3,
        "server.checksum: ucx has no checksums, so bytes that the network changed would be given out; use tcp, or "
        "leave server.checksum out",
    ),
    (
        '[server]\nuri = "tcp:"\nremote_reads = "trusted"\n',
        3,
        "server.remote_reads is for ucx: give a URI ucx://..., or leave server.remote_reads out",
    ),
    (
        '[server]\nuri = "ucx:"\nremote_reads = "trusted"\ntoken_file = "token"\n',
        3,
        "server.remote_reads lets every process read all memory, also without the token: give no token, or leave "
        "server.remote_reads out",
    ),
    ('[flight]\nputs = "new"\n', 2, "flight.puts is for a Flight server: give flight.uri, or leave flight.puts out"),
    (
        f'{FLIGHT}ticket_keys = "keys"\n',
        3,
        "flight.ticket_keys is for a Flight server with a token or logins: give server.token_file or flight.logins, or "
        "leave flight.ticket_keys out",
    ),
    (
        f'{FLIGHT}logins = "token"\n',
        3,
        "flight.logins: FOLDER/token, line 1: a login is a line that `crossdock hash-password",
    ),
    (
        f'{FLIGHT}ticket_keys = "token"\nlogins = "logins"\n',
        3,
        "flight.ticket_keys: FOLDER/token, line 1: a ticket key is 32 to 2048 hexadecimal digits",
    ),
]


@pytest.mark.parametrize(("text", "line", "words"), WRONG_TOGETHER)
def test_what_is_wrong_besides_the_syntax_is_said_with_its_line(folder, certificates, monkeypatch, text, line, words):
    """As it is for values of a wrong type: with the file, the line and the key."""
    monkeypatch.delenv("CROSSDOCK_TOKEN", raising=False)
    (folder / "empty.pem").touch(mode=0o600)
    for name, content in (("keys", "00" * 32), ("logins", hashed_login("ada", "secret"))):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(content)

    def filled(text: str) -> str:
        return text.replace("FOLDER", str(folder)).replace("CERTIFICATES", str(certificates.issuer.parent))

    path = config(folder, filled(text))

    def begin(checks_only: bool) -> None:
        setup = read_setup(path, {}, {})
        uris = list(setup.settings.get("uri", ("shm:none",)))
        if checks_only:
            check(setup, uris)
        else:
            start(setup, uris, None)

    for checks_only in (True, False):
        with pytest.raises(xd.Error) as error:
            begin(checks_only)
        assert str(error.value).startswith(f"{path}, line {line}: {filled(words)}")


def test_a_wrong_address_for_flight_is_said_with_its_line(folder):
    pytest.importorskip("pyarrow.flight")
    path = config(folder, '[server]\nuri = "shm:flight"\n[flight]\nputs = "new"\nuri = "grpc://127.0.0.1:99999"\n')
    setup = read_setup(path, {}, {})
    with pytest.raises(xd.UriError) as error:
        check(setup, ["shm:flight"])
    assert str(error.value).startswith(f"{path}, line 5: flight.uri: 'grpc://127.0.0.1:99999' isn't grpc://HOST:PORT")


def test_options_of_the_command_line_are_named_as_such_beside_a_file(folder):
    path = config(folder, '[server]\nuri = "tcp:"\nwindow = 3\n')
    with pytest.raises(xd.InvalidArgumentError) as error:
        read_setup(path, {"uri": ("tcp+tls:",)}, {})
    assert str(error.value) == "--uri: tcp+tls: needs --tls-certificate and --tls-key"


@pytest.mark.long
def test_serve_and_its_check_say_the_same_of_a_file(folder):
    for text, code, words in (
        ('[server]\nuri = "shm:a b"\n', 2, "UriError: {path}, line 2: server.uri: bad URI 'shm:a b'"),
        ('[server]\nuri = "shm:./none/x"\n', 3, "NotFoundError: {path}, line 2: server.uri: the folder of shm:"),
        (f'{TLS}key = "absent"\n', 3, "NotFoundError: {path}, line 4: tls.key: the file {folder}/absent doesn't exist"),
    ):
        path = config(folder, text)
        line = refused("--config", path, code=code)
        assert line.startswith(words.format(path=path, folder=folder))
        assert refused("--config", path, "--check", code=code) == line


@pytest.mark.long
def test_files_that_are_no_configuration(folder):
    for nothing in ("", "\n", "# a comment\n"):
        (folder / "empty.toml").write_text(nothing)
        assert "is empty, perhaps half written" in refused("--config", folder / "empty.toml")
    assert "is a folder, not a file" in refused("--config", folder)
    assert "NotFoundError: --token-file: the file of the token doesn't exist in the current folder" in refused(
        folder / "one.arrow", "--uri", "tcp:", "--token-file", "absent", code=3
    )
    (folder / "bytes.toml").write_bytes(b"# a\n# b\xff\n")
    assert "bytes.toml, line 2: it isn't UTF-8" in refused("--config", folder / "bytes.toml")
    assert "absent.toml doesn't exist" in refused("--config", folder / "absent.toml", code=3)
    os.mkfifo(folder / "pipe")
    for path in ("/dev/null", folder / "pipe"):
        assert "isn't a regular file" in refused("--config", path)
        assert "isn't a regular file" in refused(folder / "one.arrow", "--uri", "tcp:", "--token-file", path)


def test_a_file_of_many_tables_is_read_in_one_pass(folder):
    names = [f"t{number}" for number in range(20_000)]
    path = config(folder, "[tables]\n" + "".join(f'{name} = "{name}"\n' for name in names))
    began = time.monotonic()
    found = read_config(path).tables
    assert time.monotonic() - began < 30  # it takes a second; half an hour if each key were looked for
    assert found["t19999"].where == f"{path}, line 20001: tables.t19999"


@pytest.mark.long
def test_the_path_of_a_table_that_is_too_long_is_said_with_its_line(folder):
    path = config(folder, f'[tables]\n\nx = "{"x" * 300}"\n')
    for arguments in ((), ("--check",)):
        line = refused("--config", path, *arguments, code=1)
        assert line.startswith(f"SystemError: {path}, line 3: tables.x: {folder}/xxx")
        assert line.endswith(": File name too long")


def test_a_file_that_is_being_written_is_refused(folder):
    path = config(folder, '[tables]\none = "one.arrow"\n')
    with path.open("a") as writer:
        writer.write('two = "two.arrow"\n')
        writer.flush()
        assert "is being written by another process" in refused("--config", path)
    assert len(read_config(path).tables) == 2


@pytest.mark.long
def test_check_says_what_is_wrong_and_starts_nothing(folder):
    path = config(folder, EVERYTHING)
    done = subprocess.run([*COMMAND, "serve", "--config", path, "--check"], capture_output=True, text=True, check=True)
    assert done.stdout == "valid: 4 tables, 17 settings\n"
    (folder / "one.arrow").unlink()
    where = re.escape(f"{path}, line ") + r"\d+: tables\.\S+: .*one\.arrow: No such file"
    assert re.search(where, refused("--config", path, "--check", code=3))
    path = config(folder, '[tables]\nx = "absent.csv"\n', "absent.toml")
    where = f"{path}, line 2: tables.x: {folder / 'absent.csv'}: No such file"
    for arguments in (("--check",), ()):
        assert where in refused("--config", path, *arguments, code=3)
    path = config(folder, '[tables]\nx = "s3://bucket/x.parquet"\n', "url.toml")
    where = f"{path}, line 2: tables.x 's3://bucket/x.parquet' is a URL, and only files of this machine have a path"
    assert where in refused("--config", path, "--check", code=2)


@pytest.mark.long
def test_check_finds_what_cannot_start(folder, monkeypatch):
    uri = f"shm:{folder}/no%20where/x.sock"
    for arguments in (("--check",), ()):
        line = refused(folder / "one.arrow", "--uri", "tcp:", "--uri", uri, *arguments, code=3)
        assert line.startswith("NotFoundError: --uri: the folder of shm:")
        assert f" doesn't exist ({folder}/no where): create it" in line
    assert refused(folder / "one.arrow", "--uri", "shm:a b").startswith("UriError: --uri: bad URI 'shm:a b'")
    for uri, code in (("tcp://:99999", 2), ("shm:a b", 2), (f"shm:{folder}", 2), ("tcp+tls:", 2), ("smh:x", 2)):
        assert refused(folder / "one.arrow", "--uri", uri, "--check", code=code) == refused(
            folder / "one.arrow", "--uri", uri, code=code
        )
    for options in (
        ("--uri", "shm:twice", "--uri", "shm:twice"),
        ("--uri", "shm:x", "--flight", "grpc://127.0.0.1:99999"),
        ("--uri", "tcp:", "--flight", "grpc+tls://127.0.0.1:0"),
    ):
        assert refused(folder / "one.arrow", *options, "--check") == refused(folder / "one.arrow", *options)
    shadow = folder / "shadow"
    shadow.mkdir()
    (shadow / "prometheus_client.py").write_text("raise ModuleNotFoundError(name='prometheus_client')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(shadow), *filter(None, [os.environ.get("PYTHONPATH")])]))
    for arguments in (("--check",), ()):
        line = refused(folder / "one.arrow", "--metrics", "0", *arguments, code=1)
        assert line == "MissingPackage: metrics need prometheus-client: pip install 'crossdock[metrics]'"


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_file_that_cannot_be_read_has_one_exit_code():
    program = """if True:
        import os, sys
        import crossdock as xd
        from crossdock.cli import application

        # All is imported by this: another user may not be able to read where Python is.
        run = application()
        for more in ([], ["--check"], ["--uri", "tcp:"]):
            run(["serve" if more else "inspect", "/absent", *more], standalone_mode=False)
        os.setgid(65534)
        os.setuid(65534)
        run(sys.argv[1:])
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "secret.arrow")
        write(path, 1)
        path.chmod(0o600)
        os.chmod(folder, 0o755)
        for arguments in (("inspect", path), ("serve", path, "--uri", "tcp:"), ("serve", path, "--check")):
            done = subprocess.run(
                [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, check=False,
                timeout=60,
            )  # fmt: skip
            assert done.returncode == 1, done.stderr
            assert re.fullmatch(rf"PermissionError: .*{path}.*[Pp]ermission denied", done.stderr.splitlines()[-1])


@pytest.mark.long
def test_options_that_are_wrong_are_named(folder):
    one = folder / "one.arrow"
    assert "--lease-limit must be" in refused(one, "--lease-limit", "much")
    assert "--window must be" in refused(one, "--window", "0")
    assert "--limits depth is no limit: did you mean max_depth?" in refused(one, "--limits", "depth=3")
    assert "--limits max_depth must be a number of levels" in refused(one, "--limits", "max_depth=0")
    line = refused(one, "--puts", "new")
    assert line.endswith("--puts is for a Flight server: give --flight, or leave --puts out")
    line = refused(one, "--uri", "tcp+tls:")
    assert line == "InvalidArgumentError: --uri: tcp+tls: needs --tls-certificate and --tls-key"
    line = refused(one, "--uri", "tcp+tls:", "--tls-certificate", folder / "absent.pem", code=3)
    assert line == f"NotFoundError: --tls-certificate: the file {folder / 'absent.pem'} doesn't exist"
    assert "--lease-patience must be a number of seconds, or" in refused(one, "--lease-patience", "soon")
    line = refused(one, "--limits", f"max_depth={10**20 - 1}")
    assert line.endswith("--limits max_depth must be a number of levels from 1 to 2**31 - 1, not 99999999999999999999")
    assert refused(one, "--flight", "host:8815").endswith("not 'host:8815'; did you mean grpc://host:8815?")
    assert refused(one, "--flight", "host:99999").endswith("not 'host:99999'")
    assert refused(one, "--flight", "99999").endswith("not '99999'")
    assert refused(one, "--uri", "host:99999").endswith("not 'host:99999'")
    line = refused(one, "--users", "0")
    assert line.startswith(
        "InvalidArgumentError: --users is for an address that other users can reach: give --uri with"
    )
    assert "which is no user of this machine" in refused(one, "--users", "9" * 5000)


def test_all_options_at_once(serve, folder, monkeypatch):
    """Those of which the effect can be seen have it."""
    monkeypatch.chdir(folder)
    (folder / "logins").write_text(hashed_login("ada", "secret") + "\n")
    (folder / "keys").write_text("00" * 32 + "\n")
    for name in ("logins", "keys"):
        (folder / name).chmod(0o600)
    service = serve(
        "one.arrow", "--name", "t", "--uri", "shm:./s.sock", "--uri", "tcp:", "--stable", "snapshot", "--checksum",
        "--grace", 1, "--users", "any", "--token-file", "token", "--flight", "grpc://127.0.0.1:0", "--puts", "new",
        "--max-put", "1M", "--logins", "logins", "--ticket-keys", "keys", "--ticket-lifetime", 60,
        "--login-lifetime", 60,
        "--window", 8, "--lease-limit", "64M", "--lease-patience", "none", "--max-leases", 1000, "--max-streams", 9,
        "--max-connections", 3, "--source-threads", 2, "--wait", "block", "--limits", "max_depth=9",
        "--limits", "max_fields=99", lines=3,
    )  # fmt: skip
    shm, tcp, flight = service.uris
    with xd.connect(shm) as first, xd.connect(tcp, token="a secret") as second, xd.connect(shm) as third:
        for client in (first, second, third):
            assert pa.table(client.get("t"))["n"].to_pylist() == [1]
        with pytest.raises(xd.ConnectionError, match="max_connections"):
            xd.connect(shm)
    with xd.connect(flight, login=("ada", "secret")) as client:
        client.put("u", numbers(7))
        with pytest.raises(xd.Error, match="already published"):
            client.put("t", numbers(7))
        with pytest.raises(xd.ResourceError):
            client.put("v", pa.table({"n": pa.array(range(1 << 20), pa.int64())}))
    assert tables(shm) == {"t": [1], "u": [7]}
    assert service.stop() == 0


# ---- secrets ----


SECRET = "c2VjcmV0"
PEM = f"-----BEGIN PRIVATE KEY-----\nMIGHAgEA{SECRET}\n-----END PRIVATE KEY-----\n"
BARE = f"MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEH{SECRET}"  # a key without the lines around it
SECRET_KEYS = (
    "tls.certificate",
    "tls.key",
    "tls.client_roots",
    "server.token_file",
    "flight.logins",
    "flight.ticket_keys",
)


def assert_unsaid(error: BaseException | None) -> None:
    """Neither an error nor those that its traceback shows may have the secret."""
    while error is not None:
        assert SECRET not in str(error) + repr(error)
        error = error.__cause__ if error.__suppress_context__ else error.__context__


@pytest.mark.parametrize("key", SECRET_KEYS)
@pytest.mark.parametrize(
    "value",
    [
        f"'''{PEM}'''",
        f"'''\n\n Bag Attributes\n{PEM}'''",
        f"['''{PEM}''']",
        f'"{BARE}"',
        f'["{BARE}"]',
        f'["{SECRET}"]',
        f'{{ a = "{SECRET}" }}',
        f'"{SECRET}\\u0000"',
        f'"\\n{SECRET}"',
    ],
    ids=["PEM", "PEM with attributes", "list of PEM", "base64", "list of base64", "list", "table", "NUL", "line end"],
)
def test_a_secret_in_place_of_its_path_is_not_quoted(folder, key, value):
    section, name = key.split(".")
    path = config(folder, f"[{section}]\n{name} = {value}\n")
    with pytest.raises(xd.InvalidArgumentError) as error:
        read_config(path)
    assert_unsaid(error.value)
    assert str(error.value).startswith(f"{path}, line 2: {key} ")


@pytest.mark.parametrize("section", ["tls", "server", "flight", "tables"])
@pytest.mark.parametrize("value", [f"'''{PEM}'''", f'["{SECRET}"]', f'"{SECRET}"'], ids=["PEM", "list", "text"])
def test_a_secret_in_place_of_a_section_is_not_quoted(folder, section, value):
    path = config(folder, f"{section} = {value}\n")
    with pytest.raises(xd.InvalidArgumentError) as error:
        read_config(path)
    assert_unsaid(error.value)
    assert str(error.value).startswith(f"{path}, line 1: {section} must be a table, [{section}], not ")


@pytest.mark.parametrize(
    "text",
    [
        *(f"{key} = PEM\n" for key in ("server.uri", "server.users", "metrics.address", "log.level", "tables.x")),
        "tables.x = { path = PEM }\n",
        "limits.max_depth = PEM\n",
        f'tls."-----BEGIN PRIVATE KEY-----\\n{SECRET}" = 1\n',
    ],
)
def test_a_key_where_none_is_expected_is_not_quoted(folder, text):
    path = config(folder, text.replace("= PEM", f"= '''{PEM}'''"))
    with pytest.raises(xd.InvalidArgumentError) as error:
        read_config(path)
    assert_unsaid(error.value)
    assert str(error.value).startswith(f"{path}, line 1: ")
    assert "a PEM text" in str(error.value)


@pytest.mark.parametrize("name", ["token_file", "logins", "ticket_keys"])
@pytest.mark.parametrize("in_file", [True, False], ids=["file", "command line"])
@pytest.mark.parametrize(
    "secret",
    [SECRET, f"{SECRET}/x", f"{SECRET}/{'x' * 300}", "x" * 300 + SECRET, f"token/{SECRET}"],
    ids=["name", "path", "long path", "long name", "below a file"],
)
def test_a_secret_that_may_be_a_path_is_not_quoted(folder, monkeypatch, name, in_file, secret):
    """No file has that path, so it may be the secret itself."""
    monkeypatch.chdir(folder)
    options: dict[str, object] = {"uri": ("tcp:",), "flight": "grpc:", "token_file": Path("token")}
    if in_file:
        key = next(setting.key for setting in SETTINGS if setting.name == name)
        section, _, last = key.partition(".")
        path = config(folder, f'[{section}]\n{last} = "{secret}"\n')
        options = {one: value for one, value in options.items() if one != name}
        begin = f"{path}, line 2: {key}: the file of the "
    else:
        path = config(folder, "[tables]\n")
        options[name] = Path(secret)
        begin = f"--{name.replace('_', '-')}: the file of the "
    with pytest.raises((xd.NotFoundError, xd.SystemError)) as error:
        read_setup(path, options, {})
    assert_unsaid(error.value)
    assert str(error.value).startswith(begin)
    if isinstance(error.value, xd.NotFoundError):
        assert str(error.value).endswith(": give the file's path, not its content")


@pytest.mark.long
def test_the_command_shows_no_secret_that_is_given_in_place_of_a_path(folder):
    one = folder / "one.arrow"
    tls, address = (one, "--uri", "tcp+tls:"), "tcp+tls://127.0.0.1:1"
    for command, *arguments in (
        *(("serve", *tls, f"--tls-{part}", PEM) for part in ("certificate", "key", "client-roots")),
        ("serve", *tls, "--tls-key", f"\n{PEM}"),
        ("serve", *tls, "--tls-key", BARE),
        *(("ls", address, f"--tls-{part}", PEM) for part in ("certificate", "key", "roots")),
        ("get", address, "t", "--tls-key", f"Bag Attributes\n{PEM}"),
        ("serve", one, "--uri", "tcp:", "--token-file", PEM),
        ("serve", one, "--uri", "tcp:", "--token-file", f"{SECRET}\n"),
        ("serve", one, "--uri", "tcp:", "--token-file", f"{SECRET}/{SECRET}"),
        ("serve", "--config", PEM),
        ("hash-password", f"ada:{SECRET}"),
    ):
        for common in ("--debug", "--log-json"):
            done = subprocess.run(
                [*COMMAND, common, command, *map(str, arguments)],
                input="password\n", capture_output=True, text=True, check=False, timeout=60,
            )  # fmt: skip
            assert done.returncode in (2, 3), done.stderr
            assert SECRET not in done.stdout + done.stderr
            assert done.stderr


def test_a_password_that_is_not_utf_8_is_not_quoted():
    done = subprocess.run([*COMMAND, "hash-password", "ada"], input=b"secret\xff\n", capture_output=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"InvalidArgumentError: the password has surrogates, which aren't UTF-8")
    assert done.stdout == b""


def test_content_of_files_of_secrets_is_not_quoted(folder):
    path = folder / "wrong"
    path.touch(mode=0o600)
    for content in (SECRET, f"ada:{SECRET}", f"{SECRET}:scrypt:1:1:1:{SECRET}:{SECRET}", f"{SECRET}\n{SECRET}", PEM):
        path.write_text(content)
        for read in (Logins, read_ticket_keys, *([read_token] if "\n" in content else [])):
            with pytest.raises(xd.InvalidArgumentError) as error:
                read(path)
            assert_unsaid(error.value)
    path.write_bytes(SECRET.encode() + b"\xff")
    for read in (Logins, read_ticket_keys, read_token):
        with pytest.raises(xd.InvalidArgumentError, match="isn't UTF-8") as error:
            read(path)
        assert_unsaid(error.value)


def test_a_reload_that_fails_shows_no_secret(serve, folder):
    """Neither in the log nor to the service manager."""
    manager = Manager(str(folder / "notify"))
    path = config(folder, '[tables]\none = "one.arrow"\n')
    service = serve("--config", path, env={"NOTIFY_SOCKET": manager.address})
    manager.next_with("READY")
    for text, words in (
        (f"[tls]\nkey = '''{PEM}'''\n", "tls.key is a PEM text: give the path of its file"),
        (
            f"[server]\nuri = 'tcp:'\ntoken_file = '{SECRET}'\n",
            "server.token_file: the file of the token doesn't exist",
        ),
    ):
        config(folder, text)
        assert words in reload(service, "the reload has failed")
        assert "RELOADING" in manager.next()
        status = manager.next()["STATUS"]
        assert words in status
        assert SECRET not in status
    assert service.stop() == 0
    assert not any(SECRET in line for line in service.errors)
    manager.close()


def test_a_token_file_that_others_can_read_is_refused(folder):
    (folder / "token").chmod(0o640)
    line = refused(folder / "one.arrow", "--uri", "tcp:", "--token-file", folder / "token", code=1)
    assert "others can read the file of the token" in line
    assert f"chmod 600 {folder / 'token'}" in line
    (folder / "token").chmod(0o600)
    (folder / "token").write_text("two\nlines\n")
    assert "must have one line" in refused(folder / "one.arrow", "--uri", "tcp:", "--token-file", folder / "token")


def test_a_private_key_that_others_can_read_is_refused(folder):
    for name in ("c.pem", "k.pem"):
        (folder / name).write_text("anything")
    (folder / "k.pem").chmod(0o644)
    files = ("--tls-certificate", folder / "c.pem", "--tls-key", folder / "k.pem")
    line = refused(folder / "one.arrow", "--uri", "tcp+tls:", *files, code=1)
    assert f"--tls-key: others can read the file of the private key, {folder / 'k.pem'}" in line


def test_files_of_tls_are_read_once(folder, tmp_path, monkeypatch):
    """So what is checked, and compared at a reload, is what is used."""
    made = Certificates(tmp_path)
    files = [made.server, made.key(made.server), made.issuer]
    opened = []
    open_one = os.open

    def counting(path: str, *arguments: int, **options: int) -> int:
        opened.append(Path(path))
        return open_one(path, *arguments, **options)

    names = ("tls_certificate", "tls_key", "tls_client_roots")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", counting)
        setup = read_setup(None, {"uri": ("tcp+tls:",), **dict(zip(names, files, strict=True))}, {})
    assert setup.tls is not None
    assert [opened.count(file) for file in files] == [1, 1, 1]


def test_named_pipes_are_not_waited_for(folder):
    for name in ("pipe.pem", "pipe.arrow"):
        os.mkfifo(folder / name)
    line = refused(folder / "one.arrow", "--uri", "tcp+tls:", "--tls-certificate", folder / "pipe.pem")
    assert "isn't a regular file" in line
    config = folder / "pipes.toml"
    config.write_text(f'[tables]\na = "{folder / "pipe.arrow"}"\n')
    assert "is neither a file nor a folder" in refused("--config", config, "--check")


@pytest.mark.parametrize("text", ["x = " + "[" * 20_000, "[server]\nwindow = " + "1" * 5000])
def test_numbers_and_nesting_without_end(folder, text):
    config = folder / "long.toml"
    config.write_text(text)
    assert "long.toml" in refused("--config", config)


def test_logins(tmp_path, monkeypatch):
    done = subprocess.run(
        [*COMMAND, "hash-password", "ada"], input="a pass:word\n", capture_output=True, text=True, check=True
    )
    path = tmp_path / "logins"
    path.write_text(f"# users\n\n{done.stdout}{hashed_login('bob', 'x')}\n")
    path.chmod(0o600)
    logins = Logins(path)
    assert logins("ada", "a pass:word")
    assert logins("bob", "x")
    assert not logins("ada", "x")
    assert not logins("eve", "x")
    for wrong in (
        "ada:plain",
        "ada:scrypt:3:8:1:AAAA:AAAA",
        f"{hashed_login('a', 'b')}:more",
        "ada:scrypt:99999999999:8:1:AA==:AA==",
    ):
        path.write_text(wrong)
        with pytest.raises(xd.InvalidArgumentError, match="line 1"):
            Logins(path)
    path.write_text(f"{hashed_login('ada', 'x')}\n{hashed_login('ada', 'y')}\n")
    with pytest.raises(xd.InvalidArgumentError, match="line 2: ada has a login already"):
        Logins(path)


# ---- SIGHUP ----


@pytest.fixture
def service(serve, folder) -> Service:
    path = config(folder, '[tables]\none = "one.arrow"\ntwo = "two.arrow"\nthree = "three.parquet"\n')
    return serve("--config", path, "--uri", "shm:reloading")


def reload(service: Service, words: str = "reloaded: ") -> str:
    service.send(signal.SIGHUP)
    return service.read_until(words)


def versions(uri: str) -> dict[str | bytes, int | None]:
    with xd.connect(uri) as client:
        return {entry.name: entry.version for entry in client.list()}


def test_what_is_the_same_isnt_read_again(service, folder):
    before = versions(service.uri)
    assert reload(service).endswith("0 added, 0 replaced, 0 withdrawn, 3 unchanged")
    assert versions(service.uri) == before


def test_a_table_that_moves_in_the_configuration_is_the_same(service, folder):
    before = versions(service.uri)
    config(folder, '# A comment.\n[tables]\nthree = "three.parquet"\n\ntwo = "two.arrow"\none = "one.arrow"\n')
    assert reload(service).endswith("0 added, 0 replaced, 0 withdrawn, 3 unchanged")
    assert versions(service.uri) == before


def test_files_that_have_changed_are_replaced(service, folder):
    before = versions(service.uri)
    write(folder / "two.arrow", 22)
    write(folder / "three.parquet", 33)
    assert reload(service).endswith("0 added, 2 replaced, 0 withdrawn, 1 unchanged")
    after = versions(service.uri)
    assert [name for name in before if after[name] != before[name]] == ["three", "two"]
    assert tables(service.uri) == {"one": [1], "two": [22], "three": [33]}


def test_tables_come_and_go(service, folder):
    write(folder / "four.arrow", 4)
    config(folder, '[tables]\none = "one.arrow"\nfour = "four.arrow"\n')
    assert reload(service).endswith("1 added, 0 replaced, 2 withdrawn, 1 unchanged")
    assert tables(service.uri) == {"one": [1], "four": [4]}


BROKEN = {
    "malformed": '[tables]\none = "one.arrow\n',
    "an unknown key": '[tables]\none = "two.arrow"\n[server]\nwindows = 3\n',
    "a table that is gone": '[tables]\none = "two.arrow"\nfour = "absent.arrow"\n',
    "a file that is damaged": '[tables]\none = "two.arrow"\nfour = "damaged.arrow"\n',
    "a Parquet file that is damaged": '[tables]\none = "two.arrow"\nfour = "damaged.parquet"\n',
    "empty": "",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_wrong_changes_nothing_and_is_said(service, folder, text):
    (folder / "damaged.arrow").write_bytes((folder / "one.arrow").read_bytes()[:100])
    (folder / "damaged.parquet").write_bytes((folder / "three.parquet").read_bytes()[:100])
    before = versions(service.uri)
    config(folder, text)
    line = reload(service, "the reload has failed, and nothing has changed: ")
    assert "ERROR" in line
    assert str(folder) in line
    assert versions(service.uri) == before
    config(folder, '[tables]\none = "one.arrow"\n')
    reload(service)
    assert list(versions(service.uri)) == ["one"]


def test_a_file_that_is_gone_changes_nothing(service, folder):
    (folder / "two.arrow").unlink()
    assert "two.arrow" in reload(service, "the reload has failed")
    assert tables(service.uri) == {"one": [1], "two": [2], "three": [3]}


def test_what_needs_a_restart_is_named(service, folder):
    config(folder, '[server]\nuri = "shm:other"\nwindow = 3\n[limits]\nmax_depth = 9\n[tables]\none = "one.arrow"\n')
    line = reload(service, "need a restart")
    assert line.endswith("these changes need a restart: server.window, limits")  # the URI is the command line's
    assert list(versions(service.uri)) == ["one"]


def test_secrets_and_certificates_need_a_restart(serve, folder, tmp_path):
    made = Certificates(tmp_path)
    text = f"""
[server]
uri = "tcp+tls:"
token_file = "token"
[tls]
certificate = "{made.server}"
key = "{made.key(made.server)}"
[tables]
one = "one.arrow"
"""
    service = serve("--config", config(folder, text))
    assert reload(service).endswith("1 unchanged")
    (folder / "token").write_text("another secret\n")
    with made.server.open("a") as certificate:
        certificate.write("# another\n")
    for _ in range(2):  # it is said until it is done
        assert reload(service, "need a restart").endswith("a restart: the token, the files of tls")
    (folder / "token").chmod(0o644)
    line = reload(service, "has failed")
    assert f"PermissionError: {folder / 'c.toml'}, line 4: server.token_file: others can read the file of the" in line
    (folder / "token").chmod(0o600)
    made.server.unlink()
    line = reload(service, "has failed")
    assert f"NotFoundError: {folder / 'c.toml'}, line 6: tls.certificate: the file {made.server} doesn't exist" in line
    assert service.stop() == 0


def test_the_level_of_the_log_is_read_again(folder, no_leftovers):
    path = config(folder, '[tables]\none = "one.arrow"\n')
    service = Service("serve", "--config", path)
    try:
        config(folder, '[log]\nlevel = "info"\n[tables]\none = "one.arrow"\n')
        reload(service)
        with xd.connect(service.uri) as client, pytest.raises(xd.NotFoundError):
            client.get("absent")
        service.read_until("absent")  # of the library's own thread
        assert service.stop() == 0
    finally:
        service.close()


def test_what_the_command_says_itself_has_no_limit(serve, folder):
    names = [f"t{number}" for number in range(40)]
    service = serve("--config", config(folder, "[tables]\n" + "".join(f'{name} = "one.arrow"\n' for name in names)))
    assert service.stop() == 0
    assert [line.split()[-2] for line in service.errors if "published" in line] == [f"{name}:" for name in names]


def test_the_manager_is_told_of_reloads(serve, folder):
    manager = Manager(str(folder / "notify"))
    path = config(folder, '[tables]\none = "one.arrow"\n')
    service = serve("--config", path, env={"NOTIFY_SOCKET": manager.address})
    manager.next_with("READY")
    reload(service)
    message = manager.next()
    assert message["RELOADING"] == "1"
    assert int(message["MONOTONIC_USEC"]) > 0
    assert manager.next() == {"READY": "1", "STATUS": f"serving 1 table at {service.uri}"}
    config(folder, "[tables\n")
    reload(service, "has failed")
    assert "RELOADING" in manager.next()
    assert "; the last reload has failed: InvalidArgumentError: " in manager.next()["STATUS"]
    assert service.stop() == 0
    manager.close()


def test_signals_that_come_quickly_are_one_reload_or_more(service, folder):
    for number in range(10, 20):
        write(folder / "one.arrow", number)
        service.send(signal.SIGHUP)
    while tables(service.uri)["one"] != [19]:
        service.read_until("reloaded: ")
    assert service.stop() == 0


@pytest.mark.long
def test_a_signal_while_loading_reloads_afterwards(serve, folder):
    rows = "".join(f"{n},{n * 7}\n" for n in range(200_000))
    (folder / "big").mkdir()
    for number in range(10):
        (folder / "big" / f"{number:02}.csv").write_text("n,m\n" + rows)
    text = '[tables]\none = "one.arrow"\nbig = "big"\n'
    service = serve("--config", config(folder, text), "--uri", "shm:loading", lines=0)
    service.read_until("published one")
    config(folder, '[tables]\ntwo = "two.arrow"\n')
    service.send(signal.SIGHUP)
    service.read_until("published big")
    assert service.read_until("reloaded: ").endswith("1 added, 0 replaced, 2 withdrawn, 0 unchanged")
    assert list(versions("shm:loading")) == ["two"]
    assert service.stop() == 0


def test_without_a_configuration_the_signal_ends_it(serve, folder):
    service = serve(folder / "one.arrow")
    assert service.stop(signal.SIGHUP) == 0


def test_nohup_is_respected(serve, folder):
    service = serve("--config", config(folder, '[tables]\none = "one.arrow"\n'), before=("nohup",))
    service.send(signal.SIGHUP)
    assert tables(service.uri) == {"one": [1]}
    assert service.stop() == 0
    assert not any("reload" in line for line in service.errors)


def test_readers_notice_nothing_of_reloads(service, folder):
    """Each reader gets a whole table, the old one or the new one, at any time."""
    stop = threading.Event()
    failures: list[BaseException] = []
    reads = 0

    def read() -> None:
        nonlocal reads
        try:
            with xd.connect(service.uri) as client:
                while not stop.is_set():
                    one, two = (pa.table(client.get(name))["n"].to_pylist() for name in ("one", "two"))
                    assert len(set(one)) == len(set(two)) == 1
                    reads += 1
        except BaseException as failure:
            failures.append(failure)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(10, 20):
        write(folder / "one.arrow", *[number] * 1000)
        write(folder / "two.arrow", *[number] * 1000)
        reload(service)
    stop.set()
    reader.join(60)
    assert failures == []
    assert reads


def test_logins_and_keys_are_read_again(serve, folder):
    pytest.importorskip("pyarrow.flight")
    (folder / "logins").write_text(hashed_login("ada", "old") + "\n")
    (folder / "keys").write_text("00" * 32 + "\n")
    for name in ("logins", "keys"):
        (folder / name).chmod(0o600)
    path = config(
        folder,
        '[flight]\nuri = "grpc://127.0.0.1:0"\nlogins = "logins"\nticket_keys = "keys"\n[tables]\none = "one.arrow"\n',
    )
    service = serve("--config", path, "--uri", "tcp:", lines=2)
    flight = service.uris[1]
    with xd.connect(flight, login=("ada", "old")) as client:
        assert [entry.name for entry in client.list()] == ["one"]
    (folder / "logins").write_text(hashed_login("ada", "new") + "\n")
    (folder / "keys").write_text("11" * 32 + "\n")
    reload(service)
    with xd.connect(flight, login=("ada", "new")) as client:
        assert [entry.name for entry in client.list()] == ["one"]
    with pytest.raises(xd.PermissionError):
        xd.connect(flight, login=("ada", "old")).list()
    assert service.stop() == 0
