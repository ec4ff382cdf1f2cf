"""The live view of `crossdock top`, driven by keys, on terminals of every size."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from rich.cells import cell_len
from tests.server_samples import Server, consumer, source, statistics

import crossdock as xd
from crossdock.cli.monitor import view
from crossdock.cli.monitor.look import Look, Observed

pytest.importorskip("textual")

from textual.pilot import Pilot
from textual.widgets import Static

from crossdock.cli.monitor.screen import TopApp
from crossdock.cli.monitor.table import RowTable

HOSTILE = "<script>[red]\x1b[31m\n\u202e\x07" + "日" * 1_000_000


def look_at(*answers: dict[str, Any] | Exception) -> Look:
    server = Server(*answers)
    observed = Observed("shm:flights", lambda: server)
    for _ in answers:
        look = observed.look()
    return look


def some(count: int, **other: Any) -> Look:
    return look_at(
        *(
            statistics(
                [consumer(i, bytes=second * (count - i) * 1000, leased_bytes=i) for i in range(count)],
                [source("flights"), source("planes")],
                uptime=float(second),
                **other,
            )
            for second in (1, 2)
        )
    )


class Terminal:
    """The app on a terminal of a set size, to which a test gives looks."""

    def __init__(self, pilot: Pilot[None], app: TopApp) -> None:
        self.pilot, self.app = pilot, app

    async def show(self, look: Look) -> None:
        self.app.post_message(TopApp.Found(look))
        await self.pilot.pause()

    @property
    def table(self) -> RowTable:
        return self.app.query_one(RowTable)

    def lines(self) -> list[str]:
        """What the table's lines show."""
        return [self.table.render_line(y).text.rstrip() for y in range(self.table.size.height)]

    def text(self, selector: str) -> str:
        return str(self.app.screen.query_one(selector, Static).render())


def on_a_terminal(test: Callable[[Terminal], Awaitable[None]], size: tuple[int, int] = (100, 30)) -> None:
    ended = []

    async def run() -> None:
        app = TopApp(lambda found: lambda: ended.append(found))
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await test(Terminal(pilot, app))

    asyncio.run(run())
    assert len(ended) == 1  # the watcher is told to stop, once


def test_it_shows_consumers_and_keeps_the_chosen_one():
    async def test(terminal: Terminal) -> None:
        assert terminal.text("#state") == "connecting ..."
        await terminal.show(some(3))
        lines = terminal.lines()
        assert lines[0].startswith("consumer")
        assert "▼data/s" in lines[0]
        assert [line.split("  ")[0] for line in lines[1:4]] == ["process 4000", "process 4001", "process 4002"]
        assert "shm:flights, up 2.0 s" in terminal.text("#about")
        await terminal.pilot.press("down")
        assert terminal.table.chosen["id"] == 1
        await terminal.pilot.press("r")  # the other way round
        assert [line.split("  ")[0] for line in terminal.lines()[1:4]] == [
            "process 4002",
            "process 4001",
            "process 4000",
        ]
        assert terminal.table.chosen["id"] == 1
        await terminal.show(some(2))  # 2 has gone
        assert terminal.table.chosen["id"] == 1
        await terminal.show(some(0))
        assert terminal.table.chosen is None
        assert "No consumer is connected." in "".join(terminal.lines())
        await terminal.pilot.press("enter", "down", "end", "pagedown")  # nothing to choose is no error

    on_a_terminal(test)


@pytest.mark.long
def test_columns_views_and_filter_by_keys():
    async def test(terminal: Terminal) -> None:
        await terminal.show(some(3, rejected_connections={"late": 4}))
        for _ in range(20):
            await terminal.pilot.press("greater_than_sign")
        await terminal.pilot.press("tab")
        assert terminal.lines()[0].startswith("table")
        await terminal.pilot.press("less_than_sign", "less_than_sign")  # by name
        assert [line.split()[0] for line in terminal.lines()[1:3]] == ["flights", "planes"]
        await terminal.pilot.press("slash", *"plan", "enter")
        assert [line.split()[0] for line in terminal.lines()[1:] if line] == ["planes"]
        assert "1 of 2, with 'plan'" in terminal.text("#more")
        await terminal.pilot.press("escape")
        assert len([line for line in terminal.lines()[1:] if line]) == 2
        await terminal.pilot.press("3")
        assert "late" in terminal.lines()[1]
        await terminal.pilot.press("tab")
        assert terminal.lines()[0].startswith("consumer")

    on_a_terminal(test)


