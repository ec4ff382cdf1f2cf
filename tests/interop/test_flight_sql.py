"""A Flight server is none of Flight SQL: ADBC's driver gets an error that says so, and waits for nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import crossdock as xd

dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")

ASKS: dict[str, Callable[[Any, Any], object]] = {
    "a query": lambda _, cursor: cursor.execute("SELECT * FROM t"),
    "an update": lambda _, cursor: cursor.executemany("INSERT INTO t VALUES (?)", [(1,), (2,)]),
    "a table to take": lambda _, cursor: cursor.adbc_ingest("u", pa.table({"n": [1]})),
    "the types of tables": lambda connection, _: connection.adbc_get_table_types(),
    "the tables": lambda connection, _: connection.adbc_get_objects().read_all(),
    "a table's schema": lambda connection, _: connection.adbc_get_table_schema("t"),
}


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    try:
        server = xd.serve({"t": pa.table({"n": [1]})}, flight="grpc://127.0.0.1:0", puts="new")
    except xd.SchemeError as error:
        pytest.skip(str(error))
    with server:
        yield server.flight_uri.replace("grpc:", "grpc+tcp:")


@pytest.mark.long
# Its runtime, which is Go's, keeps descriptors for the rest of the process: a process of its own makes the calls.
@pytest.mark.parametrize("what", ASKS)
def test_is_refused_by_name(uri, what, script):
    program = script(
        """
        import sys, warnings
        import adbc_driver_flightsql.dbapi as dbapi
        from tests.interop.test_flight_sql import ASKS
        warnings.simplefilter("ignore")  # of a server without transactions
        with dbapi.connect(sys.argv[1], autocommit=True) as connection, connection.cursor() as cursor:
            try:
                ASKS[sys.argv[2]](connection, cursor)
            except dbapi.Error as error:
                print(type(error).__name__, str(error).replace(chr(10), " "), flush=True)
            else:
                print("no error", flush=True)
        """,
        uri,
        what,
    )
    answer = program.read_line()
    assert answer.startswith("NotSupportedError"), answer
    assert "UnsupportedError: this server knows tables by name" in answer or "no action" in answer
    program.finish()
