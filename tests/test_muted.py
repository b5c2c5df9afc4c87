"""What a library writes to descriptor 2 while it loads is not seen; everything else is."""

import os

from drl_cli import process


def test_what_is_written_while_a_module_loads_is_not_seen(capfd):
    with process.muted("no_such_module"):
        os.write(2, b"hello from C++\n")
    os.write(2, b"behind it\n")
    assert capfd.readouterr().err == "behind it\n"


def test_nothing_is_muted_for_a_module_that_has_been_loaded(capfd):
    with process.muted("os"):
        os.write(2, b"seen\n")
    assert capfd.readouterr().err == "seen\n"
