"""A cluster of Dask's whose workers give each other large arrays and tables without copies.

python dask_cluster.py
"""

import sys

import numpy as np
import pyarrow as pa

try:
    from distributed import Client, LocalCluster
except ModuleNotFoundError:
    sys.exit("this needs Dask: pip install distributed")

import crossdock.dask


def measurements(day: int) -> pa.Table:
    rng = np.random.default_rng(day)
    return pa.table({"station": rng.integers(0, 50, 500_000), "value": rng.normal(day, 1.0, 500_000)})


def mean(table: pa.Table, station: int) -> float:
    values = table["value"].to_numpy()
    return float(values[table["station"].to_numpy() == station].mean())


def main() -> None:
    # The scheme in the addresses is all that the program says about it: protocol="tcp://" would work as well.
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, protocol="crossdock://", dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        crossdock.dask.install(client)  # NumPy's large arrays lie in shared memory; Dask counts it once
        first, second = client.scheduler_info()["workers"]

        table = client.submit(measurements, 7, workers=[first])
        means = [client.submit(mean, table, station, workers=[second]) for station in range(3)]
        for station, value in enumerate(client.gather(means)):
            print(f"station {station}: {value:.3f}")

        grid = client.scatter(np.ones((1000, 1000)), broadcast=True)  # 8 MB, of which both workers map one copy
        sums = [client.submit(np.sum, grid, workers=[worker], pure=False) for worker in (first, second)]
        print(client.gather(sums))


if __name__ == "__main__":
    main()
