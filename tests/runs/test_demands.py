"""``--assert``: what is read, what is refused, and what the last result is held against."""

import pytest

from drl_cli.errors import ConfigError
from drl_cli.runs import demands


@pytest.mark.parametrize(
    ("text", "value", "is_met"),
    [
        ("episode_reward_mean>=200", 200.0, True),
        ("episode_reward_mean >= 200", 199.9, False),
        ("episode_reward_mean>200", 200.0, False),
        ("episode_reward_mean<=2e2", 200.0, True),
        ("episode_reward_mean<-5", -5.0, False),
        ("episode_reward_mean<-5", -5.1, True),
        ("episode_reward_mean>=1", None, False),
        ("episode_reward_mean>=1", float("nan"), False),
        ("episode_reward_mean<1", float("nan"), False),
    ],
)
def test_demand_is_held_against_the_field(text, value, is_met):
    assert (demands.missed(demands.parse([text]), {"episode_reward_mean": value}) == []) is is_met


def test_nested_fields_are_found_and_misses_are_told():
    asked = demands.parse(["evaluation/episode_reward_mean>=200", "info/num_updates<10", "time_total_s<5"])
    result = {"evaluation": {"episode_reward_mean": 123.4567}, "info": {"num_updates": 9}}
    assert demands.missed(asked, result) == [
        "evaluation/episode_reward_mean is 123.457; required >= 200",
        "time_total_s was never measured; required < 5",
    ]
    assert len(demands.missed(asked, None)) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("episode_reward_mean", "The quotes matter: without them the shell takes > for itself."),
        ("episode_reward_mean=200", "is not FIELD>=NUMBER"),
        ("episode_reward_mean==200", "is not FIELD>=NUMBER"),
        ("episode_reward_mean>=", "is not FIELD>=NUMBER"),
        (">=200", "is not FIELD>=NUMBER"),
        ("a>=b>=3", "is not FIELD>=NUMBER"),
    ],
)
def test_text_that_is_no_demand_is_refused_with_one_that_works(text, said):
    with pytest.raises(ConfigError, match="^--assert: ") as caught:
        demands.parse([text])
    assert said in str(caught.value) and "--assert 'episode_reward_mean>=200'" in str(caught.value)
