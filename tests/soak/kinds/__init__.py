"""The kinds of attack, a topic in each file."""

from __future__ import annotations

from tests.soak.unit import Kind


def all_kinds() -> list[Kind]:
    from tests.soak.kinds import (
        arrays,
        arrow_capsules,
        files,
        fuzzers,
        hostile_clients,
        hostile_servers,
        kill,
        kill_python,
        mixed,
        stops,
        worlds,
    )

    topics = (
        kill,
        kill_python,
        hostile_clients,
        hostile_servers,
        files,
        arrays,
        arrow_capsules,
        stops,
        mixed,
        worlds,
        fuzzers,
    )
    return [kind for topic in topics for kind in topic.KINDS]
