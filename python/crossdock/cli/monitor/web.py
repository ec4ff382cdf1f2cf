"""A page about a server, for browsers: a small HTTP server for it, and nothing else."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import hashlib
import ipaddress
import json
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from urllib.parse import urlsplit

import crossdock as xd
from crossdock.cli.monitor.event import Choice, event_of
from crossdock.cli.monitor.look import Look, Observed, Watcher
from crossdock.cli.signals import end_signals

_MOST_CONNECTIONS = 32
_MOST_HEAD = 8192  # Bytes of a request.
_REQUEST_SECONDS = 5.0
_WRITE_SECONDS = 10.0  # A browser that reads nothing for so long is disconnected.
_MOST_BUFFERED = 64 << 10


@dataclass(frozen=True)
class Address:
    """Where to listen. `host` is as it was given; an empty one is the loopback."""

    host: str
    port: int

    @staticmethod
    def of(text: str) -> Address:
        """Reads "8080", "127.0.0.1:8080", "[::1]:8080", "name:8080" or "*:8080". Raises ValueError."""
        found = re.fullmatch(r"(?:(\[[0-9a-fA-F:.]+\]|\*|[A-Za-z0-9._-]*):)?([0-9]{1,5})", text)
        if found is None or int(found[2]) > 65535:
            raise ValueError(
                f"an address is a port of the loopback, as 8080, or as 127.0.0.1:8080 or *:8080, not {text!r}"
            )
        return Address((found[1] or "").strip("[]").lower(), int(found[2]))

    @property
    def is_loopback(self) -> bool:
        try:
            return self.host in ("", "localhost") or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def listen(self) -> socket.socket:
        """Raises `ConnectionError` for an address that is in use, or that this machine doesn't have."""
        host = {"": "127.0.0.1", "*": "0.0.0.0"}.get(self.host, self.host)
        try:
            family, kind, number, _, address = socket.getaddrinfo(
                host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listener = socket.socket(family, kind, number)
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(address)
                listener.listen(_MOST_CONNECTIONS)
            except BaseException:
                listener.close()
                raise
        except OSError as error:
            why = error.strerror or str(error)
            if error.errno == errno.EADDRINUSE:
                why = "another program uses it; port 0 picks a free one"
            raise xd.ConnectionError(f"can't serve the page at {host} port {self.port}: {why}") from None
        if not self.is_loopback:
            _own_names()
        return listener

    def allows(self, host: str) -> bool:
        """Whether a Host header names this server: any address, localhost, or the name that it listens at. Another name
        may be of a page elsewhere, whose owner lets it point to this machine (DNS rebinding)."""
        found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(:[0-9]{1,5})?", host)
        if found is None:
            return False
        name = found[1].strip("[]").lower()
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name)
            return True
        return name in {"localhost", self.host} - {"", "*"} or (not self.is_loopback and name in _own_names())


@cache
def _own_names() -> frozenset[str]:
    """The machine's names. Asks the resolver, which may take long: once, before the first client is there."""
    return frozenset((socket.gethostname().lower(), socket.getfqdn().lower()))


