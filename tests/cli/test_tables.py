from drl_cli.cli import tables


def test_grid_pads_columns_and_wraps_the_last():
    lines = tables.grid(["key", "n", "meaning"], [["lr", 5, "a word or two more"]], 34, right=(1,))
    assert lines == ["key  n  meaning", "lr   5  a word or two more"]
    assert tables.grid(["k", "m"], [["a", "one two three four five six seven"]], 28) == [
        "k  m",
        "a  one two three four five",
        "   six seven",
    ]


def test_grid_gives_a_long_first_cell_a_line_of_its_own():
    lines = tables.grid(["key", "value"], [["a", "1"], ["a_very_long_key", "2"]], 20)
    assert lines == ["key  value", "a    1", "a_very_long_key", "     2"]


def test_grid_in_color_has_bold_headings():
    assert tables.grid(["a"], [["b"]], 80, color=True)[0] == "\x1b[1ma\x1b[0m"


def test_paragraph_hangs_behind_what_stands_first():
    assert tables.paragraph("one two three four five six", 30, 6, "goal") == [
        "goal  one two three four five",
        "      six",
    ]
    assert tables.paragraph("x", 30, 4, "") == ["x"]
