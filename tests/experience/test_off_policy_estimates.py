"""Importance sampling: against a small known MDP by enumeration, slow references, literals; extremes of ratios."""

import itertools

import numpy as np
import pytest

from drl_cli import confidence
from drl_cli.experience import off_policy_estimates
from drl_cli.experience.off_policy_estimates import RecordedEpisode, estimate

# A known MDP: three states, of which 2 ends an episode, two actions, at most four steps. All chances are halves and quarters,
# so that a multiset of episodes can hold every trajectory exactly as often as behaviour brings it about.
STEPS = 4
BEHAVIOUR = {0: (0.5, 0.5), 1: (0.25, 0.75)}
TARGET = {0: (0.1, 0.9), 1: (0.8, 0.2)}
NEXT = {(0, 0): {0: 0.5, 1: 0.5}, (0, 1): {1: 0.5, 2: 0.5}, (1, 0): {0: 1.0}, (1, 1): {2: 0.5, 0: 0.5}}
REWARD = {(0, 0): 1.0, (0, 1): -2.0, (1, 0): 5.0, (1, 1): 0.5}


def _value(state=0, left=STEPS, gamma=0.9):
    """The target's expected discounted return, by the Bellman equation."""
    if state == 2 or not left:
        return 0.0
    ahead = {a: sum(p * _value(s, left - 1, gamma) for s, p in NEXT[state, a].items()) for a in (0, 1)}
    return sum(TARGET[state][a] * (REWARD[state, a] + gamma * ahead[a]) for a in (0, 1))


def _trajectories(state=0, left=STEPS):
    """Every trajectory of behaviour as (its chance, [(state, action)])."""
    if state == 2 or not left:
        return [(1.0, [])]
    found = []
    for action in (0, 1):
        for after, chance in NEXT[state, action].items():
            for more, rest in _trajectories(after, left - 1):
                found.append((BEHAVIOUR[state][action] * chance * more, [(state, action), *rest]))
    return found


def _episode(path):
    logp = [np.log([policy[s][a] for s, a in path]) for policy in (BEHAVIOUR, TARGET)]
    return RecordedEpisode(np.array([REWARD[s, a] for s, a in path]), *logp)


def _population():
    """Episodes in exactly the proportions in which behaviour brings them about."""
    counted = [(chance * 8**STEPS, path) for chance, path in _trajectories()]
    assert all(count.is_integer() for count, _ in counted)
    return [_episode(path) for count, path in counted for _ in range(int(count))]


@pytest.fixture(scope="module")
def exact():
    return estimate(_population(), 0.9)


@pytest.mark.parametrize("kind", ["is", "wis"])
@pytest.mark.parametrize("by", ["per_step", "per_episode"])
def test_estimate_over_every_trajectory_is_the_targets_exact_value(exact, kind, by):
    assert len({len(episode.reward) for episode in _population()}) > 2  # they end at different steps
    assert exact[kind][by]["mean"] == pytest.approx(_value(), abs=1e-9)
    assert _value() == pytest.approx(0.1487477, abs=1e-7)


def test_behaviours_own_mean_over_every_trajectory_is_its_exact_value(exact):
    chances = _trajectories()
    expected = sum(c * sum(REWARD[step] * 0.9**t for t, step in enumerate(path)) for c, path in chances)
    assert exact["behaviour"]["mean"] == pytest.approx(expected, abs=1e-9)
    assert sum(chance for chance, _ in chances) == 1.0


def test_plain_estimates_of_few_episodes_are_unbiased_and_weighted_ones_are_not():
    chances = _trajectories(left=2)
    pairs = [(c * d, estimate([_episode(p), _episode(q)], 0.9)) for c, p in chances for d, q in chances]
    mean = {kind: sum(c * found[kind]["per_step"]["mean"] for c, found in pairs) for kind in ("is", "wis")}
    assert mean["is"] == pytest.approx(_value(left=2), abs=1e-9)
    assert abs(mean["wis"] - _value(left=2)) > 0.1


def _random(seed, count=7):
    rng = np.random.default_rng(seed)
    return [
        RecordedEpisode(rng.normal(0, 2, steps), np.log(rng.uniform(0.2, 1, steps)), np.log(rng.uniform(0.2, 1, steps)))
        for steps in rng.integers(1, 9, count)
    ]


