"""Where the two ends of a benchmark are: on one machine, or in two networks with a cable between them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tests.twohosts import hosts


@dataclass(frozen=True)
class Place:
    """`server` and `client` go before the commands of the two ends; `host` is the server's address."""

    name: str
    interface: str  # that of `host`
    host: str
    server: tuple[str, ...] = ()
    client: tuple[str, ...] = ()
    two: hosts.TwoHosts | None = field(default=None, compare=False)

    def with_variables(self, variables: dict[str, str]) -> Place:
        """The same for programs with these environment variables."""
        words = ("env", *(f"{name}={value}" for name, value in variables.items()))
        return replace(self, server=(*self.server, *words), client=(*self.client, *words))


LOOPBACK = Place("loopback", "lo", "127.0.0.1")


def why_no_namespaces() -> str:
    """Empty where they can be made."""
    return hosts.why_not()


@contextlib.contextmanager
def two_namespaces() -> Iterator[Place]:
    """Two networks joined by a pair of veth, whatever happens gone with this process."""
    with hosts.TwoHosts() as two:
        yield Place(
            "two namespaces", hosts.CABLE, hosts.SERVER_ADDRESS, two.server.within, two.client.within, two
        )  # fmt: skip


@contextlib.contextmanager
def places() -> Iterator[list[Place]]:
    """The loopback, and two namespaces where they can be made."""
    if why_no_namespaces():
        yield [LOOPBACK]
        return
    with two_namespaces() as apart:
        yield [LOOPBACK, apart]
