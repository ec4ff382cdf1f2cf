"""The kinds of attack, a topic in each file."""

from __future__ import annotations

from tests.soak.unit import Kind


def all_kinds() -> list[Kind]:
    from tests.soak.kinds import fuzzers, hostile_clients, kill, worlds

    return [*kill.KINDS, *hostile_clients.KINDS, *worlds.KINDS, *fuzzers.KINDS]