@cache
def _page() -> tuple[bytes, str]:
    """Returns the page, with its style and its script in it, and the policy that lets a browser run only these."""
    folder = resources.files("crossdock.cli.monitor") / "page"
    style, script = ((folder / name).read_text("utf-8") for name in ("page.css", "page.js"))
    html = (folder / "page.html").read_text("utf-8").replace("/*style*/", style).replace("/*script*/", script)
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    policy = (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html.encode(), policy


class _RefusedError(Exception):
    """A request that gets an answer of a status and a text."""

    def __init__(self, status: str, text: str, *headers: str) -> None:
        super().__init__(status)
        self.status, self.text, self.headers = status, text, headers


class PageServer:
    """Serves the page, and looks at a server to each that shows it. Of one event loop."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connections = 0
        self._look: Look | None = None
        self._changed = asyncio.Event()

    def found(self, look: Look) -> None:
        """Takes a look, which every page is sent."""
        self._look = look
        self._changed.set()
        self._changed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a connection, which has one request."""
        self._connections += 1
        writer.transport.set_write_buffer_limits(high=_MOST_BUFFERED)
        try:
            try:
                if self._connections > _MOST_CONNECTIONS:
                    raise _RefusedError("503 Service Unavailable", "There are too many connections.")
                await self._answer(reader, writer)
            except _RefusedError as refused:
                _write_head(writer, refused.status, "text/plain; charset=utf-8", *refused.headers)
                writer.write(refused.text.encode() + b"\n")
                await _drain(writer)
            writer.close()
            async with asyncio.timeout(_WRITE_SECONDS):
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # The browser has gone, or doesn't read, or the program ends.
        finally:
            writer.transport.abort()
            self._connections -= 1

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path, query, headers = await _request(reader)
        if not self._address.allows(headers.get("host", "")):
            raise _RefusedError("403 Forbidden", "The Host header doesn't name this server: open it by its address.")
        if path == "/":
            page, policy = _page()
            _write_head(
                writer, "200 OK", "text/html; charset=utf-8", f"Content-Security-Policy: {policy}",
                f"Content-Length: {len(page)}",
            )  # fmt: skip
            writer.write(page)
            await _drain(writer)
        elif path == "/events":
            if headers.get("sec-fetch-site", "same-origin") != "same-origin":
                raise _RefusedError("403 Forbidden", "Events are for this server's own page.")
            await self._send_events(reader, writer, Choice.of(query))
        else:
            raise _RefusedError("404 Not Found", "There is one page, at /.")

    async def _send_events(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, choice: Choice) -> None:
        """Sends an event for each look until the browser ends it. A browser that is slow gets the newest look, and
        misses those before it."""
        _write_head(writer, "200 OK", "text/event-stream")
        writer.write(b"retry: 1000\n\n")
        gone = asyncio.ensure_future(reader.read(1))  # Nothing comes after the request.
        try:
            while not gone.done():
                changed = asyncio.ensure_future(self._changed.wait())
                if self._look is not None:
                    writer.write(b"data: " + json.dumps(event_of(self._look, choice)).encode() + b"\n\n")
                    await _drain(writer)
                await asyncio.wait((gone, changed), return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
        finally:
            gone.cancel()


async def _request(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str]]:
    try:
        async with asyncio.timeout(_REQUEST_SECONDS):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except TimeoutError:
        raise _RefusedError("408 Request Timeout", "No request came in time.") from None
    except asyncio.LimitOverrunError:
        raise _RefusedError("431 Request Header Fields Too Large", "The request is too long.") from None
    except asyncio.IncompleteReadError:
        raise ConnectionResetError from None
    first, *lines = head[:-4].split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise _RefusedError("400 Bad Request", "This isn't a request of HTTP/1.1.")
    if words[0] != "GET":
        raise _RefusedError("405 Method Not Allowed", "Only GET is there.", "Allow: GET")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or (name == "host" and name in headers):
            raise _RefusedError("400 Bad Request", "A header is malformed, or there are two Hosts.")
        headers[name] = value.strip()
    try:
        target = urlsplit(words[1])
    except ValueError:
        raise _RefusedError("400 Bad Request", "The path is malformed.") from None
    return target.path, target.query, headers


def _write_head(writer: asyncio.StreamWriter, status: str, kind: str, *headers: str) -> None:
    lines = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        "Cache-Control: no-store",
        "Connection: close",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Cross-Origin-Resource-Policy: same-origin",
        *headers,
    )
    writer.write("\r\n".join((*lines, "", "")).encode())


async def _drain(writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(_WRITE_SECONDS):
        await writer.drain()


def run(server: Observed, interval: float, address: Address, ready: Callable[[str], None]) -> None:
    """Serves the page until SIGINT, SIGTERM or SIGHUP. Calls `ready` with its URL."""
    with address.listen() as listener:
        asyncio.run(_run(server, interval, address, listener, ready))


async def _run(
    server: Observed, interval: float, address: Address, listener: socket.socket, ready: Callable[[str], None]
) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in end_signals():
        loop.add_signal_handler(number, stop.set)
    page = PageServer(address)

    def found(look: Look) -> None:
        with contextlib.suppress(RuntimeError):  # The loop has ended.
            loop.call_soon_threadsafe(page.found, look)

    listening = await asyncio.start_server(page.serve, sock=listener, limit=_MOST_HEAD)
    watcher = Watcher(server, interval, found)
    watcher.start()
    try:
        host, port = listener.getsockname()[:2]
        name = address.host if address.host not in ("", "*") else socket.gethostname() if address.host else host
        ready(f"http://{f'[{name}]' if ':' in name else name}:{port}/")
        await stop.wait()
    finally:
        listening.close()
        watcher.stop()
