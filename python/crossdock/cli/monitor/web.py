"""The page about a server, for browsers, and its events."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncGenerator, Callable
from functools import cache
from importlib import resources

from crossdock._http import Address, Answer, HttpServer, Request
from crossdock.cli.monitor.event import Choice, event_of
from crossdock.cli.monitor.look import Look, Observed, Watcher
from crossdock.cli.signals import end_signals

MOST_VIEWERS = 32  # Pages that are shown at once: each has an event of its own made for each look.


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


class PageServer:
    """Serves the page, and each look at a server to all that show it, on a thread of its own."""

    def __init__(self, address: Address) -> None:
        """Raises `ConnectionError` if the address can't be listened at."""
        self._viewers = 0
        self._look: Look | None = None
        self._changed = asyncio.Event()
        self._http = HttpServer(address, self._answer)
        self.url = f"{self._http.url}/"

    def found(self, look: Look) -> None:
        """Takes a look, which every page is sent. Of any thread."""
        self._http.call(lambda: self._found(look))

    def close(self) -> None:
        self._http.close()

    def _found(self, look: Look) -> None:
        self._look = look
        self._changed.set()
        self._changed = asyncio.Event()

    def _answer(self, request: Request) -> Answer:
        if request.path == "/":
            page, policy = _page()
            return Answer(200, page, "text/html; charset=utf-8", (f"Content-Security-Policy: {policy}",))
        if request.path != "/events":
            return Answer(404, b"there is one page, at /\n")
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return Answer(403, b"events are for this server's own page\n")
        if self._viewers >= MOST_VIEWERS:
            return Answer(503, f"{MOST_VIEWERS} pages are shown already\n".encode())
        return Answer(200, self._events(Choice.of(request.query)), "text/event-stream")

    async def _events(self, choice: Choice) -> AsyncGenerator[bytes, None]:
        """Yields an event for each look. A browser that is slow gets the newest look, and misses those before it."""
        self._viewers += 1
        try:
            yield b"retry: 1000\n\n"
            while True:
                changed = self._changed
                if self._look is not None:
                    yield b"data: " + json.dumps(event_of(self._look, choice)).encode() + b"\n\n"
                await changed.wait()
        finally:
            self._viewers -= 1


def run(server: Observed, interval: float, address: Address, ready: Callable[[str], None]) -> None:
    """Serves the page until SIGINT, SIGTERM or SIGHUP. Calls `ready` with its URL."""
    asyncio.run(_run(server, interval, PageServer(address), ready))


async def _run(server: Observed, interval: float, page: PageServer, ready: Callable[[str], None]) -> None:
    stop = asyncio.Event()
    for number in end_signals():
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    watcher = Watcher(server, interval, page.found)
    watcher.start()
    try:
        ready(page.url)
        await stop.wait()
    finally:
        watcher.stop()
        page.close()
