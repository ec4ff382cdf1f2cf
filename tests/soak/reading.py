"""Reading streams whole, so that errors are ours and not those that pyarrow makes of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.soak.unit import Unit


class SchemaRefused(Exception):
    """By pyarrow, which knows extension types and what they are stored as; we pass them on."""


def table_of(reader: Any) -> pa.Table:
    """Raises what the reader raises, and pyarrow's errors where it can't take a batch."""
    try:
        schema = pa.schema(reader.schema)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise SchemaRefused from error
    return pa.Table.from_batches([pa.record_batch(batch) for batch in reader], schema)


def check_fully(unit: Unit, table: pa.Table) -> None:
    """What full validation of ours let through must hold for pyarrow, too."""
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        unit.finding(f"full validation let this through: {error}")
    except UnicodeDecodeError:
        unit.count("names that are no UTF-8")  # pyarrow can't even say what is wrong with them
