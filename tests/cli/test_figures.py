import pytest

from drl_cli.cli import figures


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0, "0"),
        (999.6, "1,000"),
        (9_999, "9,999"),
        (61_234, "61.2k"),
        (1_234_567, "1.23M"),
        (250_000, "250k"),
    ],
)
def test_count_is_short(value, shown):
    assert figures.count(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (float("nan"), "-"), (-153.26, "-153.3"), (0.0123, "0.0123"), (0, "0.0")]
)
def test_reward_keeps_digits_that_matter(value, shown):
    assert figures.reward(value) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(None, "-"), (0.9, "0:00"), (62, "1:02"), (11_232, "3:07:12")])
def test_clock_shows_hours_only_when_there_are_some(seconds, shown):
    assert figures.clock(seconds) == shown


def test_ago_changes_units():
    assert [figures.ago(8), figures.ago(180), figures.ago(7200)] == ["8 s", "3 min", "2 h"]


def test_bar_shows_that_a_little_is_not_nothing():
    assert [figures.bar(0, 4), figures.bar(0.001, 4), figures.bar(0.5, 4), figures.bar(2, 4)] == [
        "░░░░",
        "█░░░",
        "██░░",
        "████",
    ]


def test_bar_in_ascii():
    assert figures.bar(0.5, 4, ascii_only=True) == "##.."


def test_chart_of_one_line_goes_from_an_eighth_to_full():
    assert figures.chart([0, 7, 3.5], 10) == ["▁█▅"] or figures.chart([0, 7, 3.5], 10) == ["▁█▄"]


def test_chart_of_two_lines_stacks_columns():
    assert figures.chart([0, 15], 10, 2) == [" █", "▁█"]


def test_chart_without_values_is_blank_lines():
    assert figures.chart([], 10, 2) == ["", ""]


def test_chart_averages_what_does_not_fit():
    assert figures.chart([0, 0, 10, 10], 2) == ["▁█"]


def test_chart_of_equal_values_is_half_high():
    assert figures.chart([5, 5, 5], 10) == ["▄▄▄"]


def test_shorten_keeps_the_end():
    assert figures.shorten("/home/someone/results/run", 12) == "/hom…lts/run"


def test_shorten_leaves_what_fits():
    assert figures.shorten("abc", 3) == "abc"


@pytest.mark.parametrize(
    ("count", "shown"),
    [(None, "-"), (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (46_029, "46 kB"), (9_960, "10 kB"), (999_700, "1.0 MB"),
     (1_234_000_000, "1.2 GB"), (5_600_000_000_000, "5.6 TB")],
)  # fmt: skip
def test_size_has_two_digits_or_more(count, shown):
    assert figures.size(count) == shown


def test_policies_have_their_rating_beside_their_reward():
    result = {"policy_reward_mean": {"main": 0.25, "older": -0.25}, "info": {"learner": {"main": {"elo": 1034.4}}}}
    assert figures.by_policy(result, 60) == "main 0.25 (Elo 1,034), older -0.25"
    assert figures.by_policy(result, 30) == "main 0.25 (Elo 1,034), 1 more"
    assert figures.by_policy({"policy_reward_mean": {"main": 3.0}, "info": {"learner": {}}}, 60) == "main 3.0"
