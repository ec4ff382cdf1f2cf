"""A small HTTP server for what a program says of itself: GET and HEAD alone, everything about a request is bounded."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import errno
import functools
import ipaddress
import os
import re
import socket
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import NamedTuple

from crossdock._text import class_of, quoted
from crossdock.errors import ConnectionError, InvalidArgumentError

__all__ = ["Address", "Answer", "HttpServer", "Request"]

MOST_CONNECTIONS = 256  # At once. For one more, the one that has waited the longest for its request is ended.
MOST_REQUEST = 8192  # Bytes of a request's first line and its headers.
REQUEST_SECONDS = 5.0  # For a request to come.
ANSWER_SECONDS = 10.0  # For a client to take an answer, or one part of an answer that goes on.

_REASONS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


@dataclass(frozen=True)
class Address:
    """Where to listen. `host` is as it was given, in lower case; "*" is every address of the machine."""

    host: str
    port: int

    @staticmethod
    def of(text: str) -> Address:
        """Reads PORT, which is of the loopback, HOST:PORT, [IPV6]:PORT or *:PORT. Raises `InvalidArgumentError`."""
        if not isinstance(text, str):
            raise TypeError(f"an address for HTTP must be a str, as '127.0.0.1:8080', not {class_of(text)}")
        found = re.fullmatch(r"(?:(\[[0-9a-fA-F:.]+\]|\*|[A-Za-z0-9._-]+):)?([0-9]{1,5})", text)
        if found is None or int(found[2]) > 65535:
            raise InvalidArgumentError(
                "an address for HTTP is a port of the loopback, as 8080, or as 127.0.0.1:8080, [::1]:8080 or *:8080, "
                f"not {quoted(text)}"
            )
        return Address((found[1] or "127.0.0.1").strip("[]").lower(), int(found[2]))

    def __str__(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def listen(self) -> socket.socket:
        """Raises `ConnectionError` for an address that is in use, or that this machine doesn't have."""
        try:
            if self.host == "*":
                dual = socket.has_dualstack_ipv6()
                family = socket.AF_INET6 if dual else socket.AF_INET
                return socket.create_server(("", self.port), family=family, dualstack_ipv6=dual, backlog=128)
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, _, _, _, where = found[0]
            return socket.create_server(where[:2], family=family, backlog=128)
        except (OSError, UnicodeError) as error:
            why = f"{getattr(error, 'strerror', None) or error}; choose another port or host"
            if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                why = "another program uses it; port 0 picks a free one"
            raise ConnectionError(f"can't listen at http://{self}: {why}") from error

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
        return name in {"localhost", self.host} - {"*"} or (not self.is_loopback and name in _own_names())


@functools.cache
def _own_names() -> frozenset[str]:
    """The machine's names. Asks the resolver, which may take long: once, before the first client is there."""
    return frozenset((socket.gethostname().lower(), socket.getfqdn().lower()))


class Request(NamedTuple):
    """A request that was checked."""

    method: str  # GET or HEAD
    path: str
    query: str
    headers: dict[str, str]  # by their names in lower case


class Answer(NamedTuple):
    """The answer to a request. A body of parts is sent part by part, until the client ends it. A part is asked for
    once the client has taken those before it."""

    status: int
    body: bytes | AsyncGenerator[bytes, None]
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[str, ...] = ()


class _RefusedError(Exception):
    """A request that gets an answer of a status and a text."""

    def __init__(self, status: int, text: str, *headers: str) -> None:
        super().__init__(text)
        self.answer = Answer(status, text.encode() + b"\n", headers=headers)


