"""`crossdock.debug()`: faults in shared memory are explained; all others take their course."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

SAYS = "crossdock: write into read-only Crossdock memory"

SERVED = """
import ctypes, faulthandler, os, signal, sys
import numpy as np, pyarrow as pa
import crossdock as xd

server = xd.serve({"t": pa.table({"x": np.arange(1000.0)})})
client = xd.connect(server.uri)
batch = next(iter(client.get("t")))
array = xd.asarray(pa.record_batch(batch)["x"])

def write():
    '''NumPy itself refuses to set the flag, so it is set as C code does that asks nobody.'''
    class Fields(ctypes.Structure):
        _fields_ = [("head", ctypes.c_byte * object.__basicsize__), ("data", ctypes.c_void_p), ("nd", ctypes.c_int)]
        _fields_ += [(name, ctypes.c_void_p) for name in ("dimensions", "strides", "base", "descr")]
        _fields_ += [("flags", ctypes.c_int)]
    a = np.asarray(array)
    assert not a.flags.writeable
    Fields.from_address(id(a)).flags |= 0x0400  # NPY_ARRAY_WRITEABLE
    assert a.flags.writeable
    a[2] = 0
"""


def run(script: str, tmp_path: Path, *, served: bool = True) -> tuple[int, str]:
    path = tmp_path / "script.py"
    path.write_text((SERVED if served else "") + textwrap.dedent(script))
    # A process that dies so leaves its socket behind. Short: a socket's path has 107 bytes.
    with tempfile.TemporaryDirectory(prefix="xd-", dir="/tmp") as runtime:
        environment = {**os.environ, "PYTHONFAULTHANDLER": "", "XDG_RUNTIME_DIR": runtime}
        limited = f"ulimit -c 0; exec {sys.executable} {path}"
        done = subprocess.run(
            ["/bin/sh", "-c", limited], capture_output=True, text=True, timeout=300, env=environment, cwd=tmp_path
        )
    return done.returncode, done.stderr


def said(code: int, text: str) -> None:
    assert code == -signal.SIGSEGV, text
    report, _, rest = text.partition("Fatal Python error: Segmentation fault")
    assert report.count(SAYS) == 1, text
    assert "shm:" in report
    assert "region " in report
    assert ".clone() in torch" in report
    assert rest.count("Current thread") == 1
    assert "script.py" in rest
    assert "Fatal Python error" not in rest


@pytest.mark.long
def test_a_write_by_torch_in_place_is_explained(tmp_path):
    pytest.importorskip("torch")
    said(
        *run(
            """
            import torch
            xd.debug()
            tensor = torch.from_dlpack(array)
            tensor.clone().add_(1)
            tensor.add_(1)
            """,
            tmp_path,
        )
    )


def test_a_write_past_numpys_flag_is_explained(tmp_path):
    code, text = run("xd.debug()\nwrite()", tmp_path)
    said(code, text)
    assert "byte " in text.partition("Fatal")[0]


@pytest.mark.parametrize(
    "script",
    [
        "faulthandler.enable(); xd.debug(); write()",
        "xd.debug(); faulthandler.enable(); write()",
        "xd.debug(); faulthandler.disable(); faulthandler.enable(); xd.debug(); write()",
        "xd.debug(); xd.debug(); xd.debug(); write()",
        "xd.debug(); xd.debug(False); xd.debug(); write()",
        "xd.debug(False); xd.debug(); write()",
        "import threading; xd.debug(); threading.Thread(target=write).start()",
        "sys.stderr = None; xd.debug(); write()",
    ],
)
def test_it_goes_together_with_faulthandler_and_is_idempotent(tmp_path, script):
    said(*run(script, tmp_path))


@pytest.mark.long
def test_it_can_be_taken_out_again(tmp_path):
    assert run("xd.debug(); xd.debug(False); write()", tmp_path) == (-signal.SIGSEGV, "")
    code, text = run("faulthandler.enable(); xd.debug(); xd.debug(False); write()", tmp_path)
    assert code == -signal.SIGSEGV
    assert "crossdock:" not in text
    assert "Fatal Python error: Segmentation fault" in text


@pytest.mark.parametrize(
    ("script", "number"),
    [
        ("ctypes.string_at(8)", signal.SIGSEGV),
        ("ctypes.memset(ctypes.cast(ctypes.pythonapi.Py_IncRef, ctypes.c_void_p).value, 0, 8)", signal.SIGSEGV),
        ("os.kill(os.getpid(), signal.SIGSEGV)", signal.SIGSEGV),
        ("os.kill(os.getpid(), signal.SIGBUS)", signal.SIGBUS),
    ],
)  # fmt: skip
def test_faults_elsewhere_are_passed_on_unchanged(tmp_path, script, number):
    code, text = run(f"xd.debug(); {script}", tmp_path)
    assert code == -number
    assert "crossdock:" not in text
    assert text.count("Fatal Python error") == 1


def test_a_freed_region_is_not_blamed(tmp_path):
    code, text = run(
        """
        xd.debug()
        at = np.asarray(array).ctypes.data
        del array, batch
        client.close()
        server.close()
        ctypes.memset(at, 0, 8)
        """,
        tmp_path,
    )
    assert code == -signal.SIGSEGV
    assert "crossdock:" not in text


def test_an_arena_that_was_published_is_named(tmp_path):
    code, text = run(
        """
        arena = xd.Arena()
        made = arena.empty(100, "f8")
        at = np.asarray(made).ctypes.data
        server.publish("arena", pa.table({"x": pa.array(np.asarray(made))}))
        xd.debug()
        ctypes.memset(at, 0, 8)
        """,
        tmp_path,
    )
    assert code == -signal.SIGSEGV, text
    assert "an Arena of this process, which was published" in text


CUT = """
import os, sys, signal, faulthandler
import numpy as np, pyarrow as pa
import crossdock as xd
table = pa.table({"x": np.arange(100_000.0)})
with pa.OSFile("cut.arrow", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
    writer.write_table(table)
"""


@pytest.mark.parametrize(
    "opened",
    [
        "batch = pa.record_batch(next(iter(xd.open('cut.arrow'))))",
        # A file that is open for writing gets no lease, by which the system would have truncate() wait for 45 s.
        "writing = open('cut.arrow', 'r+b')\n"
        "server = xd.serve({'t': 'cut.arrow'}); batch = pa.record_batch(next(iter(xd.connect(server.uri).get('t'))))",
    ],
    ids=["opened", "served"],
)
def test_a_file_that_was_cut_short_is_named(tmp_path, opened):
    code, text = run(
        f"{CUT}\n{opened}\nxd.debug()\nos.truncate('cut.arrow', 100)\nprint(batch['x'].to_numpy().sum())",
        tmp_path,
        served=False,
    )
    assert code == -signal.SIGBUS, text
    report, _, rest = text.partition("Fatal Python error: Bus error")
    assert "crossdock: read beyond the end of a file that was truncated" in report
    assert "cut.arrow" in report
    assert 'stable="snapshot"' in report
    assert "script.py" in rest
