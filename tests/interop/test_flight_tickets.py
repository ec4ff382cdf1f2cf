"""Tickets that a Flight server signs, and logins: what a stranger, a user and the holder of a ticket may do."""

import secrets
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import crossdock as xd

flight = pytest.importorskip("pyarrow.flight")

pytestmark = pytest.mark.usefixtures("each_grpc")

FREE_PORT = "grpc://127.0.0.1:0"
TABLE = pa.table({"n": [1, 2, 3]})
OTHER = pa.table({"n": [4]})


def is_ada(user: str, password: str) -> bool:
    return (user, password) == ("ada", "lace")


def serve(uri="tcp:", sources=None, **options):
    options.setdefault("authenticate", is_ada)
    return xd.serve(sources or {"t": TABLE, "u": OTHER}, uri, flight=FREE_PORT, **options)


def log_in(server, user="ada", password="lace"):
    """Returns pyarrow's client, and the options of a call by this user."""
    client = flight.connect(server.flight_uri)
    return client, flight.FlightCallOptions(headers=[client.authenticate_basic_token(user, password)])


def ticket_of(server, name="t") -> bytes:
    client, options = log_in(server)
    with client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path(name), options)
        return info.endpoints[0].ticket.ticket


def read(server, ticket: bytes) -> pa.Table:
    """Reads over tcp, as somebody who knows nothing but an address and a ticket."""
    with xd.connect(server.uri) as client:
        return pa.table(client.get(ticket))


class TestALogin:
    def test_leads_to_the_table_over_the_data_plane(self):
        with serve() as server, xd.connect(server.flight_uri, login=("ada", "lace")) as client:
            reader = client.get("t")
            assert pa.table(reader).equals(TABLE)
            assert reader.location.startswith("tcp:")
            assert [entry.name for entry in client.list()] == ["t", "u"]

    def test_is_pyarrows_too(self):
        with serve() as server:
            client, options = log_in(server)
            with client:
                assert len(list(client.list_flights(options=options))) == 2
                with pytest.raises(flight.FlightUnauthenticatedError, match="requires a login"):
                    list(client.list_flights())

    @pytest.mark.parametrize(
        "login", [("ada", "lac"), ("ada", ""), ("bob", "lace"), ("ada", "lace:"), ("x", "y" * 1024)]
    )
    def test_is_refused(self, login):
        with serve() as server, pytest.raises(xd.PermissionError, match="the user name or the password is wrong"):
            xd.connect(server.flight_uri, login=login)

    def test_that_is_wrong_is_logged(self, log_lines):
        with serve() as server:
            with pytest.raises(xd.PermissionError):
                xd.connect(server.flight_uri, login=("ada", "secret of hers"))
            line = log_lines.next()
            while "was refused" not in line:
                line = log_lines.next()
            assert line.startswith("a Flight client at ipv4:127.0.0.1:")
            assert line.endswith("was refused: the user name or the password is wrong")

    def test_is_checked_though_many_are_wrong(self):
        def wrong(number: int) -> bool:
            with pytest.raises(xd.PermissionError, match="the user name or the password is wrong"):
                xd.connect(server.flight_uri, login=("ada", str(number)))
            return True

        with serve() as server, ThreadPoolExecutor(8) as threads:
            tries = [threads.submit(wrong, number) for number in range(200)]
            for _ in range(5):
                with xd.connect(server.flight_uri, login=("ada", "lace")) as client:
                    assert pa.table(client.get("t")).equals(TABLE)
            assert all(one.result() for one in tries)

    def test_is_missing(self):
        with (
            serve() as server,
            pytest.raises(
                xd.PermissionError,
                match="call has none: give a user name and a password as login=",
            ),
        ):
            xd.connect(server.flight_uri)

    @pytest.mark.parametrize("secret", ["lace", "YWRhOmxhY2U="])
    def test_is_no_bearer_token(self, secret):
        with serve() as server, pytest.raises(xd.PermissionError, match="the token is wrong"):
            xd.connect(server.flight_uri, token=secret)

    def test_whose_check_fails_is_refused(self, log_lines):
        def failing(user, password):
            raise LookupError("no such file")

        for check, what in (
            (failing, "raised LookupError: no such file"),
            (lambda u, p: "yes", "True or False, not str"),
        ):
            with serve(authenticate=check) as server:
                with pytest.raises(xd.Error, match=r"authenticate\(\) has failed"):
                    xd.connect(server.flight_uri, login=("ada", "lace"))
                while what not in log_lines.next():
                    pass

    def test_that_takes_long_holds_up_nobody(self):
        asked, go_on = threading.Event(), threading.Event()

        def slow(user, password):
            if user == "slow":
                asked.set()
                assert go_on.wait(60)
            return True

        with serve(authenticate=slow) as server:
            results = []

            def connect():
                with xd.connect(server.flight_uri, login=("slow", "x")) as client:
                    results.append(len(client.list()))

            waiting = [threading.Thread(target=connect) for _ in range(8)]
            for thread in waiting:
                thread.start()
            assert asked.wait(30)
            with xd.connect(server.flight_uri, login=("ada", "x")) as client:
                assert pa.table(client.get("t")).equals(TABLE)
            assert not results
            go_on.set()
            for thread in waiting:
                thread.join(30)
            assert results == [2] * 8

    def test_is_made_again_when_the_keys_have_changed(self):
        asked = []

        def counting(user, password):
            asked.append(user)
            return is_ada(user, password)

        with (
            serve(authenticate=counting, puts="new") as server,
            xd.connect(server.flight_uri, login=("ada", "lace")) as client,
        ):
            for count in (1, 2, 3):
                assert pa.table(client.get("t")).equals(TABLE)
                assert len(asked) == count
                server.replace_ticket_keys([secrets.token_bytes(32)])
            client.put("v", OTHER)
            assert len(asked) == 4
            assert pa.table(client.get("v")).equals(OTHER)

    def test_goes_with_a_token(self):
        with serve(token="secret") as server:
            for options in ({"login": ("ada", "lace")}, {"token": "secret"}, {"login": ("any", "secret")}):
                with xd.connect(server.flight_uri, **options) as client:
                    reader = client.get("t")
                    assert pa.table(reader).equals(TABLE)
                    # Over tcp the token is asked for as well.
                    assert reader.location.startswith("tcp:" if "token" in options else "grpc:"), options

    def test_is_checked_before_it_is_sent(self):
        for login, error in (
            (("ada", 1), TypeError),
            ("ada:lace", TypeError),
            (("a:b", "c"), xd.InvalidArgumentError),
            (("", "c"), xd.InvalidArgumentError),
            (("a", "b" * 1025), xd.InvalidArgumentError),
        ):
            with pytest.raises(error, match=r"login|user name"):
                xd.connect("grpc://127.0.0.1:1", login=login)
        with pytest.raises(xd.InvalidArgumentError, match="login is for Flight servers"):
            xd.connect("tcp://127.0.0.1:1", login=("ada", "lace"))

    def test_of_the_command_is_in_the_environment(self, program, monkeypatch):
        def run(*arguments: str) -> str:
            return program(sys.executable, "-m", "crossdock", *arguments).finish()

        with serve() as server:
            monkeypatch.setenv("CROSSDOCK_LOGIN", "ada:lace")
            assert "u" in run("ls", server.flight_uri)
            assert "3" in run("get", server.flight_uri, "t")


