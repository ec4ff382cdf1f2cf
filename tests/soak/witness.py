"""A client that does nothing wrong, beside those that do: it must get every table, whole."""

from __future__ import annotations

import pyarrow as pa
from tests.soak.unit import Unit

import crossdock as xd

# What soak_peer serves: see tests/soak/peer/consume.h.
ROWS = 40 * 50


class Witness:
    def __init__(self, unit: Unit, uri: str, token: str | None = None) -> None:
        self._unit = unit
        self._client = xd.connect(uri, token=token, timeout=60)
        numbers = pa.array(range(ROWS), pa.int64())
        self._expected = pa.table({"number": numbers, "text": numbers.cast(pa.string())})

    def look(self) -> bool:
        """Gets one table over an old connection or a new one. False: it was not as it must be, which is a finding."""
        name = self._unit.random.choice(["table", "live"])
        try:
            table = pa.table(self._client.get(name, timeout=60))
        except xd.Error as error:
            self._unit.finding(f"a client that did nothing wrong got {type(error).__name__} for {name}: {error}")
            return False
        if not table.equals(self._expected):
            self._unit.finding(f"a client that did nothing wrong got another table for {name}: {table.num_rows} rows")
            return False
        self._unit.count("tables beside them")
        return True

    def close(self) -> None:
        self._client.close()
