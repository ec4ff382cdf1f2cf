"""The view of a server on a terminal, with Textual."""

from __future__ import annotations

import asyncio
import logging
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static, Tab, Tabs

from crossdock._text import quoted
from crossdock.cli.layout import wrapped
from crossdock.cli.monitor import view
from crossdock.cli.monitor.look import Look, Observed, Watcher
from crossdock.cli.monitor.rates import Row, Snapshot
from crossdock.cli.monitor.table import RowTable
from crossdock.cli.signals import end_signals
from crossdock.cli.units import in_time, sparkline

_NAMES: tuple[view.ViewName, ...] = ("consumers", "tables", "rejected")


def _lines(pairs: view.Pairs, width: int) -> Text:
    """Lines of a label and a text. Where there is little room, each label is in front of its text."""
    label = max((len(title) for title, _ in pairs), default=0)
    lines = Text()
    for i, (title, text) in enumerate(pairs):
        if i:
            lines.append("\n")
        room = width - label - 2
        if room >= 20:
            lines.append(f"{title:>{label}}  ", "dim")
            lines.append(wrapped(text, room).replace("\n", "\n" + " " * label))
        else:
            lines.append(f"{title}: ", "dim")
            lines.append(text)
    return lines


def _show(widget: Static, text: Text | str, *, wraps: bool = False) -> None:
    """Shows a text, unless it is shown already. The screen is laid out again only if the text has another number of
    lines, or `wraps`: that takes longer than to draw the lines that have changed."""
    before = widget.content
    if text != before:
        widget.update(text, layout=wraps or str(before).count("\n") != str(text).count("\n"))