def _slow(episodes, gamma):
    """The four estimates as they are written on paper."""
    n, longest = len(episodes), max(len(e.reward) for e in episodes)
    ratio = [[np.prod([np.exp(e.logp_target[i] - e.logp_behaviour[i]) for i in range(t + 1)])
              for t in range(len(e.reward))] for e in episodes]  # fmt: skip
    total = [sum(gamma**t * r for t, r in enumerate(e.reward)) for e in episodes]
    step = sum(gamma**t * ratio[i][t] * episodes[i].reward[t] for i in range(n) for t in range(len(ratio[i]))) / n
    whole = sum(ratio[i][-1] * total[i] for i in range(n)) / n
    weighted = sum(ratio[i][-1] * total[i] for i in range(n)) / sum(ratio[i][-1] for i in range(n))
    by_step = 0.0
    for t in range(longest):
        weights = [ratio[i][min(t, len(ratio[i]) - 1)] for i in range(n)]
        rewards = [e.reward[t] if t < len(e.reward) else 0.0 for e in episodes]
        by_step += gamma**t * sum(w * r for w, r in zip(weights, rewards, strict=True)) / sum(weights)
    return {"is": (step, whole), "wis": (by_step, weighted)}


@pytest.mark.parametrize("gamma", [1.0, 0.9, 0.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_estimates_are_those_on_paper(seed, gamma):
    episodes = _random(seed)
    found, expected = estimate(episodes, gamma), _slow(episodes, gamma)
    for kind, values in expected.items():
        got = [found[kind][by]["mean"] for by in ("per_step", "per_episode")]
        np.testing.assert_allclose(got, values, rtol=1e-9)


@pytest.mark.parametrize("numbers", [7 * 2, 1])
def test_blocks_of_steps_change_nothing(monkeypatch, numbers):
    whole = estimate(_random(4), 0.9)
    monkeypatch.setattr(off_policy_estimates, "BLOCK", numbers)
    assert estimate(_random(4), 0.9) == {**whole, "wis": _close(whole["wis"])}


def _close(given):
    return {name: pytest.approx(each, rel=1e-12) for name, each in given.items()}


TWO = [
    RecordedEpisode(np.array([1.0, 1.0]), np.log([0.5, 0.5]), np.log([1.0, 0.5])),  # ρ: 2, 2
    RecordedEpisode(np.array([4.0]), np.log([0.5]), np.log([0.25])),  # ρ: ½, and it keeps it
]


def test_two_episodes_give_these_numbers():
    found = estimate(TWO, 0.5)
    assert (found["episodes"], found["steps"]) == (2, 3)
    assert found["behaviour"]["mean"] == pytest.approx((1.5 + 4.0) / 2)
    assert found["is"]["per_step"]["mean"] == pytest.approx((2 + 0.5 * 2 + 0.5 * 4) / 2)
    assert found["is"]["per_episode"]["mean"] == pytest.approx((2 * 1.5 + 0.5 * 4) / 2)
    assert found["wis"]["per_episode"]["mean"] == pytest.approx((2 * 1.5 + 0.5 * 4) / 2.5)
    # step 0: (2·1 + ½·4) / 2½; step 1: ½·(2·1 + ½·0) / 2½, where the ended episode still counts with ½
    assert found["wis"]["per_step"]["mean"] == pytest.approx(1.6 + 0.4)
    assert found["effective_sample_size"] == pytest.approx(2.5**2 / (4 + 0.25))


def test_equal_policies_leave_behaviours_own_numbers():
    episodes = [RecordedEpisode(e.reward, e.logp_behaviour, e.logp_behaviour) for e in _random(5)]
    found = estimate(episodes, 0.9)
    for kind, by in itertools.product(("is", "wis"), ("per_step", "per_episode")):
        assert found[kind][by] == {name: pytest.approx(value) for name, value in found["behaviour"].items()}
    assert found["effective_sample_size"] == pytest.approx(7.0)


def test_intervals_are_percentiles_over_drawn_episodes():
    values = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    logp = np.log([0.5])
    found = estimate([RecordedEpisode(np.array([v]), logp, logp) for v in values], 1.0)["behaviour"]
    means = np.concatenate(
        [values[rows].mean(axis=1) for rows in confidence.resamples(5, off_policy_estimates.RESAMPLES)]
    )
    assert (found["low"], found["high"]) == pytest.approx(tuple(np.percentile(means, [2.5, 97.5])))


@pytest.mark.parametrize(("most_work", "number"), [(10**9, 2000), (2 * 3 * 300, 300), (2 * 3 * 30, 200)])
def test_very_much_data_is_drawn_less_often_and_200_times_at_least(monkeypatch, most_work, number):
    asked, resamples = [], confidence.resamples
    monkeypatch.setattr(off_policy_estimates, "MOST_WORK", most_work)
    monkeypatch.setattr(confidence, "resamples", lambda *given: asked.append(given) or resamples(*given))
    estimate([RecordedEpisode(np.ones(steps), np.zeros(steps), np.zeros(steps)) for steps in (2, 3)], 1.0)
    assert asked == [(2, number)]


def test_interval_of_a_weighted_estimate_holds_the_true_value_about_as_often_as_it_says():
    rng, paths = np.random.default_rng(0), _trajectories()
    chances, hits = np.array([chance for chance, _ in paths]), 0
    episodes = [_episode(path) for _, path in paths]
    for _ in range(40):
        drawn = [episodes[i] for i in rng.choice(len(paths), 1000, p=chances)]
        found = estimate(drawn, 0.9)["wis"]["per_step"]
        hits += found["low"] <= _value() <= found["high"]
    assert 35 <= hits <= 40


def test_single_episode_has_no_interval():
    found = estimate(TWO[:1], 1.0)
    assert found["wis"]["per_step"] == {"mean": pytest.approx(2.0), "low": None, "high": None}


@pytest.mark.parametrize("shift", [-2.0, 2.0])
def test_ratios_far_beyond_a_float_neither_overflow_nor_vanish(shift):
    # 500 steps whose ratio is e^±2: ρ_T is e^±1000
    long = [RecordedEpisode(np.ones(500), np.zeros(500) - 3.0, np.full(500, shift - 3.0)) for _ in range(2)]
    found = estimate(long, 1.0)
    assert found["wis"]["per_step"]["mean"] == pytest.approx(500.0)
    assert found["wis"]["per_episode"]["mean"] == pytest.approx(500.0)
    assert found["effective_sample_size"] == pytest.approx(2.0)
    if shift > 0:
        assert found["is"]["per_episode"] == {"mean": None, "low": None, "high": None}
    else:
        assert found["is"]["per_step"]["mean"] == pytest.approx(np.exp(-2.0) / (1 - np.exp(-2.0)))


def test_large_ratio_with_nothing_to_earn_hides_no_smaller_one():
    rich = RecordedEpisode(np.array([3.0]), np.zeros(1), np.zeros(1))
    poor = RecordedEpisode(np.array([0.0]), np.zeros(1), np.full(1, 2000.0))
    assert estimate([rich, poor], 1.0)["is"]["per_step"]["mean"] == pytest.approx(1.5)


def test_interval_knows_what_is_left_without_the_heaviest_episode():
    logs = [2000.0, 1000.0, 1000.0, 1000.0]
    episodes = [RecordedEpisode(np.array([float(i)]), np.zeros(1), np.full(1, log)) for i, log in enumerate(logs)]
    found = estimate(episodes, 1.0)
    for by in ("per_step", "per_episode"):
        # (3/4)⁴ of the samples lack the first episode: there the others' mean counts
        assert found["wis"][by]["mean"] == 0.0 and 2.0 < found["wis"][by]["high"] <= 3.0
    assert found["effective_sample_size"] == pytest.approx(1.0)


def test_episodes_that_the_target_never_plays_count_for_nothing():
    never = RecordedEpisode(np.array([9.0]), np.log([0.5]), np.array([-np.inf]))
    found = estimate([*TWO, never], 0.5)
    assert found["wis"]["per_step"]["mean"] == pytest.approx(2.0)
    assert found["is"]["per_step"]["mean"] == pytest.approx(5.0 / 3)
    alone = estimate([never, never], 0.5)
    assert alone["wis"]["per_step"] == {"mean": None, "low": None, "high": None}
    assert (alone["is"]["per_step"]["mean"], alone["effective_sample_size"]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("episodes", "words"),
    [
        ([], "no episodes"),
        ([RecordedEpisode(np.ones(0), np.zeros(0), np.zeros(0))], "empty ones"),
        ([RecordedEpisode(np.ones(1), np.array([-np.inf]), np.zeros(1))], "not numbers"),
        ([RecordedEpisode(np.ones(1), np.zeros(1), np.array([np.nan]))], "not numbers"),
    ],
)
def test_what_nothing_can_be_estimated_from_is_refused(episodes, words):
    with pytest.raises(ValueError, match=words):
        estimate(episodes, 0.9)
