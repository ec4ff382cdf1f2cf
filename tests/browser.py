"""A headless Chromium, driven by its DevTools protocol over two pipes."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

TO_READ, TO_WRITE = 1000, 1001  # in the shell: far from those that the two ends may have


def program() -> str:
    """The path of Chromium. Skips the test where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("chromium isn't installed: apt-get install chromium")


class Browser:
    """One page. Use it as a context manager."""

    def __init__(self, *options: str) -> None:
        path = program()
        self._folder = tempfile.TemporaryDirectory(prefix="xd-browser-")
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        # Chromium reads from 3 and writes to 4. The shell makes them so: a function of ours between fork and exec may
        # wait for ever for a lock that another thread of this process held.
        moved = f'exec "$@" {TO_READ}<&{to_read} {TO_WRITE}>&{to_write} 3<&{TO_READ} 4>&{TO_WRITE}'
        self._process = subprocess.Popen(
            [
                "bash", "-c", moved, "browser",
                path, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
                "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
                f"--user-data-dir={self._folder.name}", *options, "about:blank",
            ],
            pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
            env=os.environ | {"XDG_RUNTIME_DIR": self._folder.name, "HOME": self._folder.name},
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._rest = b""
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self.messages: list[dict[str, Any]] = []
        target = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        for _ in range(50):  # Its processes end one after another, and write into the folder until then.
            try:
                self._folder.cleanup()
                return
            except OSError:
                time.sleep(0.1)
        self._folder.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(60)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            self.messages.append(answer)

    def _next(self, seconds: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            readable, _, _ = select.select([self._from], [], [], seconds)
            assert readable, "the browser doesn't answer"
            part = os.read(self._from, 1 << 16)
            assert part, "the browser has ended"
            self._rest += part
        line, self._rest = self._rest.split(b"\0", 1)
        return json.loads(line)

    def open(self, url: str) -> None:
        """Opens a page, and waits until it and its scripts are there."""
        self.call("Page.navigate", url=url)
        self.wait_for(f"document.readyState === 'complete' && location.href.startsWith({url!r})")

    def value(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_for(self, expression: str, seconds: float = 30) -> Any:
        """Waits until an expression is true on the page."""
        deadline = time.monotonic() + seconds
        while not (value := self.value(expression)):
            assert time.monotonic() < deadline, f"not true in {seconds} s: {expression}\n{self.text('body')}"
            time.sleep(0.05)
        return value

    def text(self, selector: str) -> str:
        return self.value(f"document.querySelector({selector!r}).innerText")

    def click(self, selector: str) -> None:
        self.value(f"document.querySelector({selector!r}).click()")

    def problems(self) -> list[str]:
        """What the page has thrown, logged, or was kept from doing, until now."""
        self.value("1")
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(one["params"]) for one in self.messages if one.get("method") in kinds]

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