class HttpServer:
    """Answers requests on a thread of its own. One request for each connection, which is closed after it.

    Slow clients hold no thread: one thread serves all of them, and each has some seconds. Thread-safe. After a fork it
    belongs to the parent: the child's copy of the socket is closed.
    """

    def __init__(self, address: Address, answer: Callable[[Request], Answer], *, any_host: bool = False) -> None:
        """Listens before it returns.

        answer: called on the server's thread. What it raises is answered with status 500, without its text.
        any_host: answers whatever the Host header says. Else a page elsewhere can't read the answers, also if its
            owner lets its name point to this machine.

        Raises `ConnectionError` if the address can't be listened at, and RuntimeError if there can be no more threads.
        """
        self._address = address
        self._answer = answer
        self._any_host = any_host
        if not any_host and not address.is_loopback:
            _own_names()
        self._pid = os.getpid()
        self._socket = address.listen()
        host = socket.gethostname() if address.host == "*" else address.host
        self.url = f"http://{Address(host, self._socket.getsockname()[1])}"
        """With the port that was chosen, and this machine's name for "*"."""
        self._waiting: dict[asyncio.Task[None], None] = {}  # for a request, the longest first
        self._exchanges: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="crossdock-http", daemon=True)
        try:
            self._thread.start()
        except Exception:
            self._loop.close()
            self._socket.close()
            raise
        _servers.add(self)

    def call(self, function: Callable[[], object]) -> None:
        """Has the server's thread call `function`, unless it was closed."""
        with contextlib.suppress(RuntimeError):  # the loop was closed before
            self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """Stops listening, and ends exchanges that are under way. May be called twice. Does nothing in a forked
        child."""
        if os.getpid() != self._pid:
            return
        self.call(self._stop.set)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()
            self._socket.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._exchange, sock=self._socket, limit=MOST_REQUEST, backlog=128)
        try:
            await self._stop.wait()
        finally:
            server.close()
            for exchange in self._exchanges:
                exchange.cancel()
            await asyncio.gather(*self._exchanges, return_exceptions=True)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._exchanges.add(task)
        self._waiting[task] = None
        try:
            answer, with_body = await self._answer_to(reader, task)
            self._waiting.pop(task, None)
            writer.write(_head(answer))
            if isinstance(answer.body, bytes):
                writer.write(answer.body if with_body else b"")
            elif with_body:
                await _send_parts(answer.body, reader, writer)
            async with asyncio.timeout(ANSWER_SECONDS):
                await writer.drain()
                writer.close()
                await writer.wait_closed()  # until the client has taken everything
        except (TimeoutError, OSError, EOFError, asyncio.CancelledError):
            pass  # The client is slow or gone, or the server is being closed.
        finally:
            writer.transport.abort()
            self._exchanges.discard(task)
            self._waiting.pop(task, None)

    def _end_the_longest_wait(self, new: asyncio.Task[None]) -> bool:
        """Ends the exchange that has waited the longest for its request, for a new one: those who send none must not
        keep others out. Returns false if there is none."""
        longest = next(iter(self._waiting))
        if longest is new:
            return False
        del self._waiting[longest]
        longest.cancel()
        return True

    async def _answer_to(self, reader: asyncio.StreamReader, task: asyncio.Task[None]) -> tuple[Answer, bool]:
        """Returns the answer, and whether its body is wanted."""
        try:
            if len(self._exchanges) > MOST_CONNECTIONS and not self._end_the_longest_wait(task):
                raise _RefusedError(503, f"there are {MOST_CONNECTIONS} connections already")
            request = await _request(reader)
            host = request.headers.get("host")
            # Browsers always send a Host. Probes without one, as of HTTP/1.0, can't be of a page elsewhere.
            if not self._any_host and host is not None and not self._address.allows(host):
                raise _RefusedError(403, "the Host header doesn't name this server: ask by its address")
        except _RefusedError as refused:
            return refused.answer, True
        try:
            return self._answer(request), request.method == "GET"
        except Exception:
            return _RefusedError(500, "the answer could not be made").answer, True


async def _request(reader: asyncio.StreamReader) -> Request:
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except TimeoutError:
        raise _RefusedError(408, f"no request has come in {REQUEST_SECONDS:g} s") from None
    except asyncio.LimitOverrunError:
        raise _RefusedError(431, f"a request has at most {MOST_REQUEST} bytes") from None
    first, *lines = head[:-4].split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[1].startswith("/"):
        raise _RefusedError(400, "this isn't an HTTP request")
    method, target, version = words
    if version not in ("HTTP/1.0", "HTTP/1.1"):
        raise _RefusedError(505, "HTTP/1.1 is spoken here")
    if method not in ("GET", "HEAD"):
        raise _RefusedError(405, "only GET is answered here", "Allow: GET, HEAD")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or not name or name != name.strip() or (name == "host" and name in headers):
            raise _RefusedError(400, "a header is malformed, or there are two Hosts")
        headers[name] = value.strip()
    path, _, query = target.partition("?")
    return Request(method, path, query, headers)


def _head(answer: Answer) -> bytes:
    lines = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}",
        f"Content-Type: {answer.content_type}",
        *((f"Content-Length: {len(answer.body)}",) if isinstance(answer.body, bytes) else ()),
        "Cache-Control: no-store",
        "Connection: close",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Cross-Origin-Resource-Policy: same-origin",
        *answer.headers,
        "",
        "",
    )
    return "\r\n".join(lines).encode("latin-1")


async def _send_parts(
    parts: AsyncGenerator[bytes, None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    async def send() -> None:
        async with contextlib.aclosing(parts):
            async for part in parts:
                writer.write(part)
                async with asyncio.timeout(ANSWER_SECONDS):
                    await writer.drain()

    sending = asyncio.ensure_future(send())
    gone = asyncio.ensure_future(reader.read(1))  # Nothing comes after the request.
    try:
        await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            sending.result()
    finally:
        sending.cancel()
        gone.cancel()
        await asyncio.gather(sending, gone, return_exceptions=True)


_servers: weakref.WeakSet[HttpServer] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Joins the threads before the interpreter ends: it stops daemons that still run anywhere, with the locks that they
    hold."""
    with contextlib.ExitStack() as all_:  # it goes on after an error, which it raises at the end
        for server in list(_servers):
            all_.callback(server.close)


def _leave_to_the_parent() -> None:
    for server in list(_servers):
        server._socket.close()


os.register_at_fork(after_in_child=_leave_to_the_parent)
