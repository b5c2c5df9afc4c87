"""What an evolution worker records: whole episodes of perturbed weights, as a slow player sees them, each once."""

import numpy as np
import pytest
from evolved import CARTPOLE, ENV, IDENTITY, PENDULUM, config, parts, played

from drl_cli.actors.evolution_worker import EvolutionWorker
from drl_cli.evolution.directions import Block
from drl_cli.experience.recorded.pieces import layout_of
from drl_cli.experience.recorded.read import Source

BLOCK = Block(0, 2, 3)
PENDULUM_ENV = {"id": "Pendulum-v1", "env_config": {}, "imports": ()}


def _worker(made, folder, spaces=CARTPOLE, env=ENV, **identity):
    spec, weights, server = parts(made, spaces)
    return EvolutionWorker(made, env, spec, {**IDENTITY, "output": str(folder), **identity}, server), spec, weights


def _read(folder, spaces=CARTPOLE):
    return list(Source(str(folder), layout_of(spaces), passes=1))


def _block(worker, block=BLOCK):
    while not worker.collect(1, None, block)[0].whole:
        pass


@pytest.mark.parametrize("steps", [1000, 7])
def test_recorded_episodes_are_those_of_each_side_played_by_itself(tmp_path, steps):
    made = config(noise_stdev=0.5, rollout_fragment_length=steps)
    worker, spec, weights = _worker(made, tmp_path)
    _block(worker)
    worker.close()
    found = sorted(tuple(map(tuple, piece.obs.tolist())) for piece in _read(tmp_path))
    slow = [played(made, spec, weights, index, sign)[1] for index in (2, 3, 4) for sign in (1, -1)]
    assert found == sorted(tuple(map(tuple, np.float32(seen).tolist())) for seen in slow)


def test_actions_are_the_environments_and_a_time_limit_is_no_end(tmp_path):
    made = config(horizon=9, noise_stdev=0.3)
    worker, spec, weights = _worker(made, tmp_path, PENDULUM, PENDULUM_ENV)
    _block(worker, Block(0, 0, 1))
    worker.close()
    found = _read(tmp_path, PENDULUM)
    assert [(len(piece.reward), piece.terminated, piece.truncated, piece.logp) for piece in found] == 2 * [
        (9, False, True, None)
    ]
    slow = [played(made, spec, weights, 0, sign, "Pendulum-v1")[0] for sign in (1, -1)]
    np.testing.assert_allclose(sorted(sum(piece.reward) for piece in found), sorted(map(sum, slow)), rtol=1e-5)
    for piece in found:  # the reward of Pendulum tells the torque that was applied, at most 2
        angle = np.arctan2(piece.obs[:, 1], piece.obs[:, 0])
        torque = np.clip(piece.action[:, 0], -2, 2)
        cost = angle**2 + 0.1 * piece.obs[:, 2] ** 2 + 0.001 * torque**2
        np.testing.assert_allclose(-piece.reward, cost, atol=1e-4)


def test_a_fallen_pole_is_an_end_and_its_last_observation_is_there(tmp_path):
    made = config(noise_stdev=0.5, horizon=500)
    worker, _, _ = _worker(made, tmp_path)
    _block(worker)
    worker.close()
    ended = [piece for piece in _read(tmp_path) if piece.terminated]
    assert ended and all(abs(piece.end_obs[2]) > 0.2095 or abs(piece.end_obs[0]) > 2.4 for piece in ended)


def test_a_block_that_was_left_in_the_middle_leaves_nothing(tmp_path):
    worker, _, _ = _worker(config(rollout_fragment_length=3), tmp_path)
    assert not worker.collect(1, None, BLOCK)[0].whole
    worker.close()
    assert list(tmp_path.iterdir()) == []


def test_what_was_recorded_behind_a_checkpoint_goes_and_is_recorded_again(tmp_path):
    one, _, _ = _worker(config(), tmp_path)
    _block(one)
    state = one.state()
    before = len(_read(tmp_path))
    _block(one, Block(0, 5, 3))
    one.close()
    other, _, _ = _worker(config(), tmp_path)
    other.load(*state)
    assert len(_read(tmp_path)) == before == 6
    _block(other, Block(0, 5, 3))
    other.close()
    pieces = _read(tmp_path)
    assert len(pieces) == 12 and len({piece.episode for piece in pieces}) == 12


def test_without_output_no_steps_are_kept_and_there_is_no_state():
    spec, _, server = parts(config())
    worker = EvolutionWorker(config(rollout_fragment_length=3), ENV, spec, IDENTITY, server)
    worker.collect(1, None, BLOCK)
    assert worker.state() == ({}, {}) and not any(worker._playing._kept)
