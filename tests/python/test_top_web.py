"""The page of `crossdock top --web`: its HTTP server, and the page in a browser."""

from __future__ import annotations

import json
import re
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.browser import Browser
from tests.server_samples import Server, consumer, source, statistics

import crossdock as xd
from crossdock import _http
from crossdock._http import Address
from crossdock.cli.monitor import web
from crossdock.cli.monitor.event import MOST_ROWS, Choice, event_of
from crossdock.cli.monitor.look import Look, Observed

HOSTILE = "<script>document.title='x'</script><img src=x onerror=alert(1)>\x1b[31m\u202e" + "n" * 100_000


class Page:
    """A page server, to which a test hands what is to be shown."""

    def __init__(self) -> None:
        self.start(0)

    def start(self, port: int) -> None:
        self.server = web.PageServer(Address.of(str(port)))
        self.url = self.server.url
        self.port = int(self.url.rstrip("/").rpartition(":")[2])

    def show(self, look: Look) -> None:
        self.server.found(look)

    def ask(self, request: bytes) -> bytes:
        """The whole answer to a request."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(request)
            answer = b""
            while part := connection.recv(65536):
                answer += part
            return answer

    def close(self) -> None:
        self.server.close()


@pytest.fixture
def page(no_leftovers: None) -> Iterator[Page]:
    made = Page()
    yield made
    made.close()


def look_at(*answers: dict[str, Any] | Exception) -> Look:
    server = Server(*answers)
    observed = Observed("shm:flights", lambda: server)
    for _ in answers:
        look = observed.look()
    return look


def two(consumers: int, sources: list[dict[str, Any]] | None = None, **other: Any) -> Look:
    """A look with rates: the first consumer is the fastest."""
    return look_at(
        *(
            statistics(
                [
                    consumer(i + 1, bytes=second * (consumers - i) * 2**20, leases=i, leased_bytes=i * 1000)
                    for i in range(consumers)
                ],
                sources,
                **({"uptime": second} | other),
            )
            for second in (1.0, 2.0)
        )
    )


# ---- what is sent ----


@pytest.mark.long
def test_an_event_is_bounded_whatever_the_server_says():
    many = [source(f"{i}{HOSTILE}", kind=HOSTILE) for i in range(10_000)]
    hostile = [
        consumer(i, pid=0, peer=HOSTILE, name=HOSTILE, why=HOSTILE, carrier=HOSTILE, way=HOSTILE) for i in range(10_000)
    ]
    look = look_at(
        statistics(hostile, many, version=HOSTILE, rejected_connections={HOSTILE + str(i): 1 for i in range(10_000)})
    )
    for query in ("", "view=tables&wanted=n", "view=rejected", "row=3"):
        text = json.dumps(event_of(look, Choice.of(query)))
        assert len(text) < 1_500_000, query
        assert all(one.isprintable() for one in str(json.loads(text))), query
    event = event_of(look, Choice.of("view=tables"))
    assert len(event["rows"]) == MOST_ROWS
    assert event["more"] == "the first 256 of 10,000 are shown: filter, or sort by another column"


@pytest.mark.parametrize(
    "query",
    [
        "", "view=nothing", "order=-1", "order=99", "order=²", "order=" + "9" * 5000, "view=%ff&wanted=%ff", "&" * 5000,
        "row=nobody", "a=1&" * 100, "descending=perhaps", "wanted=" + "x" * 5000,
    ],
)  # fmt: skip
def test_what_a_page_asks_for_is_checked(query):
    choice = Choice.of(query)
    assert choice.name == "consumers"
    assert choice.order == 2
    assert len(choice.wanted) <= 100
    assert json.dumps(event_of(two(3), choice))


def test_order_and_filter():
    look = two(5)
    rows = event_of(look, Choice.of("order=2&descending=false"))["rows"]
    assert [key for key, _ in rows] == ["5", "4", "3", "2", "1"]
    event = event_of(look, Choice.of("wanted=4003"))
    assert [key for key, _ in event["rows"]] == ["3"]
    assert event["more"] == "1 of 5"
    assert event_of(look, Choice.of("wanted=zzz"))["empty"] == "Nothing has 'zzz' in it."


# ---- over HTTP ----


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("8080", "127.0.0.1", 8080, True), ("127.0.0.1:1", "127.0.0.1", 1, True),
        ("[::1]:80", "::1", 80, True), ("*:80", "*", 80, False), ("LOCALHOST:0", "localhost", 0, True),
        ("box.example:80", "box.example", 80, False), ("10.0.0.1:80", "10.0.0.1", 80, False),
    ],
)  # fmt: skip
def test_addresses(text, host, port, loopback):
    address = Address.of(text)
    assert (address.host, address.port, address.is_loopback) == (host, port, loopback)


@pytest.mark.parametrize(
    "text", ["", "x", ":8080", "127.0.0.1", "1:2:3", "host:99999", "http://x:80", "a b:80", "[x]:1"]
)
def test_malformed_addresses(text):
    with pytest.raises(xd.InvalidArgumentError, match="8080 or \\*:8080, not"):
        Address.of(text)


def test_hosts_that_others_can_point_here_are_refused():
    loopback = Address.of("8080")
    for host in ("127.0.0.1:8080", "localhost", "LocalHost:9", "[::1]:8080", "192.168.1.7:8080"):
        assert loopback.allows(host), host
    for host in ("", "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "a:b:c"):
        assert not loopback.allows(host), host
    named = Address.of("box.example:80")
    assert named.allows("box.example:80")
    assert not named.allows("evil.example")
    assert Address.of("*:80").allows(socket.gethostname())


def test_the_page_is_self_contained_and_its_policy_names_its_parts(page):
    with urllib.request.urlopen(page.url, timeout=30) as answer:
        text = answer.read().decode()
        headers = answer.headers
    assert "http:" not in text
    assert "https:" not in text
    assert "innerHTML" not in text
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert len(re.findall("sha256-", policy)) == 2
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in headers


def request(line: str, *headers: str) -> bytes:
    return "\r\n".join((line, *headers, "", "")).encode()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request("POST / HTTP/1.1", "Host: localhost"), 405),
        (request("OPTIONS / HTTP/1.1", "Host: localhost", "Origin: http://evil.example"), 405),
        (request("GET / HTTP/1.1", "Host:"), 403),
        (request("GET / HTTP/1.1", "Host: evil.example"), 403),
        (request("GET / HTTP/1.1", "Host: localhost", "Host: evil.example"), 400),
        (request("GET /../../etc/passwd HTTP/1.1", "Host: localhost"), 404),
        (request("GET http://[ HTTP/1.1", "Host: localhost"), 400),
        (request("GET /events HTTP/1.1", "Host: localhost", "Sec-Fetch-Site: cross-site"), 403),
        (request("GET /"), 400),
        (request("GET / HTTP/1.1", "no colon"), 400),
        (request("GET / HTTP/1.1", "Host : localhost"), 400),
        (request("GET / HTTP/1.1", ": localhost"), 400),
        (b"\x16\x03\x01\x00\xff\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431),
    ],
)  # fmt: skip
def test_other_requests_are_refused(page, sent, status):
    answer = page.ask(sent)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer
    assert b"Access-Control" not in answer


def test_a_request_that_does_not_come_ends(page, monkeypatch):
    monkeypatch.setattr(_http, "REQUEST_SECONDS", 0.2)
    assert page.ask(b"GET / HT").startswith(b"HTTP/1.1 408 ")


def test_pages_are_bounded(page, monkeypatch):
    monkeypatch.setattr(web, "MOST_VIEWERS", 3)
    page.show(two(1))
    open_ones = [Events(page) for _ in range(3)]
    try:
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{page.url}events", timeout=30)
    finally:
        for one in open_ones:
            one.close()
    # The server sees that they have gone, without another event.
    wait_until(lambda: page.server._viewers == 0)
    urllib.request.urlopen(f"{page.url}events", timeout=30).close()


def test_pages_that_are_open_count_as_connections_and_are_not_ended_for_others(page, monkeypatch):
    monkeypatch.setattr(_http, "MOST_CONNECTIONS", 3)
    page.show(two(1))
    open_ones = [Events(page) for _ in range(3)]
    try:
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(page.url, timeout=30)
        page.show(two(2))
        for one in open_ones:
            assert one.next()
    finally:
        for one in open_ones:
            one.close()


def test_the_head_of_events_has_no_events(page):
    page.show(two(1))
    answer = page.ask(request("HEAD /events HTTP/1.1", "Host: localhost"))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"\r\n\r\n")


class Events:
    """A stream of events, read by a program."""

    def __init__(self, page: Page, query: str = "") -> None:
        self.connection = socket.create_connection(("127.0.0.1", page.port), timeout=30)
        self.connection.sendall(request(f"GET /events?{query} HTTP/1.1", "Host: localhost"))
        self.file = self.connection.makefile("rb")
        assert b"200" in self.file.readline()

    def next(self) -> dict[str, Any]:
        for line in self.file:
            if line.startswith(b"data: "):
                return json.loads(line[6:])
        raise AssertionError("the stream ended")

    def close(self) -> None:
        self.file.close()
        self.connection.close()


def wait_until(true: Callable[[], bool]) -> None:
    """Nothing tells a test when the server has noticed: it asks again and again."""
    pause = threading.Event()
    for _ in range(600):
        if true():
            return
        pause.wait(0.05)
    raise AssertionError("it doesn't become true")


def test_events_come_with_each_look(page):
    page.show(two(2))
    events = Events(page, "view=consumers")
    try:
        assert [key for key, _ in events.next()["rows"]] == ["1", "2"]
        page.show(two(1))
        assert [key for key, _ in events.next()["rows"]] == ["1"]
    finally:
        events.close()


def test_a_browser_that_reads_nothing_costs_a_bounded_amount_and_is_disconnected(page, monkeypatch):
    monkeypatch.setattr(_http, "ANSWER_SECONDS", 1.0)
    look = two(MOST_ROWS)
    page.show(look)
    events = Events(page)
    try:
        wait_until(lambda: page.server._viewers == 1)
        # Far more than the socket's buffers and the server's limit, if each were kept.
        pause = threading.Event()
        for _ in range(2000):
            page.show(look)
            pause.wait(0.001)
            if page.server._viewers == 0:
                break
        wait_until(lambda: page.server._viewers == 0)
    finally:
        events.close()


def test_an_address_that_is_taken_is_an_error(page):
    with pytest.raises(xd.ConnectionError, match=f":{page.port}: another program uses it; port 0 picks a free one"):
        Address.of(str(page.port)).listen()


# ---- in a browser ----


@pytest.fixture
def browser(no_leftovers: None) -> Iterator[Browser]:
    with Browser("--window-size=1300,800") as made:
        yield made


def test_a_browser_shows_it_and_keeps_it_up_to_date(page, browser, tmp_path):
    page.show(two(3, [source("flights")], rejected_connections={"late": 2}))
    browser.open(page.url)
    browser.wait_for("document.querySelectorAll('#rows tr').length === 3")
    assert browser.value("document.title") == "shm:flights - crossdock top"
    assert browser.text("#rows tr:first-child td:nth-child(1)") == "process 4001"
    assert browser.text("#rows tr:first-child td:nth-child(3)").strip() == "3.0 MiB"
    assert browser.text("#about").splitlines()[-1] == "2 (2 late)"
    page.show(two(5))
    browser.wait_for("document.querySelectorAll('#rows tr').length === 5")
    # Sorted by a column, the other way round by a second click.
    browser.click("#head th:nth-child(6) button")
    browser.wait_for("document.querySelector('#rows tr').dataset.key === '5'")
    browser.click("#head th:nth-child(6) button")
    browser.wait_for("document.querySelector('#rows tr').dataset.key === '1'")
    assert browser.value("document.querySelector('#head th:nth-child(6)').ariaSort") == "ascending"
    # One row, then another view, then a filter.
    browser.click("#rows tr:nth-child(2)")
    browser.wait_for("!document.getElementById('details').hidden")
    assert browser.text("#title") == "process 4002"
    assert "process 4002 of user 0" in browser.text("#pairs")
    page.show(two(1))
    browser.wait_for("!document.getElementById('gone').hidden")
    browser.click("#close")
    browser.wait_for("document.getElementById('details').hidden")
    browser.click("#views button:nth-child(2)")
    browser.wait_for("document.getElementById('empty').innerText === 'Nothing is published.'")
    browser.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
    assert browser.problems() == []


def test_foreign_texts_are_only_texts(page, browser):
    names = [HOSTILE, "</script><script>document.title='y'</script>", "\x00\n", b"\xff<b>"]
    page.show(
        look_at(
            statistics(
                [consumer(i + 1, pid=0, peer=HOSTILE, name=name, why=HOSTILE) for i, name in enumerate(names)],
                [source(name, kind=HOSTILE) for name in names],
                rejected_connections={HOSTILE: 1},
            )
        )
    )
    browser.open(page.url)
    for view in (1, 2, 3):
        browser.wait_for("document.querySelectorAll('#views button').length === 3")
        browser.click(f"#views button:nth-child({view})")
        browser.wait_for(f"document.querySelector('#views button:nth-child({view})').ariaSelected === 'true'")
        browser.click("#rows tr:nth-child(1)")
        browser.wait_for("!document.getElementById('details').hidden")
        assert browser.value("document.querySelectorAll('main script, main img, main b, aside img').length") == 0
        assert browser.value("document.documentElement.innerText.includes('<script>')")
    assert browser.value("document.title") == "shm:flights - crossdock top"
    assert browser.problems() == []


def test_a_lost_server_is_said_and_so_is_its_return(page, browser):
    page.show(look_at(statistics([consumer(1)]), xd.ConnectionError("the server has ended")))
    browser.open(page.url)
    browser.wait_for("document.getElementById('state').classList.contains('lost')")
    assert browser.text("#state").startswith("No server: ConnectionError: the server has ended Trying again.")
    assert browser.value("document.querySelectorAll('#rows tr').length") == 1
    page.show(two(2))
    browser.wait_for("document.getElementById('state').hidden")


def test_a_program_that_ended_is_said_and_found_again(page, browser):
    page.show(two(1))
    browser.open(page.url)
    browser.wait_for("document.querySelectorAll('#rows tr').length === 1")
    port = page.port
    page.close()
    browser.wait_for("document.getElementById('state').innerText.includes('has it ended?')")
    page.start(port)
    page.show(two(4))
    browser.wait_for("document.querySelectorAll('#rows tr').length === 4")


@pytest.mark.long
def test_a_page_that_is_open_for_long_does_not_grow(page, browser):
    looks = [two(count, rejected_connections={"late": count}) for count in (60, 40)]

    def state() -> tuple[int, int]:
        browser.call("HeapProfiler.collectGarbage")
        counters = browser.call("Memory.getDOMCounters")
        return counters["nodes"], browser.call("Runtime.getHeapUsage")["usedSize"]

    def send(count: int) -> None:
        for i in range(count):
            browser.value("window.before = latest")
            page.show(looks[i % 2])
            browser.wait_for("latest !== window.before")

    page.show(looks[1])
    browser.open(page.url)
    browser.wait_for("document.querySelectorAll('#rows tr').length === 40")
    send(50)
    nodes, heap = state()
    send(600)
    more_nodes, more_heap = state()
    assert more_nodes < nodes * 1.5
    assert more_heap < heap + 2_000_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colour_schemes_can_be_read(page, browser, scheme):
    page.show(two(3))
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.open(page.url)
    browser.wait_for("document.querySelectorAll('#rows tr').length === 3")
    contrast = """(() => {
      const light = (colour) => {
        const parts = colour.match(/[0-9.]+/g).slice(0, 3).map((one) => one / 255)
          .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
      };
      const of = (id, name) => light(getComputedStyle(document.querySelector(id))[name]);
      const back = of('#scroll', 'backgroundColor');
      return ['td', 'dt', '#head button', '#more'].map((id) => {
        const [low, high] = [of(id, 'color'), back].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
      }).concat(back);
    })()"""
    *ratios, back = browser.value(contrast)
    assert min(ratios) > 4.5
    assert (back < 0.2) == (scheme == "dark")
