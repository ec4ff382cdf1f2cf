"""Where `crossdock serve` listens, what it logs, how it ends, and how its servers are found again."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import crossdock as xd

TABLE = pa.table({"n": [1, 2, 3]})
COMMAND = [sys.executable, "-m", "crossdock"]


def crossdock(*arguments: object, expect: int = 0) -> tuple[str, str]:
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr


class Serving:
    def __init__(self, *arguments: object, before: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [*before, *COMMAND, "serve", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.uri = self.process.stdout.readline().strip()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err


@pytest.fixture
def serve(no_leftovers: None) -> Iterator[type[Serving]]:
    started: list[Serving] = []

    class Started(Serving):
        def __init__(self, *arguments: object, before: tuple[str, ...] = ()) -> None:
            super().__init__(*arguments, before=before)
            started.append(self)

    yield Started
    for one in started:
        one.stop()


def file(folder: Path, stem: str = "flights") -> Path:
    xd.write(TABLE, folder / f"{stem}.arrow")
    return folder / f"{stem}.arrow"


def names_folder() -> Path:
    return Path(os.environ["XDG_RUNTIME_DIR"]) / "crossdock"


# ---- names ----


@pytest.mark.parametrize(
    ("stem", "uri"),
    [
        ("flights", "shm:flights"),
        ("flights 2013 (all)", "shm:flights-2013-all"),
        ("..x", "shm:x"),
        ("-o", "shm:o"),
        ("flüge", "shm:fl-ge"),
        ("日本", "shm:tables"),
        ("$(rm -r x);&", "shm:rm-r-x"),
        ("n" * 200, f"shm:{'n' * 40}"),
    ],
)
def test_the_uri_needs_no_quotes_whatever_the_file_is_called(serve, tmp_path, stem, uri):
    serving = serve("--", file(tmp_path, stem))
    assert serving.uri == uri
    assert re.fullmatch(r"[A-Za-z0-9:._-]+", serving.uri)
    with xd.connect(serving.uri) as client:
        assert pa.table(client.get(stem)) == TABLE


@pytest.mark.long
def test_the_uri_is_the_same_after_a_restart(serve, tmp_path):
    path = file(tmp_path)
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
        serving = serve(path)
        assert serving.uri == "shm:flights"
        crossdock("ls", "shm:flights")
        serving.stop(number)


def test_a_name_in_use_gets_a_number_and_says_so(serve, tmp_path):
    path = file(tmp_path)
    first, second = serve(path), serve(path)
    assert (first.uri, second.uri) == ("shm:flights", "shm:flights-2")
    assert second.stop() == (0, "shm:flights is in use by another server of yours; this one is shm:flights-2\n")
    assert serve(path).uri == "shm:flights-2"


def test_a_name_that_was_asked_for_and_is_in_use_is_an_error(serve, tmp_path):
    path = file(tmp_path)
    assert serve(path, "--uri", "shm:mine").uri == "shm:mine"
    _, err = crossdock("serve", path, "--uri", "shm:mine", expect=4)
    assert err.startswith("ConnectionError: shm:mine is in use by a live server")
    assert err.count("\n") == 1


@pytest.mark.long
def test_what_was_meant_is_said_at_the_first_attempt(tmp_path, monkeypatch):
    path = file(tmp_path)
    for uri, words in (
        ("shm://flights", "write shm:flights"),
        ("shm:///tmp/x.sock", "write shm:/tmp/x.sock"),
        ("shm:new comer", "a name has only letters, digits"),
        ("newcomer-f", "did you mean shm:newcomer-f?"),
    ):
        for arguments in (("serve", path, "--uri", uri), ("get", uri, "t")):
            _, err = crossdock(*arguments, expect=2)
            assert err.startswith("UriError: ")
            assert words in err
    for arguments, kind in (
        (("ls", "localhost:7700"), "SchemeError"),
        (("serve", path, "--uri", "my-host:1"), "UriError"),
        (("ls", "10.0.0.7:7700"), "UriError"),
        (("get", "[::1]:7700"), "UriError"),
    ):
        _, err = crossdock(*arguments, expect=2)
        assert err.startswith(f"{kind}: ")
        assert err.endswith(f"; did you mean tcp://{arguments[-1]}?\n")
    for option, text, meant in (
        ("--uri", "7700", "tcp://localhost:7700"),
        ("--flight", "8815", "grpc://localhost:8815"),
        ("--flight", "my-host", "grpc://my-host:PORT"),
    ):
        _, err = crossdock("serve", path, option, text, expect=2)
        assert err.endswith(f", not '{text}'; did you mean {meant}?\n"), err
    _, err = crossdock("ls", "localhost:http", expect=2)
    assert "did you mean" not in err
    monkeypatch.chdir(tmp_path)
    _, err = crossdock("serve", path, "--uri", "shm:nowhere/f", expect=3)
    assert f"the folder of shm:{tmp_path}/nowhere/f doesn't exist" in err


def test_a_file_in_place_of_a_uri_says_which_commands_take_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file(tmp_path)
    (tmp_path / "my planes.parquet").touch()
    (tmp_path / "folder").mkdir()
    expected = "and the URI of a server is expected here, such as shm:flights; "
    inspects, serves = (
        "`crossdock inspect flights.arrow` shows what is in it, ",
        "`crossdock serve flights.arrow` serves it",
    )
    for command in ("get", "ls", "top", "relay"):
        _, err = crossdock(command, "flights.arrow", expect=2)
        assert err == f"UriError: flights.arrow is a file, {expected}{inspects}{serves}\n"
    _, err = crossdock("get", "my planes.parquet", expect=2)
    assert err == f"UriError: my planes.parquet is a file, {expected}`crossdock serve 'my planes.parquet'` serves it\n"
    _, err = crossdock("ls", "folder", expect=2)
    assert err == f"UriError: folder is a folder, {expected}`crossdock serve folder` serves it\n"
    _, err = crossdock("ls", "flights", expect=2)
    assert err.endswith("; did you mean shm:flights?\n")


@pytest.mark.parametrize("uri", ["shm:flights", "tcp://localhost:7700"])
def test_a_uri_in_place_of_a_file_says_where_it_goes(uri):
    _, err = crossdock("serve", uri, expect=2)
    assert err == (
        f"InvalidArgumentError: {uri} is the URI of a server, and a file to serve is expected here; to listen at this "
        f"URI, give the file and --uri {uri}\n"
    )


def test_a_port_alone_is_said_to_be_one(tmp_path):
    path = file(tmp_path)
    for uri, error in (
        ("tcp:7700", "bad address 'tcp:7700': two slashes must follow the scheme; did you mean tcp://localhost:7700?"),
        ("tcp://7700", "bad address 'tcp://7700': 7700 is a host here, not a port; did you mean tcp://localhost:7700?"),
    ):
        for arguments, place in ((("ls", uri), ""), (("relay", uri), ""), (("serve", path, "--uri", uri), "--uri: ")):
            _, err = crossdock(*arguments, expect=2)
            assert err == f"UriError: {place}{error}\n"
    for given, meant in (("7700", "localhost:7700"), ("http://host:80/", "host:80"), ("http://[::1]:80", "[::1]:80")):
        _, err = crossdock("ls", given, expect=2)
        assert err.endswith(f"; did you mean tcp://{meant}?\n")
    _, err = crossdock("relay", "host:7700", expect=2)
    assert err.endswith("; did you mean tcp://host:7700?\n")
    for given in ("http:80", "grpc:80", "ftp://host:80"):
        _, err = crossdock("ls", given, expect=2)
        assert "did you mean" not in err


def test_a_password_in_a_uri_is_not_shown(tmp_path):
    path = file(tmp_path)
    for uri in ("tcp://me:secret@host:1", "tcp+tls://:secret@host:1", "grpc://me:secret@host:1", "ucx://secret@host:1"):
        for arguments in (("ls", uri), ("serve", path, "--uri", uri), ("relay", uri), ("inspect", uri, "t")):
            _, err = crossdock(*arguments, expect=2)
            assert "secret" not in err
    for text in ("secret@host:1", "me:secret@host:1"):
        _, err = crossdock("serve", path, "--uri", text, expect=2)
        assert "secret" not in err
        assert "...@host:1" in err
    _, err = crossdock("serve", "https://me:secret@host/t.arrow", expect=2)
    assert "'https://...@host/t.arrow' is a URL" in err


def test_another_program_is_asked_about():
    with socket.create_server(("127.0.0.1", 0)) as other:
        uri = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        _, err = crossdock("ls", uri, "--timeout", 0.25, expect=4)
    assert err == f"TimeoutError: {uri} didn't answer within 0.25 s: is it a Crossdock server?\n"


def test_a_missing_token_says_how_it_is_given(monkeypatch):
    monkeypatch.delenv("CROSSDOCK_TOKEN", raising=False)
    with xd.serve({"t": TABLE}, "tcp:", token="a secret") as server:
        _, err = crossdock("ls", server.uri, expect=1)
    assert err.endswith(
        "this server requires a token, and the client has none: give it as token= in Python, or in CROSSDOCK_TOKEN to "
        "the command crossdock\n"
    )


@pytest.mark.parametrize("name", ["..", ".", "a b", "-x", "a\\b", "n" * 49, "n" * 10_000, "fl\u00fcge", "\udcff\udcfe"])
def test_what_is_no_name_is_wrong_usage(tmp_path, name):
    path = file(tmp_path)
    for arguments in (("serve", path, "--uri", f"shm:{name}"), ("ls", f"shm:{name}")):
        done = subprocess.run(
            [os.fsencode(one) for one in (*COMMAND, *map(str, arguments))], capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith(b"UriError: ")
        assert len(done.stderr) < 1000


@pytest.mark.long
def test_a_name_is_nothing_in_the_current_folder(serve, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = file(tmp_path)
    assert serve(path, "--uri", "shm:mine").uri == "shm:mine"
    assert (names_folder() / "mine.sock").is_socket()
    assert not (tmp_path / "mine").exists()
    assert serve(path, "--uri", "shm:./mine").uri.endswith("/mine")
    assert (tmp_path / "mine").is_socket()
    assert crossdock("ls", "shm:./mine")[0] == crossdock("ls", "shm:mine")[0]


@pytest.mark.long
def test_a_folder_of_names_that_others_can_enter_is_refused(serve, tmp_path):
    names_folder().mkdir(mode=0o755)
    path = file(tmp_path)
    for arguments in (("serve", path), ("ls", "shm:flights"), ("ls",)):
        _, err = crossdock(*arguments, expect=1)
        assert err.startswith("PermissionError: ")
        assert f"chmod 700 {names_folder()}" in err
    assert serve(path, "--uri", f"shm:{tmp_path}/x.sock").uri == f"shm:{tmp_path}/x.sock"


def test_a_location_of_an_earlier_server_says_so(tmp_path):
    with xd.serve({"t": TABLE}, "shm:t") as server:
        (location,) = server.locations
        assert server.uri == "shm:t"
        assert location.startswith("shm:t?want_data=")
        crossdock("ls", location)
    with xd.serve({"t": TABLE}, "shm:t"):
        _, err = crossdock("ls", location, expect=4)
        assert err == (
            "HandshakeError: This URI is from an earlier server at the same address. Use the current one, or leave out "
            "everything after '?'.\n"
        )


def test_a_picked_uri_is_short():
    with xd.serve({"t": TABLE}) as one, xd.serve({"t": TABLE}) as two:
        assert one.uri == f"shm:crossdock-{os.getpid()}"
        assert two.uri == f"shm:crossdock-{os.getpid()}-2"
        assert repr(one) == f"<crossdock.Server {one.uri}>"


# ---- ls without a URI ----


@pytest.mark.long
def test_ls_lists_ones_own_servers(serve, tmp_path):
    out, err = crossdock("ls")
    assert out == ""
    assert "crossdock serve FILE" in err
    serve(file(tmp_path), file(tmp_path, "planes"))
    serve(file(tmp_path), "--uri", "shm:other")
    killed = serve(file(tmp_path), "--uri", "shm:killed")
    killed.process.kill()
    killed.process.wait()
    out, err = crossdock("ls")
    assert [line.split() for line in out.splitlines()] == [
        ["uri", "tables", "names"],
        ["shm:flights", "2", "flights,", "planes"],
        ["shm:other", "1", "flights"],
    ]
    assert err == ""
    for left in names_folder().glob("killed*"):
        left.unlink()


@pytest.mark.long
def test_ls_waits_for_no_server_that_doesnt_answer(serve, tmp_path):
    serve(file(tmp_path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.bind(str(names_folder() / "silent.sock"))
        silent.listen()
        out, _ = crossdock("ls")
        assert [line.split() for line in out.splitlines()[1:]] == [
            ["shm:flights", "1", "flights"],
            ["shm:silent", "?", "TimeoutError"],
        ]
    (names_folder() / "silent.sock").unlink()


# ---- the log, and the end ----


def test_broken_protocols_are_logged_without_being_asked_for(serve, tmp_path):
    serving = serve(file(tmp_path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.connect(str(names_folder() / "flights.sock"))
        stranger.send(b"GET / HTTP/1.1\r\n\x1b]0;pwned\x07")
        assert stranger.recv(512)
    crossdock("ls", serving.uri)
    crossdock("get", serving.uri, "misspelt", expect=3)
    code, err = serving.stop()
    assert code == 0
    (line,) = err.splitlines()
    assert re.match(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d WARNING: a client of shm:.* was rejected: the client sent no HELLO", line
    )


def test_a_flood_of_warnings_is_cut(serve, tmp_path):
    serving = serve(file(tmp_path))
    for _ in range(60):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
            stranger.connect(str(names_folder() / "flights.sock"))
            stranger.send(b"nonsense")
            stranger.recv(512)
    _, err = serving.stop()
    assert 1 <= len(err.splitlines()) < 60


def test_a_program_that_set_up_no_logging_gets_warnings(script):
    program = script("""
        import sys
        import crossdock as xd
        with xd.serve({}, "tcp:", token="a secret of some length") as server:
            print(server.uri, flush=True)
            sys.stdin.readline()
    """)
    with pytest.raises(xd.PermissionError):
        xd.connect(program.read_line(), token="a guess")
    program.write_line()
    _, err = program.process.communicate(timeout=60)
    assert program.process.returncode == 0
    assert "gave a wrong token" in err


def test_a_closed_terminal_ends_serve_and_takes_the_socket_away(serve, tmp_path):
    serving = serve(file(tmp_path))
    assert serving.stop(signal.SIGHUP) == (0, "")
    assert not names_folder().exists()


def test_nohup_is_respected(serve, tmp_path):
    serving = serve(file(tmp_path), before=("nohup",))
    serving.process.send_signal(signal.SIGHUP)
    (ignored,) = re.findall(r"SigIgn:\s*(\w+)", Path(f"/proc/{serving.process.pid}/status").read_text())
    assert int(ignored, 16) & 1 << signal.SIGHUP - 1
    crossdock("ls", serving.uri)
    assert serving.stop()[0] == 0
