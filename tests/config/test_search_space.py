import math
import random

import pytest

from drl_cli.config import search_space
from drl_cli.config.search_space import Sampler


def values(node, count=400, seed=0):
    sampler = search_space.read(node)
    rng = random.Random(seed)
    return [sampler.draw(rng) for _ in range(count)]


def test_uniform_stays_between_its_bounds_and_fills_them():
    drawn = values({"uniform": [2, 4]})
    assert all(2 <= value <= 4 for value in drawn)
    assert min(drawn) < 2.05 and max(drawn) > 3.95


def test_loguniform_draws_as_many_below_the_geometric_middle_as_above():
    drawn = values({"loguniform": [1e-4, 1e-2]}, 1000)
    assert 0.45 < sum(value < 1e-3 for value in drawn) / 1000 < 0.55
    assert min(drawn) >= 1e-4 and max(drawn) <= 1e-2


def test_quniform_rounds_to_its_step_without_noise_of_floats():
    assert set(values({"quniform": [0, 0.5, 0.1]})) == {0.0, 0.1, 0.2, 0.3, 0.4, 0.5}


def test_randint_leaves_the_high_end_out_as_tune_does():
    assert set(values({"randint": [3, 6]})) == {3, 4, 5}
    assert set(values({"randint": 2})) == {0, 1}


def test_qrandint_draws_multiples_with_the_high_end():
    assert set(values({"qrandint": [32, 128, 32]})) == {32, 64, 96, 128}


def test_lograndint_draws_whole_numbers_of_its_range_only():
    drawn = values({"lograndint": [1, 100]})
    assert all(isinstance(value, int) and 1 <= value < 100 for value in drawn)
    assert sum(value < 10 for value in drawn) > 150  # half of them


def test_randn_has_its_mean_and_deviation():
    drawn = values({"randn": [5, 2]}, 4000)
    mean = sum(drawn) / len(drawn)
    assert abs(mean - 5) < 0.1
    assert abs(math.sqrt(sum((value - mean) ** 2 for value in drawn) / len(drawn)) - 2) < 0.1


def test_choice_takes_any_plain_data():
    found = values({"choice": [[64, 64], None, "relu"]})
    assert all(value in ([64, 64], None, "relu") for value in found)
    assert [64, 64] in found and None in found and "relu" in found


def test_prefix_of_tune_is_read():
    assert search_space.read({"tune.uniform": [0, 1]}) == Sampler("uniform", (0, 1))


def test_same_seed_draws_the_same_values():
    node = {"loguniform": [1e-5, 1]}
    assert values(node, 5, seed=3) == values(node, 5, seed=3)
    assert values(node, 5, seed=3) != values(node, 5, seed=4)


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ({"uniform": [1, 0]}, "uniform takes [low, high], not [1, 0]"),
        ({"uniform": 3}, "uniform takes [low, high], not 3"),
        ({"loguniform": [0, 1]}, "loguniform takes [low, high], above 0, not [0, 1]"),
        ({"quniform": [0, 1]}, "quniform takes [low, high, step], not [0, 1]"),
        ({"quniform": [0, 1, 0]}, "quniform takes [low, high, step], not [0, 1, 0]"),
        ({"randint": [0, 1.5]}, "randint takes [low, high] of whole numbers, high left out, not [0, 1.5]"),
        ({"uniform": [True, 2]}, "uniform takes [low, high], not [true, 2]"),
        ({"grid_search": []}, "grid_search takes a list of values, each of which is tried, not []"),
        ({"grid_search": [1], "uniform": [0, 1]}, "grid_search stands alone in its mapping"),
        ({"grid_search": [{"uniform": [0, 1]}]}, "a search inside another one"),
        ({"eval": "__import__('os')"}, "eval holds code, which is not run. Draw values with one of choice, uniform"),
        ({"tune.sample_from": "lambda s: 1"}, "sample_from holds code, which is not run"),
    ],
)
def test_misspelt_node_is_refused_with_what_it_takes(node, text):
    with pytest.raises(search_space.Misspelt) as caught:
        search_space.read(node)
    assert str(caught.value).startswith(text)


def test_find_names_the_path_of_every_node_also_in_lists():
    data = {"env": {"grid_search": ["A", "B"]}, "config": {"model": {"fcnet_hiddens": [{"randint": [8, 64]}, 32]}}}
    found, wrong = search_space.find(data)
    assert found == {
        ("env",): Sampler("grid_search", ("A", "B")),
        ("config", "model", "fcnet_hiddens", 0): Sampler("randint", (8, 64)),
    }
    assert wrong == {}


def test_mapping_that_merely_has_such_a_key_is_left_alone():
    data = {"env_config": {"choice": 3, "size": 5}}
    assert search_space.find(data) == ({}, {})


def test_extremes_are_both_ends_or_all_of_a_list():
    assert search_space.read({"randint": [3, 9]}).extremes() == [3, 8]
    assert search_space.read({"uniform": [0, 1]}).extremes() == [0, 1]
    assert search_space.read({"choice": ["a", "b"]}).extremes() == ["a", "b"]


def test_clip_moves_a_number_to_the_nearer_bound():
    sampler = Sampler("uniform", (0.9, 0.999))
    assert (sampler.clip(1.2), sampler.clip(0.5), sampler.clip(0.95)) == (0.999, 0.9, 0.95)
