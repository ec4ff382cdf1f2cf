"""A table on a terminal of which only the visible lines are made: its cost doesn't depend on the number of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from crossdock.cli.monitor.rates import Row
from crossdock.cli.monitor.view import Column

_GAP = 2


class RowTable(ScrollView):
    """Rows under a header that stays. The chosen row stays chosen where rows change their order. Not thread-safe."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "row-table--header",
        "row-table--order",
        "row-table--cursor",
    }
    DEFAULT_CSS = """
    RowTable {
        height: 1fr; background: $surface; scrollbar-size: 1 1;
        scrollbar-background: $surface; scrollbar-background-hover: $surface; scrollbar-background-active: $surface;
        scrollbar-color: $panel-lighten-2; scrollbar-corner-color: $surface;
    }
    RowTable > .row-table--header { text-style: bold; color: $text-muted; background: $panel; }
    RowTable > .row-table--order { text-style: bold; color: $text-accent; background: $panel; }
    RowTable > .row-table--cursor { background: $primary-muted; }
    RowTable:focus > .row-table--cursor { background: $primary 60%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "first", "First", show=False),
        Binding("end", "last", "Last", show=False),
        Binding("enter", "choose", "Details"),
    ]

    class Chosen(Message):
        """Enter, or a second click, on a row."""

        def __init__(self, row: Row) -> None:
            super().__init__()
            self.row = row

    class HeaderClicked(Message):
        def __init__(self, column: int) -> None:
            super().__init__()
            self.column = column

    def __init__(self, empty: str = "") -> None:
        super().__init__()
        self.can_focus = True
        self._columns: Sequence[Column] = ()
        self._rows: Sequence[Row] = ()
        self._key: Callable[[Row], str] = str
        self._order, self._descending = 0, True
        self._cursor: str | None = None  # The key of the chosen row.
        self._at = 0  # Its index.
        self._empty = empty

    def show(
        self,
        columns: Sequence[Column],
        rows: Sequence[Row],
        key: Callable[[Row], str],
        order: int,
        descending: bool,
        empty: str,
    ) -> None:
        """Shows other rows, and finds the chosen one among them by its key."""
        self._columns, self._rows, self._key, self._empty = columns, rows, key, empty
        self._order, self._descending = order, descending
        self._at = next((i for i, row in enumerate(rows) if key(row) == self._cursor), min(self._at, len(rows) - 1))
        self._at = max(self._at, 0)
        self._cursor = key(rows[self._at]) if rows else None
        width = sum(column.width for column in columns) + _GAP * len(columns)
        self.virtual_size = Size(width, len(rows) + 1)
        self.refresh()

    @property
    def chosen(self) -> Row | None:
        return self._rows[self._at] if self._rows else None

    def show_first(self) -> None:
        """Chooses the first row, and scrolls to it and to the first column."""
        self.action_first()
        self.scroll_to(0, 0, animate=False, force=True)

    def show_column(self, index: int) -> None:
        """Scrolls sideways until a column is visible."""
        start = sum(column.width + _GAP for column in self._columns[:index])
        self.scroll_to_region(
            Region(start, round(self.scroll_y), self._columns[index].width + _GAP, 1), animate=False, force=True
        )

    # ---- drawing ----

    def render_line(self, y: int) -> Strip:
        """Draws one line of the screen."""
        left, top = self.scroll_offset
        width = self.size.width
        base = self.rich_style
        if y == 0:
            strip = self._header()
            base = self.get_component_rich_style("row-table--header")
        elif top + y - 1 < len(self._rows):
            index = top + y - 1
            if index == self._at:
                base = self.get_component_rich_style("row-table--cursor")
            strip = self._line(self._rows[index], base)
        elif y == 2 and not self._rows:
            return Strip([Segment(_fitted(f" {self._empty}", width, False), base)], width)
        else:
            strip = Strip([])
        return strip.crop_extend(left, left + width, base)

    def _header(self) -> Strip:
        plain = self.get_component_rich_style("row-table--header")
        ordered = self.get_component_rich_style("row-table--order")
        segments = []
        for i, column in enumerate(self._columns):
            mark = ("▼" if self._descending else "▲") if i == self._order else ""
            title = f"{column.title}{mark}" if column.is_text else f"{mark}{column.title}"
            segments.append(
                Segment(_fitted(title, column.width, not column.is_text) + " " * _GAP, ordered if mark else plain)
            )
        return Strip(segments)

    def _line(self, row: Row, style: Style) -> Strip:
        cells = (_fitted(column.text(row), column.width, not column.is_text) + " " * _GAP for column in self._columns)
        return Strip([Segment("".join(cells), style)])

    # ---- what the user does ----

    def action_move(self, by: int) -> None:
        if self._rows:
            self._go_to(min(max(self._at + by, 0), len(self._rows) - 1))

    def action_first(self) -> None:
        self.action_move(-len(self._rows))

    def action_last(self) -> None:
        self.action_move(len(self._rows))

    def action_page(self, by: int) -> None:
        self.action_move(by * max(self.size.height - 2, 1))

    def action_choose(self) -> None:
        if self._rows:
            self.post_message(self.Chosen(self._rows[self._at]))

    def _go_to(self, index: int) -> None:
        self._at, self._cursor = index, self._key(self._rows[index])
        top, visible = round(self.scroll_y), self.size.height - 1
        if index < top:
            self.scroll_to(y=index, animate=False, force=True)
        elif index >= top + visible:
            self.scroll_to(y=index - visible + 1, animate=False, force=True)
        self.refresh()

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y == 0:
            x = offset.x + round(self.scroll_x)
            for i, column in enumerate(self._columns):
                x -= column.width + _GAP
                if x < 0:
                    self.post_message(self.HeaderClicked(i))
                    return
            return
        index = round(self.scroll_y) + offset.y - 1
        if index < len(self._rows):
            if index == self._at:
                self.action_choose()
            else:
                self._go_to(index)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        self.scroll_to(y=self.scroll_y + 3, animate=False, force=True)
        event.stop()

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        self.scroll_to(y=self.scroll_y - 3, animate=False, force=True)
        event.stop()


def _fitted(text: str, width: int, right: bool) -> str:
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…"
    space = " " * (width - length)
    return space + text if right else text + space
