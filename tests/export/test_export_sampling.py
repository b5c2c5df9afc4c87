import numpy as np
from exported_policies import made

from drl_cli.export.parity import Observations
from drl_cli.policies.numpy_policy import NumpyPolicy


def _drawn(name, space, rows=500):
    return Observations(NumpyPolicy(*made(name)), space, np.random.default_rng(0)).draw(rows)


def test_vectors_are_drawn_within_their_bounds_and_from_a_wide_normal_without():
    obs = _drawn("squashed_gaussian", {"low": [-1, 0, None, -1e38, 2], "high": [1, 5, None, 1e38, 3]})
    assert (obs.dtype, obs.shape) == (np.float32, (500, 5))
    assert -1 <= obs[3:, 0].min() < -0.9 and 0.9 < obs[:, 0].max() <= 1
    assert obs[3:, 4].min() >= 2 and obs[:, 4].max() <= 3
    assert 2.5 < obs[:, 2].std() < 3.5 and 2.5 < obs[:, 3].std() < 3.5
    np.testing.assert_array_equal(obs[:3], np.float32([[0] * 5, [-1, 0, 0, 0, 2], [1, 5, 0, 0, 3]]))


def test_vectors_behind_a_filter_are_drawn_around_its_statistics():
    obs = _drawn("squashed_gaussian, filtered", {"low": [-1] * 5, "high": [1] * 5}, 4000)
    np.testing.assert_allclose(obs.mean(axis=0), [1, -2, 0, 0, 5], atol=1.5)
    np.testing.assert_allclose(obs.std(axis=0), [6, 1.5, 3, 3, 30], rtol=0.1)


def test_masks_hold_whole_numbers_and_once_allow_nothing():
    obs = _drawn("quantile with a mask", {})
    assert set(np.unique(obs[:, 2:5])) == {0.0, 1.0}
    assert obs[0, 2:5].tolist() == [0, 0, 0]


def test_images_are_random_bytes_and_plain_ones_in_every_frame():
    obs = _drawn("image of bytes from 0 to 1, three frames", {"low": 0, "high": 255}, 8)
    assert (obs.dtype, obs.shape) == (np.uint8, (8, 9, 11, 9))
    assert obs[0].max() == 0 and obs[1].min() == 255
    assert len(np.unique(obs[2])) > 200 and (obs[2, ..., :3] != obs[2, ..., 3:6]).any()
