"""Processes that tests start."""

from __future__ import annotations

import subprocess
from typing import Any


class Child(subprocess.Popen[str]):
    """As Popen, but a failure inside its `with` kills it: Popen would wait for a server that nobody ends."""

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, value, traceback)
