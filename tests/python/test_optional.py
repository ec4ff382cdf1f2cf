"""A call that needs a package which isn't installed says what to install."""

from __future__ import annotations

import pyarrow as pa
import pytest

import crossdock as xd

PROGRAM = """
import sys
sys.modules[sys.argv[1]] = None
import crossdock as xd
import crossdock.multiprocessing
client = xd.connect(sys.argv[2])
try:
    {call}
except ModuleNotFoundError as error:
    print(error.name.partition(".")[0], error, sep=": ")
"""


@pytest.mark.parametrize(
    ("call", "package", "text"),
    [
        ("client.table('t').to_arrow()", "pyarrow", "to_arrow() needs pyarrow: pip install pyarrow"),
        ("client.table('t').to_pandas()", "pandas", "to_pandas() needs pandas: pip install pandas"),
        ("client.table('t').to_pandas(numpy=True)", "pandas", "to_pandas() needs pandas: pip install pandas"),
        ("client.table('t').to_polars()", "polars", "to_polars() needs polars: pip install polars"),
        ("client.table('t').to_dataset()", "pyarrow", "to_dataset() needs pyarrow: pip install pyarrow"),
        ("client.table('t').to_lazy()", "polars", "to_lazy() needs polars and pyarrow: pip install polars pyarrow"),
        ("client.table('t').filter(('x', '>', 0))", "pyarrow", "filter() needs pyarrow: pip install pyarrow"),
        ("xd.Arena().empty(3)", "numpy", "empty() needs numpy: pip install numpy"),
        ("xd.pool.install_numpy()", "numpy", "install_numpy() needs numpy: pip install numpy"),
        (
            "crossdock.multiprocessing.install()",
            "numpy",
            "crossdock.multiprocessing needs numpy: pip install numpy",
        ),
    ],
)
def test_the_error_says_what_to_install(script, call, package, text):
    with xd.serve({"t": pa.table({"x": [1]})}) as server:
        assert script(PROGRAM.format(call=call), package, server.uri).finish() == f"{package}: {text}\n"
