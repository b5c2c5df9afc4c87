"""Keys of sequences, R2D2's and a team's with a memory: how long they are, and what contradicts itself."""

import pytest
from pydantic import ValidationError

from drl_cli.algorithms.dqn import DQNConfig
from drl_cli.algorithms.qmix import QMIXConfig
from drl_cli.algorithms.r2d2 import R2D2Config
from drl_cli.config.sections.replay import learnt_steps, span


def made(**given):
    return R2D2Config.model_validate(given)


def test_sequence_is_burn_in_and_the_steps_that_are_learnt():
    assert (learnt_steps(made()), span(made())) == (20, 22)  # 20 steps, the last of which looks 3 ahead
    long = made(burn_in=10, model={"max_seq_len": 30}, n_step=1)
    assert (learnt_steps(long), span(long)) == (30, 40)
    assert learnt_steps(made(burn_in=10, replay_sequence_length=25)) == 15
    assert learnt_steps(made(burn_in=10, replay_sequence_length=25, model={"max_seq_len": 15})) == 15


def test_transitions_span_their_window():
    assert (learnt_steps(DQNConfig()), span(DQNConfig())) == (1, 3)


def test_other_keys_of_the_model_leave_its_lstm_in_place():
    assert made(model={"lstm_cell_size": 7}).model.use_lstm


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"burn_in": 10, "replay_sequence_length": 10}, "10 is not more than burn_in 10"),
        ({"replay_sequence_length": 9, "model": {"max_seq_len": 8}}, "give one of the two"),
        ({"model": {"use_lstm": False}}, "without it the algorithm is DQN: use --run DQN"),
        (
            {"prioritized_replay": True, "worker_side_prioritization": True},
            "workers do not compute priorities of sequences",
        ),
        ({"buffer_size": 80, "learning_starts": 50}, "windows of 22 steps from 4 environments .* need 92 or more"),
    ],
)
def test_keys_that_contradict_are_refused(given, why):
    with pytest.raises(ValidationError, match=why):
        made(**given)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"burn_in": 4}, "without model.use_lstm no sequences are replayed"),
        ({"zero_init_states": True}, "without model.use_lstm no sequences are replayed"),
        ({"model": {"use_lstm": True}, "share_weights": False}, "agents with a memory share their weights"),
        ({"model": {"use_lstm": True}, "input": "some.json"}, "files hold no states of the LSTM"),
    ],
)
def test_team_whose_keys_of_memory_do_not_fit_is_refused(keys, why):
    with pytest.raises(ValidationError, match=why):
        QMIXConfig.model_validate(keys)


def test_team_replays_sequences_where_it_has_a_memory():
    assert (learnt_steps(QMIXConfig()), span(QMIXConfig())) == (1, 1)
    recurrent = QMIXConfig(model={"use_lstm": True, "max_seq_len": 5}, burn_in=2)
    assert (learnt_steps(recurrent), span(recurrent)) == (5, 7)
