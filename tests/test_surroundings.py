"""No test depends on who runs it, or from where."""

import os
import pwd
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import surroundings


def test_home_and_current_folder_are_empty_with_nothing_beside_them():
    home, here = Path.home(), Path.cwd()
    assert home != Path(pwd.getpwuid(os.getuid()).pw_dir) and not any(home.iterdir())
    assert not any(here.iterdir()) and list(here.parent.iterdir()) == [here]


def test_home_before_and_after_a_test_is_another(tmp_path, request):
    first = Path.home()
    (first / "ray_results").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        surroundings.settle_test(patch, tmp_path)
        assert Path.home() != first and not any(Path.home().iterdir())
    assert Path.home() == first


def test_variables_that_change_what_is_done_or_printed_are_not_set():
    assert surroundings.foreign() == []
    assert surroundings.foreign({"DRL_DEBUG": "1", "COLUMNS": "40", "PATH": "/bin"}) == ["COLUMNS", "DRL_DEBUG"]


def test_signals_that_whoever_started_pytest_ignores_are_heard_by_what_tests_start():
    kept = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT)}
    try:
        for number in kept:
            signal.signal(number, signal.SIG_IGN)
        surroundings.hear_signals()
        asked = "import signal; print(signal.getsignal(signal.SIGHUP).name, callable(signal.getsignal(signal.SIGINT)))"
        told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
        assert told.stdout == "SIG_DFL True\n"
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
