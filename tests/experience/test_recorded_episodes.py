"""Recorded pieces become the episodes of estimates: whole ones, joined ones, those that are left out, and refusals."""

import json

import numpy as np
import pytest
from scored_policies import made

from drl_cli.errors import ExperienceError
from drl_cli.experience.action_likelihood import Drawing, EpisodeLikelihood
from drl_cli.experience.recorded.pieces import Piece
from drl_cli.experience.recorded.read import Source
from drl_cli.experience.recorded_episodes import EpisodeCollector, layout_of_policy
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import DiscreteSpec, NetSpec, PolicySpec, ValueSpec

RNG = np.random.default_rng(0)
POLICY = NumpyPolicy(*made("categorical"))


def _piece(steps, start=0, ended=True, episode=1, source="a.json:1", **changed):
    obs = RNG.normal(0, 1, (steps, 6)).astype(np.float32)
    action = RNG.integers(0, 3, steps, np.int32)
    logp = np.full(steps, np.log(1 / 3), np.float32)
    piece = Piece(
        obs, action, np.arange(start, start + steps, dtype=np.float32), ended, False, None, logp, start, episode, source
    )
    return piece._replace(**changed)


def _gathered(*pieces):
    found = EpisodeCollector(POLICY)
    for piece in pieces:
        found.add(piece)
    return found


def test_whole_episode_is_its_rewards_and_two_log_probabilities():
    piece = _piece(5)
    (episode,) = _gathered(piece).episodes
    assert episode.reward.tolist() == [0, 1, 2, 3, 4]
    assert np.exp(episode.logp_behaviour) == pytest.approx(1 / 3)
    np.testing.assert_allclose(
        episode.logp_target, EpisodeLikelihood(POLICY).logp(piece.obs, piece.action, piece.reward)
    )


def test_parts_of_several_episodes_are_joined():
    first, second = {"episode": 1}, {"episode": 2}
    pieces = [
        _piece(3, ended=False, **first),
        _piece(2, ended=False, **second),
        _piece(2, 3, **first),
        _piece(4, 2, **second),
    ]
    found = _gathered(*pieces)
    assert [episode.reward.tolist() for episode in found.episodes] == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5]]
    expected = EpisodeLikelihood(POLICY).logp(*(np.concatenate([getattr(pieces[i], name) for i in (0, 2)]) for name in
                                        ("obs", "action", "reward")))  # fmt: skip
    np.testing.assert_allclose(found.episodes[0].logp_target, expected, rtol=1e-5)
    assert found.incomplete == 0


def test_equal_numbers_in_two_files_are_two_episodes():
    found = _gathered(_piece(3, ended=False, source="a.json:1"), _piece(2, 3, source="b.json:7"))
    assert (found.episodes, found.incomplete) == ([], 2)


@pytest.mark.parametrize(
    "pieces",
    [
        [_piece(3, ended=False)],  # broken off
        [_piece(3, start=2)],  # its beginning is not there
        [_piece(3, ended=False), _piece(3, start=4)],  # a step is missing
    ],
)
def test_episode_that_is_not_whole_is_left_out_and_counted(pieces):
    found = _gathered(*pieces, _piece(2, episode=7))
    assert (len(found.episodes), found.incomplete) == (1, 1)


def test_episode_that_begins_again_under_its_number_was_not_whole():
    found = _gathered(_piece(3, ended=False), _piece(3, ended=False), _piece(4))
    assert (len(found.episodes), found.incomplete) == (1, 2)


def test_episodes_without_probabilities_are_left_out_and_counted():
    found = _gathered(_piece(3, logp=None), _piece(2, ended=False), _piece(2, 2, logp=None), _piece(4))
    assert (len(found.episodes), found.without_logp) == (1, 2)
    assert found.estimate(1.0)["behaviour"]["mean"] == 6.0


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (
            [_piece(3, logp=None, source="x/a.json:12")],
            r"^x/a.json:12: the probabilities of these actions were not recorded",
        ),
        ([_piece(3, ended=False)], r"^no recorded episode is complete"),
        ([_piece(3, logp=np.zeros(3, np.float32))] * 2, r"^every recorded action has probability 1"),
        ([], r"^no recorded episode is complete"),
    ],
)
def test_what_nothing_can_be_estimated_from_is_refused(pieces, text):
    with pytest.raises(ExperienceError, match=text):
        _gathered(*pieces).estimate(0.9)


def test_log_probability_that_is_no_number_is_refused_with_its_place():
    with pytest.raises(ExperienceError, match=r"^a.json:1: holds a log-probability of an action that is not finite"):
        _gathered(_piece(2, logp=np.float32([0.0, np.nan])))


def test_greedy_policy_over_action_values_never_takes_another_action():
    net = NetSpec("q", (("obs", 6),), (), (("q", 3),))
    spec = PolicySpec((net,), "q", (6,), DiscreteSpec(3), value=ValueSpec())
    weights = {name: np.zeros(shape, np.float32) for name, shape in net.weight_shapes().items()}
    weights["q/q/bias"] = np.float32([0, 1, 0])
    piece, found = _piece(3, action=np.int32([1, 0, 1])), []
    for drawing in (None, Drawing(epsilon=0.3)):
        recollection = EpisodeCollector(NumpyPolicy(spec, weights), drawing)
        recollection.add(piece)
        found.append(np.exp(recollection.episodes[0].logp_target))
    np.testing.assert_allclose(found, [[1, 0, 1], [0.8, 0.1, 0.8]], rtol=1e-6)


@pytest.mark.parametrize("normalized", [False, True])
def test_densities_of_normalised_actions_are_stretched_with_them(tmp_path, normalized):
    spec, weights = made("gaussian")  # bounds (-2, 0) to (2, 1): half ranges 2 and ½
    batch = {"obs": [[0.0] * 6] * 2, "actions": [[0.5, 0.5]] * 2, "rewards": [1, 1], "dones": [False, True]}
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"type": "SampleBatch", **batch, "action_logp": [-1.0, -1.0], "t": [0, 1]}) + "\n")
    (piece,) = Source([path], layout_of_policy(spec, normalized), passes=1)
    assert piece.action[0].tolist() == ([1.0, 0.75] if normalized else [0.5, 0.5])
    assert piece.logp == pytest.approx(-1.0 - (np.log(2.0) + np.log(0.5) if normalized else 0.0))
    recollection = EpisodeCollector(NumpyPolicy(spec, weights))
    recollection.add(piece)
    assert len(recollection.episodes) == 1


@pytest.mark.parametrize("name", ["categorical", "multi_categorical", "multi_bernoulli", "gaussian", "composite"])
def test_layout_of_a_policy_is_that_of_its_environment(name):
    spec, _ = made(name)
    layout = layout_of_policy(spec)
    assert (layout.obs_shape, layout.obs_dtype, layout.action_shape) == ((6,), "float32", spec.action.shape)
    assert layout.action["kind"] == spec.action.kind and layout.is_box == (name == "gaussian")