def test_one_consumer_is_looked_into():
    async def test(terminal: Terminal) -> None:
        await terminal.show(some(3))
        await terminal.pilot.press("down", "enter")
        await terminal.pilot.pause()
        scroll = terminal.app.screen.query_one("VerticalScroll")
        assert str(scroll.border_title) == "process 4001"
        assert "process 4001 of user 0" in terminal.text("VerticalScroll Static")
        assert "why this way  the consumer maps the server's memory" in terminal.text("VerticalScroll Static")
        await terminal.show(some(1))
        assert scroll.border_subtitle == "isn't there any more"
        await terminal.pilot.press("escape")
        assert terminal.app.screen.query(RowTable)

    on_a_terminal(test)


def test_a_lost_server_and_a_pause_are_said():
    async def test(terminal: Terminal) -> None:
        await terminal.show(look_at(statistics([consumer(1)]), xd.ConnectionError("it has ended [red]")))
        assert terminal.text("#state").startswith("No server: ConnectionError: it has ended [red]\nTrying again.")
        assert "process 4001" in terminal.lines()[1]
        await terminal.show(some(2))
        assert not terminal.app.query_one("#state").display
        await terminal.pilot.press("space")
        assert terminal.text("#state") == "paused; space goes on"
        await terminal.show(some(1))
        assert "process 4001" in terminal.lines()[2]
        await terminal.pilot.press("space")
        await terminal.show(some(1))
        assert terminal.lines()[2] == ""

    on_a_terminal(test)


@pytest.mark.long
@pytest.mark.parametrize("size", [(20, 24), (20, 6), (5, 3), (1, 1), (300, 80)])
def test_every_size_of_terminal(size):
    async def test(terminal: Terminal) -> None:
        await terminal.show(some(50, rejected_connections={"late": 1}))
        await terminal.pilot.press("end", "greater_than_sign", "enter")
        await terminal.pilot.pause()
        await terminal.pilot.press("escape", "tab", "slash", "x", "escape", "home")
        await terminal.show(look_at(statistics(), xd.ConnectionError("gone")))
        assert all(cell_len(line) <= size[0] for line in terminal.lines())

    on_a_terminal(test, size)


@pytest.mark.long
def test_hostile_names_are_only_texts():
    async def test(terminal: Terminal) -> None:
        hostile = statistics(
            [consumer(1, pid=0, peer=HOSTILE, name=HOSTILE, why=HOSTILE, carrier=HOSTILE)],
            [source(HOSTILE, kind=HOSTILE)],
            version=HOSTILE,
            rejected_connections={HOSTILE: 1},
        )
        await terminal.show(look_at(hostile))
        for key in "123":
            await terminal.pilot.press(key, "enter")
            await terminal.pilot.pause()
            assert "[red]" in terminal.text("VerticalScroll Static")
            assert "\x1b" not in terminal.text("VerticalScroll Static")
            await terminal.pilot.press("escape")
            assert all(line.isprintable() for line in terminal.lines())

    on_a_terminal(test)


def test_a_refresh_of_many_rows_makes_the_visible_ones_alone(monkeypatch):
    made = []
    monkeypatch.setitem(
        view.COLUMNS,
        "consumers",
        [*view.CONSUMERS[:3], view.Column("n", lambda row: row["id"], lambda row: made.append(row) or "", 5, "")],
    )

    async def test(terminal: Terminal) -> None:
        await terminal.show(some(10_000))
        await terminal.pilot.pause()
        made.clear()
        await terminal.show(some(10_000))
        await terminal.pilot.pause()
        assert 0 < len(made) < 500
        await terminal.pilot.press("end")
        await terminal.pilot.pause()
        assert any("process 13999" in line for line in terminal.lines())
        assert terminal.lines()[0].startswith("consumer")
        await terminal.pilot.press("home")
        assert "process 4000" in terminal.lines()[1]

    on_a_terminal(test)
