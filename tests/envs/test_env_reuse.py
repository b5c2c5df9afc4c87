"""Environment objects that are used again: when another one is made, and which seconds count."""

from drl_cli.actors.whole_episodes import Episodes
from drl_cli.envs.env_reuse import KeptEnvs


class Env:
    is_closed = False

    def close(self):
        self.is_closed = True


def test_the_same_object_begins_every_episode_of_its_index():
    kept = KeptEnvs(Env)
    first, second = kept.begin(0), kept.begin(1)
    assert (kept.begin(0), kept.begin(1), kept[0]) == (first, second, first) and first is not second
    assert kept.making_s == 0.0
    kept.close()
    assert first.is_closed and second.is_closed


def test_a_fresh_object_begins_every_episode_and_all_but_the_first_count():
    kept = KeptEnvs(Env, is_fresh=True)
    first = kept.begin(0)
    assert kept.making_s == 0.0
    assert kept.begin(0) is not first and first.is_closed and kept.making_s > 0.0


def test_one_that_cannot_be_closed_is_replaced_all_the_same():
    kept = KeptEnvs(Env)
    first = kept.begin(0)
    first.close = lambda: 1 / 0
    kept.discard(0)
    assert kept.begin(0) is not first


def test_fresh_envs_is_kept_where_whole_episodes_are_played():
    for fresh, same in ((False, True), (True, False)):
        episodes = Episodes({"id": "CartPole-v1", "env_config": {}, "fresh_envs": fresh}, horizon=3)
        episodes.begin([(1, 0), (1, 1)])
        before = [episodes._envs[index] for index in range(2)]
        episodes.begin([(1, 2), (1, 3)])
        assert [episodes._envs[index] is before[index] for index in range(2)] == [same, same]
        assert (episodes.take_making_s() > 0.0) == fresh and episodes.take_making_s() == 0.0
        episodes.close()