def test_no_log_and_no_statistics_have_a_ticket(log_lines):
    """Whoever reads a log must not be able to read tables."""

    def failing():
        yield from TABLE.to_batches()
        raise ValueError("the sensor is gone")

    source = pa.RecordBatchReader.from_batches(TABLE.schema, failing())
    with serve() as server, xd.connect(server.flight_uri, login=("ada", "lace")) as client:
        server.publish("live", source)
        reader = client.get("live")
        next(reader)
        assert "XDT" not in str(server.stats())
        with pytest.raises(xd.RemoteError, match="the sensor is gone"):
            list(reader)
        line = log_lines.next()
        while "the stream" not in line:
            line = log_lines.next()
        assert "the stream 'live' to" in line
        ticket = ticket_of(server)
        with pytest.raises(xd.PermissionError), xd.connect(server.uri) as stranger:
            stranger.get(ticket[:-1] + bytes([ticket[-1] ^ 1]))
        assert "XDT" not in log_lines.next()


class TestATicket:
    def test_is_enough_for_its_table_as_often_as_one_likes(self):
        with serve() as server:
            ticket = ticket_of(server)
            for _ in range(3):
                assert read(server, ticket).equals(TABLE)
            with flight.connect(server.flight_uri) as stranger:
                assert stranger.do_get(flight.Ticket(ticket)).read_all().equals(TABLE)
                with pytest.raises(flight.FlightUnauthenticatedError):
                    list(stranger.list_flights())

    def test_of_another_name_gives_that_table(self):
        with serve() as server:
            assert read(server, ticket_of(server, "u")).equals(OTHER)

    def test_is_what_a_stranger_needs(self):
        with serve() as server, xd.connect(server.uri) as stranger:
            for ask in (lambda: stranger.get("t"), lambda: stranger.get(b"t")):
                with pytest.raises(xd.PermissionError, match="takes signed tickets from those"):
                    ask()
            with pytest.raises(xd.PermissionError, match="tells its names to those alone"):
                stranger.list()
            with flight.connect(server.flight_uri) as client, pytest.raises(flight.FlightUnauthenticatedError):
                client.do_get(flight.Ticket(b"t")).read_all()

    def test_is_no_login(self):
        with serve() as server, pytest.raises(xd.PermissionError, match="the token is wrong"):
            xd.connect(server.flight_uri, token=ticket_of(server).hex())

    def test_that_was_cut_or_changed_is_refused(self):
        with serve() as server, xd.connect(server.uri) as stranger:
            ticket = ticket_of(server)
            forged = [ticket[:size] for size in range(1, len(ticket))]
            forged += [ticket + b"x", ticket.replace(b"t" + ticket[25:], b"u" + ticket[25:])]
            forged += [ticket[:at] + bytes([ticket[at] ^ 1]) + ticket[at + 1 :] for at in range(len(ticket))]
            for wrong in forged:
                with pytest.raises(xd.PermissionError, match=r"ticket"):
                    stranger.get(wrong)
            assert pa.table(stranger.get(ticket)).equals(TABLE)

    def test_of_another_server_is_refused_unless_they_share_a_key(self):
        key = secrets.token_bytes(16)
        with serve() as one, serve() as other, serve(ticket_keys=[key]) as a, serve(ticket_keys=[bytes(20), key]) as b:
            with pytest.raises(xd.PermissionError, match="was signed by another server"):
                read(one, ticket_of(other))
            assert read(b, ticket_of(a)).equals(TABLE)
            with pytest.raises(xd.PermissionError, match="was signed by another server"):
                read(a, ticket_of(b))

    def test_ends_with_its_key(self):
        with serve() as server:
            first = ticket_of(server)
            server.replace_ticket_keys()
            assert read(server, first).equals(TABLE)
            second = ticket_of(server)
            server.replace_ticket_keys()
            assert read(server, second).equals(TABLE)
            with pytest.raises(xd.PermissionError, match="a key that is no longer valid"):
                read(server, first)

    def test_of_a_server_that_was_started_again_is_asked_for_anew(self):
        with serve() as server:
            uri, flight_uri = server.uri, server.flight_uri
            client = xd.connect(flight_uri, login=("ada", "lace"))
            assert pa.table(client.get("t")).equals(TABLE)
        with client, xd.serve({"t": OTHER}, uri, flight=flight_uri, authenticate=is_ada):
            assert pa.table(client.get("t")).equals(OTHER)

    def test_is_not_needed_by_those_who_are_known(self):
        with serve(["shm:", "tcp:"], token="secret") as server:
            with xd.connect(server.uris[0]) as of_this_user:
                assert pa.table(of_this_user.get("t")).equals(TABLE)
            with xd.connect(server.uris[1], token="secret") as with_token:
                assert pa.table(with_token.get("t")).equals(TABLE)

    def test_is_a_name_where_nobody_is_asked(self):
        with xd.serve({"t": TABLE}, "tcp:", flight=FREE_PORT) as server, flight.connect(server.flight_uri) as client:
            info = client.get_flight_info(flight.FlightDescriptor.for_path("t"))
            assert info.endpoints[0].ticket.ticket == b"t"
            with pytest.raises(xd.InvalidArgumentError, match="signs no tickets"):
                server.replace_ticket_keys()

    def test_and_a_name_are_never_confused(self):
        with serve() as server, pytest.raises(xd.InvalidArgumentError, match="begins as a signed ticket"):
            server.publish(b"XDT\x01", TABLE)


