"""Fetches a table over the network once, for two consumers on this machine, and sees that it changes at its source."""

import pyarrow as pa

import crossdock as xd


def main() -> None:
    forecast = pa.table({"station": ["JFK", "ZRH"], "temperature": [21.5, 17.0]})
    with (
        xd.serve({"forecast": forecast}, "tcp:") as source,  # as a rule on another machine
        xd.relay(source.uri, max_memory=1 << 30) as relay,
        xd.connect(relay.uri) as one,  # as a rule in processes of their own
        xd.connect(relay.uri) as other,
    ):
        print("one:", pa.table(one.get("forecast"))["temperature"].to_pylist())
        print("other:", pa.table(other.get("forecast"))["temperature"].to_pylist())
        source.publish("forecast", forecast.set_column(1, "temperature", pa.array([19.0, 16.0])), replace=True)
        print("later:", pa.table(one.get("forecast"))["temperature"].to_pylist())
        stats = relay.stats()
        print("fetches:", stats["fetches"], "hits:", stats["hits"])


if __name__ == "__main__":
    main()
