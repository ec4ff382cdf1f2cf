"""The peers of tests/spec_peer, which know the published text alone, for kinds to build hostile ones upon."""

from __future__ import annotations

import sys
from pathlib import Path

_FOLDER = str(Path(__file__).resolve().parents[1] / "spec_peer")
if _FOLDER not in sys.path:
    sys.path.insert(0, _FOLDER)

import protocol  # noqa: E402
import shm_carrier  # noqa: E402
import spec_server  # noqa: E402
import tcp_carrier  # noqa: E402

__all__ = ["ENDED", "protocol", "shm_carrier", "spec_server", "tcp_carrier"]

ENDED = (shm_carrier.Ended, tcp_carrier.Ended, tcp_carrier.Unproved, OSError, TimeoutError)
