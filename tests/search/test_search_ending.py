"""How a search ends: exit code and words, by how its trials ended."""

import signal

import pytest
import searches
from searches import trial

from drl_cli.search import run_search
from drl_cli.stop_request import StopCondition


class Record:
    """A record of trials in these states."""

    def __init__(self, *states, **changes):
        self.data = searches.data(**changes)
        self.trials = {number: trial(number, 0.1, 5.0, state=state) for number, state in enumerate(states)}
        self.written = []

    def write(self, state):
        self.written.append(state)


@pytest.mark.parametrize(
    ("states", "code", "text"),
    [
        (("finished", "stopped"), 0, ""),
        (("finished", "failed", "stopped"), 3, "1 of 3 trials failed"),
        (("failed", "failed"), 3, "no trial finished"),
    ],
)
def test_exit_code_tells_whether_a_trial_failed(states, code, text):
    record = Record(*states)
    assert run_search._ended(record, StopCondition(), None) == run_search.SearchOutcome("finished", code, None, text)
    assert record.written == ["finished"]


def test_a_file_that_was_written_is_told_although_a_trial_failed(tmp_path):
    record = Record("finished", "failed", write={"path": "best.yaml"})
    assert run_search._ended(record, StopCondition(), tmp_path).written == tmp_path
    assert run_search._ended(Record("finished", write={"path": "best.yaml"}), StopCondition(), None).exit_code == 3


def test_a_missed_criterion_comes_behind_a_failed_trial():
    demands = [["evaluation/episode_reward_mean", ">=", 9.0]]
    assert run_search._ended(Record("finished", demands=demands), StopCondition(), None).exit_code == 4
    assert run_search._ended(Record("finished", "failed", demands=demands), StopCondition(), None).exit_code == 3


def test_a_search_that_was_stopped_ends_as_interrupted():
    stopped = StopCondition()
    stopped.signal = signal.SIGINT
    found = run_search._ended(Record("finished", "failed"), stopped, None)
    assert (found.state, found.exit_code) == ("interrupted", 130)
