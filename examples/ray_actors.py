"""Tables, arrays and a stream of batches from one of Ray's actors to another, through shared memory.

python ray_actors.py
"""

import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

try:
    import ray
except ModuleNotFoundError:
    sys.exit("this needs Ray: pip install ray")

import crossdock as xd
import crossdock.ray

crossdock.ray.register()


@ray.remote
class Producer:
    @ray.method(tensor_transport="crossdock")
    def table(self, rows: int) -> pa.Table:
        values = xd.pool.default().empty(rows)  # in the pool: it isn't copied
        values[:] = np.arange(rows)
        return pa.table({"x": values})

    @ray.method(tensor_transport="crossdock")
    def arrays(self) -> dict[str, np.ndarray]:
        return {"ones": np.ones(100_000), "twos": np.full(100_000, 2.0)}

    def batches(self, number: int) -> crossdock.ray.Stream:
        def make() -> Iterator[pa.RecordBatch]:
            for i in range(number):
                yield pa.record_batch({"i": pa.array([i] * 1000)})

        return crossdock.ray.stream(make())


@ray.remote(enable_tensor_transport=True)  # what receives needs it
class Consumer:
    def total(self, table: pa.Table) -> float:
        return float(table["x"].to_numpy().sum())

    def change(self, arrays: dict[str, np.ndarray]) -> float:
        arrays["ones"] += arrays["twos"]  # what was received can be written to
        return float(arrays["ones"].sum())

    def count(self, stream: crossdock.ray.Stream) -> int:
        return sum(pa.record_batch(batch).num_rows for batch in stream)


def main() -> None:
    ray.init(num_cpus=2, include_dashboard=False)
    producer, consumer = Producer.remote(), Consumer.remote()
    print("sum:", ray.get(consumer.total.remote(producer.table.remote(1_000_000))))
    print("changed:", ray.get(consumer.change.remote(producer.arrays.remote())))
    print("rows:", ray.get(consumer.count.remote(producer.batches.remote(100))))
    ray.shutdown()


if __name__ == "__main__":
    main()