@pytest.mark.parametrize(
    ("options", "error", "what"),
    [
        ({"ticket_keys": [b"short"]}, xd.InvalidArgumentError, "16 to 1024"),
        ({"ticket_keys": []}, xd.InvalidArgumentError, "no ticket keys"),
        ({"ticket_keys": bytes(16)}, TypeError, "a list of bytes"),
        ({"ticket_keys": ["x" * 16]}, TypeError, "must be bytes"),
        ({"ticket_keys": [bytes(16)] * 17}, xd.InvalidArgumentError, "16 are the most"),
        ({"ticket_lifetime": 0}, xd.InvalidArgumentError, "more than 0"),
        ({"login_lifetime": None}, TypeError, "seconds"),
        ({"authenticate": "ada"}, TypeError, "callable"),
    ],
)
def test_options_are_checked(options, error, what):
    with pytest.raises(error, match=what):
        serve(**options)


def test_options_belong_to_a_flight_server():
    for options in ({"authenticate": is_ada}, {"ticket_keys": [bytes(16)]}):
        with pytest.raises(xd.InvalidArgumentError, match="is for a Flight server"):
            xd.serve({}, **options)
    with pytest.raises(xd.InvalidArgumentError, match="token= or authenticate="):
        xd.serve({}, flight=FREE_PORT, ticket_keys=[bytes(16)])
