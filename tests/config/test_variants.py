from drl_cli.config import search_space
from drl_cli.config.search_space import Sampler


def drawn(samplers, num_samples=1, seed=1, **keywords):
    return list(search_space.draw(samplers, num_samples, seed, **keywords))


def test_grids_multiply_then_samples():
    grids = {"a": Sampler("grid_search", (1, 2)), "b": Sampler("grid_search", ("x", "y", "z"))}
    found = [tuple(values.values()) for values, _ in drawn(grids, 2)]
    once = [(1, "x"), (1, "y"), (1, "z"), (2, "x"), (2, "y"), (2, "z")]
    assert found == once + once
    assert search_space.count(grids, 2) == 12


def test_points_of_one_pass_over_the_grid_share_a_seed_and_passes_do_not():
    seeds = [seed for _, seed in drawn({"a": Sampler("grid_search", (1, 2))}, 2)]
    assert seeds[0] == seeds[1] and seeds[2] == seeds[3] and seeds[0] != seeds[2]


def test_values_are_drawn_anew_for_each_point():
    found = drawn({"a": Sampler("grid_search", (1, 2)), "lr": Sampler("uniform", (0, 1))}, 2)
    assert len({values["lr"] for values, _ in found}) == 4


def test_order_of_names_is_the_order_of_the_experiment():
    found = drawn({"lr": Sampler("uniform", (0, 1)), "a": Sampler("grid_search", (1,))})
    assert list(found[0][0]) == ["lr", "a"]


def test_same_seed_makes_the_same_points():
    samplers = {"lr": Sampler("loguniform", (1e-5, 1))}
    assert drawn(samplers, 3, seed=7) == drawn(samplers, 3, seed=7)
    assert drawn(samplers, 3, seed=7) != drawn(samplers, 3, seed=8)


def test_own_seed_of_an_experiment_is_not_replaced():
    assert drawn({}, 2, own_seed=True) == [({}, None), ({}, None)]


def test_names_leave_config_out():
    paths = [("config", "model", "dim"), ("env",), ("stop", "timesteps_total"), ("config", "layers", 0)]
    assert list(search_space.names(paths)) == ["model.dim", "env", "stop.timesteps_total", "layers.0"]


def test_filled_puts_values_and_the_seed_into_a_copy():
    mapping = {"env": {"grid_search": ["A"]}, "config": {"layers": [{"randint": [1, 9]}, 4]}}
    paths = {"env": ["env"], "layers.0": ["config", "layers", 0], "model.dim": ["config", "model", "dim"]}
    point = {"values": {"env": "A", "layers.0": 8, "model.dim": 3}, "seed": 11}
    filled = search_space.filled({"mapping": mapping, "paths": paths}, point)
    assert filled == {"env": "A", "config": {"layers": [8, 4], "model": {"dim": 3}, "seed": 11}}
    assert mapping["config"]["layers"][0] == {"randint": [1, 9]}


def test_corners_meet_every_listed_value_and_both_ends():
    samplers = {"a": Sampler("choice", ("x", "y", "z")), "lr": Sampler("uniform", (0, 1))}
    assert list(search_space.corners(samplers)) == [
        {"a": "x", "lr": 0},
        {"a": "y", "lr": 1},
        {"a": "z", "lr": 1},
    ]


def test_fresh_seeds_were_used_by_no_point():
    data = {"seed": 3, "points": [{"seed": None, "values": {"seed": 5}}]}
    first = search_space.fresh_seeds(data, 2)
    used = {"seed": 3, "points": [{"seed": first[0], "values": {}}]}
    assert len(set(first)) == 2
    assert first[0] not in search_space.fresh_seeds(used, 2)
    assert search_space.fresh_seeds(data, 2) == first
