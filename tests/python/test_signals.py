"""Ctrl-C in calls that wait."""

from __future__ import annotations

import os
import signal

import pyarrow as pa
import pytest

PRELUDE = """
import os, threading
import pyarrow as pa
import crossdock as xd
batch = pa.record_batch({"x": [1]})
go_on = threading.Event()
inside = threading.Event()
def say(word):
    os.write(1, (word + "\\n").encode())  # One write: two threads say something.
def stuck():  # no schema until go_on is set
    say("waiting")
    go_on.wait()
    return batch
def stuck_later():
    def batches():
        yield batch
        say("waiting")
        inside.set()
        go_on.wait()
    return pa.RecordBatchReader.from_batches(batch.schema, batches())
server = xd.serve({"stuck": stuck, "later": stuck_later, "t": batch})
client = xd.connect(server.uri, timeout=None)
"""

# The handlers' let-go is in `finally`, so that the server can end.
CASES = {
    "get": 'client.get("stuck")',
    "next": 'reader = client.get("later"); next(reader); next(reader)',
    "for": '[1 for _ in client.get("later")]',
    "spin": 'reader = client.get("later", wait="spin"); next(reader); next(reader)',
    "block": 'reader = client.get("later", wait="block"); next(reader); next(reader)',
}


@pytest.mark.parametrize("case", CASES)
def test_ctrl_c_raises_keyboard_interrupt(script, case):
    process = script(
        PRELUDE
        + f"""
try:
    {CASES[case]}
except KeyboardInterrupt:
    say("interrupted")
finally:
    go_on.set()
assert pa.table(client.get("t")).num_rows == 1  # All goes on.
"""
    )
    assert process.read_line() == "waiting"
    process.send(signal.SIGINT)
    assert process.read_line() == "interrupted"
    process.finish()


def test_an_interrupted_reader_may_go_on(script):
    # The signal comes when the source is stuck and the main thread is in the `try`: whichever of the two says so last.
    process = script(
        PRELUDE
        + """
reader = client.get("later")
next(reader)
try:
    say("reading")
    next(reader)
except KeyboardInterrupt:
    say("interrupted")
finally:
    go_on.set()
assert list(reader) == []
"""
    )
    assert {process.read_line(), process.read_line()} == {"waiting", "reading"}
    process.send(signal.SIGINT)
    assert process.read_line() == "interrupted"
    process.finish()


def test_a_handler_that_doesnt_raise_interrupts_nothing(script):
    process = script(
        PRELUDE
        + """
import signal
def handler(number, frame):
    say("handled")
    go_on.set()
signal.signal(signal.SIGUSR1, handler)
assert len(list(client.get("later"))) == 1
say("whole")
"""
    )
    assert process.read_line() == "waiting"
    process.send(signal.SIGUSR1)
    assert process.read_line() == "handled"
    assert process.read_line() == "whole"
    process.finish()


def test_ctrl_c_in_pyarrow_ends_the_wait_and_is_raised(script):
    process = script(
        PRELUDE
        + """
try:
    try:
        pa.RecordBatchReader.from_stream(client.get("later")).read_all()
    except OSError as error:
        assert "InterruptedError" in str(error), error
except KeyboardInterrupt:
    say("interrupted")
finally:
    go_on.set()
"""
    )
    assert process.read_line() == "waiting"
    process.send(signal.SIGINT)
    assert process.read_line() == "interrupted"
    process.finish()


# What a handler raises, and what Python has to catch it with.
RAISED = {
    "SystemExit(3)": "type(error) is SystemExit and error.code == 3",
    'KeyError("k")': 'type(error) is KeyError and error.args == ("k",)',
    "Odd(1, b=2)": "type(error) is Odd and (error.a, error.b) == (1, 2)",
}
ODD = """
import signal
class Odd(Exception):
    def __init__(self, a, *, b):
        super().__init__(f"odd {a}")
        self.a, self.b = a, b
raised = []
"""


@pytest.mark.parametrize("exception", RAISED)
def test_what_a_handler_raises_while_pyarrow_waits_is_raised_as_it_is(script, exception):
    process = script(
        PRELUDE
        + ODD
        + f"""
def handler(number, frame):
    raised.append({exception})
    raise raised[-1]
signal.signal(signal.SIGUSR1, handler)
def read():
    try:
        try:
            pa.RecordBatchReader.from_stream(client.get("later")).read_all()
        except OSError as problem:
            assert "InterruptedError" in str(problem), problem
    except BaseException as error:
        assert {RAISED[exception]}, repr(error)
        assert error is raised[-1]
        say("raised" if isinstance(error.__context__, OSError) else "early")
        return error.__context__ is not None
try:
    while not read():
        pass
finally:
    go_on.set()
"""
    )
    # A signal that comes before pyarrow asks is none of this test's: it is sent to the next read.
    for _ in range(10):
        assert process.read_line() == "waiting"
        process.send(signal.SIGUSR1)
        if (said := process.read_line()) == "raised":
            break
        assert said == "early"
    assert said == "raised"
    process.finish()


