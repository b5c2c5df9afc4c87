"""A terminal in memory: as much of one as the live screen uses, so that a test sees what a person would.

``reflows``: lines that wrapped are laid out anew when the width changes, as GNOME's terminal, kitty, iTerm and tmux do;
without it they are cut, as in xterm. ``keeps_blank``: what is empty below the cursor stays there, as in tmux; elsewhere it
makes room first.
"""

import re

MARK = "\x1b[99m"  # means nothing to a terminal
ESCAPE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b\]8;[^\x1b]*\x1b\\")


class Row:
    """One row of cells; ``goes_on``: the row below holds the rest of its line."""

    def __init__(self, text="", goes_on=False):
        self.text, self.goes_on = text, goes_on


class Emulator:
    """``shown()`` is what stands on the screen, ``scrolled()`` what has left it at the top."""

    def __init__(self, columns, lines, reflows, keeps_blank=False):
        self.columns, self.lines, self._reflows, self._keeps_blank = columns, lines, reflows, keeps_blank
        self._rows, self._y, self._x = [Row()], 0, 0
        self.marks = 0  # how often MARK has come

    @property
    def _top(self):
        return max(0, len(self._rows) - self.lines)

    def shown(self):
        return [row.text.rstrip() for row in self._rows[self._top :]]

    def scrolled(self):
        return [row.text.rstrip() for row in self._rows[: self._top]]

    def feed(self, text):
        place = 0
        while place < len(text):
            found = ESCAPE.match(text, place)
            if found:
                self._escape(found)
                place = found.end()
                continue
            self._put(text[place])
            place += 1

    def resize(self, columns, lines):
        if not self._reflows:
            for row in self._rows:
                row.text, row.goes_on = row.text[:columns], False
            self.columns, self.lines, self._x = columns, lines, min(self._x, columns)
            return
        if self._keeps_blank:
            self._rows += [Row() for _ in range(self.lines - len(self._rows))]
        while not self._keeps_blank and len(self._rows) > self._y + 1 and not self._rows[-1].text:
            self._rows.pop()
        rows, line, at = [], "", None
        for number, row in enumerate(self._rows):
            if number == self._y:
                at = len(line) + self._x
            line += row.text
            if row.goes_on:
                continue
            parts = [line[start : start + columns] for start in range(0, max(1, len(line)), columns)]
            if at is not None:
                step = min(at // columns, len(parts) - 1)
                self._y, self._x, at = len(rows) + step, at - step * columns, None
            rows += [Row(part, part is not parts[-1]) for part in parts]
            line = ""
        self._rows, self.columns, self.lines = rows, columns, lines

    def _escape(self, found):
        count = int(found[1]) if (found[1] or "").isdigit() else None
        if found[2] == "A":
            self._y = max(self._top, self._y - (count or 1))
        elif found[2] == "B":
            self._y = min(self._top + self.lines - 1, self._y + (count or 1))
            self._rows += [Row() for _ in range(self._y + 1 - len(self._rows))]
        elif found[2] == "K" and count == 2:
            self._rows[self._y] = Row()
        elif found[0] == MARK:
            self.marks += 1
        elif found[2] not in ("m", "h", "l", None):
            raise AssertionError(f"an escape that this terminal does not know: {found[0]!r}")

    def _put(self, character):
        if character == "\r":
            self._x = 0
        elif character == "\n":
            self._x = 0
            self._down()
        else:
            if self._x >= self.columns:
                self._rows[self._y].goes_on = True
                self._x = 0
                self._down()
            text = self._rows[self._y].text.ljust(self._x)
            self._rows[self._y].text = text[: self._x] + character + text[self._x + 1 :]
            self._x += 1

    def _down(self):
        self._y += 1
        if self._y == len(self._rows):
            self._rows.append(Row())