def _terminal_is_gone() -> bool:
    """Whether the other end of the terminal was closed."""
    poll = select.poll()
    poll.register(sys.__stdin__.fileno() if sys.__stdin__ is not None else 0, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


class _Details(ModalScreen[None]):
    """Everything about one row, kept up to date until it is closed."""

    DEFAULT_CSS = """
    _Details { align: center middle; }
    _Details > VerticalScroll {
        width: 90%; max-width: 90; height: auto; max-height: 90%;
        border: round $primary; padding: 0 1; background: $surface;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "dismiss", "Close")]

    def __init__(self, name: view.ViewName, row: Row) -> None:
        super().__init__()
        self._view = name
        self._row = row
        self._key = view.key_of(name, row)
        self._gone = False

    def compose(self) -> ComposeResult:
        with VerticalScroll() as scroll:
            scroll.border_title = Text(view.title_of(self._view, self._row))
            yield Static()
        yield Footer()

    def on_mount(self) -> None:
        self.call_after_refresh(self._draw)

    def on_resize(self) -> None:
        self._draw()

    def show(self, snapshot: Snapshot) -> None:
        found = next(
            (row for row in view.rows_of(self._view, snapshot) if view.key_of(self._view, row) == self._key), None
        )
        self._gone = found is None
        self._row = found or self._row
        self._draw()

    def _draw(self) -> None:
        scroll = self.query_one(VerticalScroll)
        scroll.border_subtitle = "isn't there any more" if self._gone else ""
        pairs = view.about_row(self._view, self._row)
        _show(self.query_one(Static), _lines(pairs, scroll.content_size.width))


class TopApp(App[None]):
    """Shows looks at a server until the user ends it. `start` is called with a function that takes looks on any thread,
    and returns one that ends them."""

    TITLE = "crossdock top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #about { height: auto; max-height: 40%; padding: 0 1; }
    #history { height: 1; padding: 0 1; color: $primary; }
    #state { height: auto; padding: 0 1; }
    #state.lost { background: $error; color: $text; text-style: bold; }
    #filter { display: none; height: 1; border: none; padding: 0 1; }
    #filter.open { display: block; }
    #more { height: 1; padding: 0 1; color: $text-muted; }
    Screen.low #history, Screen.low #more, Screen.narrow #about, Screen.narrow #history { display: none; }
    Screen.lowest #about, Screen.lowest Tabs { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),  # in the filter, too
        Binding("tab", "next_view", "Next view", priority=True),
        Binding("shift+tab", "next_view(-1)", "Previous view", show=False, priority=True),
        Binding("1", "view('consumers')", "Consumers", show=False),
        Binding("2", "view('tables')", "Tables", show=False),
        Binding("3", "view('rejected')", "Rejected", show=False),
        Binding("less_than_sign,left", "order(-1)", "Sort by", key_display="< >"),
        Binding("greater_than_sign,right", "order(1)", "Sort by the column to the right", show=False),
        Binding("r", "reverse", "Reverse"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("space", "pause", "Pause"),
        Binding("escape", "clear_filter", "Clear the filter", show=False),
    ]

    class Found(Message):
        """A look at the server."""

        def __init__(self, look: Look) -> None:
            super().__init__()
            self.look = look

    def __init__(self, start: Callable[[Callable[[Look], None]], Callable[[], None]]) -> None:
        super().__init__()
        self._start = start
        self._stop: Callable[[], None] | None = None
        self._look: Look | None = None
        self._view: view.ViewName = "consumers"
        self._orders = {name: (order, True) for name, order in view.FIRST_ORDER.items()}
        self._wanted = ""
        self._paused = False

    def compose(self) -> ComposeResult:
        yield Static(id="state")
        yield Static(id="about")
        yield Static(id="history")
        yield Tabs(*(Tab(name.capitalize(), id=name) for name in _NAMES))
        yield Input(placeholder="part of a name; Enter keeps it, Escape clears it", id="filter")
        yield RowTable()
        yield Static(id="more")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(Tabs).can_focus = False
        self.query_one(RowTable).focus()
        self._stop = self._start(self._found)
        for number in end_signals():
            asyncio.get_running_loop().add_signal_handler(number, self.exit)

    def _found(self, look: Look) -> None:
        self.post_message(self.Found(look))  # Any thread may post.

    def on_unmount(self) -> None:
        if self._stop is not None:
            self._stop()

    def on_resize(self) -> None:
        base = self.screen_stack[0]
        base.set_class(self.size.width < 50, "narrow")
        base.set_class(self.size.height < 20, "low")
        base.set_class(self.size.height < 12, "lowest")
        self.call_after_refresh(self._draw)

    # ---- drawing ----

    def on_top_app_found(self, message: Found) -> None:
        if _terminal_is_gone():
            self.exit()  # One that isn't this process's own sends no SIGHUP.
        if self._paused:
            return
        self._look = message.look
        self._draw()
        if isinstance(self.screen, _Details) and message.look.snapshot is not None:
            self.screen.show(message.look.snapshot)

    def _draw(self) -> None:
        base = self.screen_stack[0]
        look = self._look
        self._draw_state(base.query_one("#state", Static))
        if look is None or look.snapshot is None:
            return
        about = base.query_one("#about", Static)
        width = self.size.width - 2
        pairs = view.about_server(look.uri, look.snapshot)
        _show(about, _lines(pairs, width))
        _show(base.query_one("#history", Static), sparkline(list(look.history), width))
        for name in _NAMES:
            tab, label = base.query_one(f"#{name}", Tab), f"{name.capitalize()} {view.count_of(name, look.snapshot)}"
            if tab.label_text != label:
                tab.label = label
        self._draw_rows(base.query_one(RowTable), base.query_one("#more", Static), look.snapshot)

    def _draw_state(self, state: Static) -> None:
        look = self._look
        state.set_class(look is not None and look.error is not None, "lost")
        if look is None:
            _show(state, "connecting ...", wraps=True)
        elif look.error is not None:
            error = f"No server: {look.error}\nTrying again. What is shown is {in_time(look.age)} old."
            _show(state, Text(error), wraps=True)
        else:
            _show(state, "paused; space goes on" if self._paused else "", wraps=True)
        state.display = look is None or look.error is not None or self._paused

    def _draw_rows(self, table: RowTable, more: Static, snapshot: Snapshot) -> None:
        columns = view.COLUMNS[self._view]
        order, descending = self._orders[self._view]
        all_rows = view.rows_of(self._view, snapshot)
        rows = view.in_order(view.matching(all_rows, columns, self._wanted), columns[order], descending)
        empty = f"Nothing has {quoted(self._wanted)} in it." if all_rows and self._wanted else view.EMPTY[self._view]
        table.show(columns, rows, lambda row: view.key_of(self._view, row), order, descending, empty)
        parts = [f"{len(rows):,} of {len(all_rows):,}" if self._wanted else f"{len(rows):,} {self._view}"]
        if self._wanted:
            parts.append(f"with {quoted(self._wanted)}")
        if left_out := view.left_out(self._view, snapshot):
            parts.append(f"{left_out:,} more that the server left out")
        about = columns[order].about
        parts.append(f"sorted by {columns[order].title}" + (f": {about}" if about else ""))
        _show(more, Text(", ".join(parts), no_wrap=True, overflow="ellipsis"))

    # ---- what the user does ----

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        for name in _NAMES:
            if event.tab.id == name:
                self._view = name
        self._draw()
        self.query_one(RowTable).show_first()

    def action_view(self, name: view.ViewName) -> None:
        self.query_one(Tabs).active = name

    def action_next_view(self, by: int = 1) -> None:
        self.action_view(_NAMES[(_NAMES.index(self._view) + by) % len(_NAMES)])

    def action_order(self, by: int) -> None:
        order, _ = self._orders[self._view]
        self._order_by((order + by) % len(view.COLUMNS[self._view]))

    def on_row_table_header_clicked(self, event: RowTable.HeaderClicked) -> None:
        if event.column == self._orders[self._view][0]:
            self.action_reverse()
        else:
            self._order_by(event.column)

    def _order_by(self, order: int) -> None:
        # Texts go from A to Z, numbers from the largest on.
        self._orders[self._view] = (order, not view.COLUMNS[self._view][order].is_text)
        self._draw()
        self.query_one(RowTable).show_column(order)

    def action_reverse(self) -> None:
        order, descending = self._orders[self._view]
        self._orders[self._view] = (order, not descending)
        self._draw()

    def action_pause(self) -> None:
        self._paused = not self._paused
        self._draw()

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.add_class("open")
        field.focus()

    def action_clear_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.value = ""
        field.remove_class("open")
        self.query_one(RowTable).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._wanted = event.value
        self._draw()

    def on_input_submitted(self) -> None:
        self.query_one(RowTable).focus()

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        self.push_screen(_Details(self._view, event.row))


@contextmanager
def _without_log_lines() -> Iterator[None]:
    """Log lines would be written over the screen. What they say of this client's connection is on the screen."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(disabled)


def run(server: Observed, interval: float) -> None:
    """Shows a server on this terminal until the user ends it."""

    def start(found: Callable[[Look], None]) -> Callable[[], None]:
        watcher = Watcher(server, interval, found)
        watcher.start()
        return watcher.stop

    with _without_log_lines():
        TopApp(start).run()