def test_a_handler_that_exits_while_pyarrow_waits_decides_the_exit_status(script):
    process = script(
        PRELUDE
        + """
import signal, sys
signal.signal(signal.SIGUSR1, lambda number, frame: sys.exit(3))
reader = pa.RecordBatchReader.from_stream(client.get("later"))
try:
    with client:
        reader.read_all()
finally:
    go_on.set()
"""
    )
    assert process.read_line() == "waiting"
    process.send(signal.SIGUSR1)
    process.finish(expect=3)


def test_ctrl_c_while_a_table_is_read_for_publishing(script):
    process = script(
        PRELUDE
        + """
def endless():
    say("waiting")
    while True:
        yield batch
try:
    server.publish("endless", pa.RecordBatchReader.from_batches(batch.schema, endless()), mode="table")
except KeyboardInterrupt:
    say("interrupted")
except xd.InvalidDataError as error:
    # It was raised in the generator itself, and came through pyarrow's stream as that producer's failure.
    assert "KeyboardInterrupt" in str(error), error
    say("interrupted")
finally:
    go_on.set()
assert "endless" not in [entry.name for entry in client.list()]
"""
    )
    assert process.read_line() == "waiting"
    process.send(signal.SIGINT)
    assert process.read_line() == "interrupted"
    process.finish()


def test_a_handler_that_closes_the_reader_it_interrupts(script):
    process = script(
        PRELUDE
        + """
import signal
reader = client.get("later")
next(reader)
def handler(number, frame):
    try:
        reader._try_next()
    except xd.StreamBusyError:
        reader.close()
        say("closed")
    else:
        say("early")
signal.signal(signal.SIGUSR1, handler)
say("reading")
try:
    next(reader)
except xd.ClosedError as error:
    say(str(error))
finally:
    go_on.set()
assert "closed" in repr(reader)
try:
    next(reader)
except xd.ClosedError:
    say("still closed")
"""
    )
    assert {process.read_line(), process.read_line()} == {"waiting", "reading"}
    process.send(signal.SIGUSR1)
    while (said := process.read_line()) == "early":  # It isn't in next() yet.
        process.send(signal.SIGUSR1)
    assert said == "closed"
    assert "closed while next() waited" in process.read_line()
    assert process.read_line() == "still closed"
    process.finish()


def test_ctrl_c_while_a_server_waits_for_a_source(script):
    process = script(
        PRELUDE
        + """
other = xd.connect(server.uri)
reader = client.get("later")
next(reader)
inside.wait()  # A source between two calls wouldn't be waited for.
def told_of_the_end():  # The server has closed, and only waits for its source now.
    try:
        list(reader)
    except xd.Error:
        say("closing")
thread = threading.Thread(target=told_of_the_end)
thread.start()
try:
    server.close()
except KeyboardInterrupt:
    say("interrupted")
assert server.closed
try:
    other.list()
except xd.Error:
    say("gone")
go_on.set()
server.close()  # Waits for the source, which ends.
thread.join()
"""
    )
    assert {process.read_line(), process.read_line()} == {"waiting", "closing"}
    process.send(signal.SIGINT)
    assert process.read_line() == "interrupted"
    assert process.read_line() == "gone"
    process.finish()


def test_ctrl_c_while_the_interpreters_exit_waits_for_a_source(script):
    process = script(
        PRELUDE
        + """
reader = client.get("later")
next(reader)
inside.wait()  # A source between two calls wouldn't be waited for.
def told_of_the_end():
    try:
        list(reader)
    except xd.Error:
        say("closing")
threading.Thread(target=told_of_the_end, daemon=True).start()
"""
    )
    assert {process.read_line(), process.read_line()} == {"waiting", "closing"}
    process.send(signal.SIGINT)
    _, err = process.process.communicate(timeout=60)
    assert process.process.returncode == 0
    assert "KeyboardInterrupt" in err


def test_ctrl_c_while_a_file_is_written_to_a_pipe(script, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = script(
        """
        import sys
        import pyarrow as pa
        import crossdock as xd
        small, large = pa.table({"x": [1]}), pa.table({"x": list(range(100_000))})  # A pipe has 64 KiB.
        def write(table):
            try:
                print("writing", flush=True)
                xd.write(table, sys.argv[1])
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            else:
                print("written", flush=True)
        write(small)
        write(large)
        sys.stdin.readline()  # Until the pipe's old reader has gone.
        write(small)
        """,
        str(pipe),
    )
    assert process.read_line() == "writing"  # Nobody reads.
    process.send(signal.SIGINT)
    assert process.read_line() == "interrupted"
    with open(pipe, "rb") as reader:
        assert reader.read(1)  # It writes, and gets no further than the pipe holds.
        assert process.read_line() == "writing"
        process.send(signal.SIGINT)
        assert process.read_line() == "interrupted"
    process.write_line()
    with open(pipe, "rb") as reader:
        assert pa.ipc.open_file(pa.py_buffer(reader.read())).read_all().to_pydict() == {"x": [1]}
    assert [process.read_line(), process.read_line()] == ["writing", "written"]
    process.finish()
