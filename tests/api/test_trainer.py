"""The Python Trainer: what it returns, what it leaves behind, and what it refuses. ES learns in NumPy: fast."""

import json
import logging
import signal

import gymnasium
import numpy as np
import pytest

from drl_cli import Callbacks, checkpoints, errors, events
from drl_cli.api.trainer import Trainer
from drl_cli.policies.numpy_policy import policy_from_checkpoint
from drl_cli.runs import loggers, retention
from drl_cli.runs.run_folder import is_locked

pytestmark = pytest.mark.process

SMALL = {
    "num_workers": 0,
    "episodes_per_batch": 8,
    "train_batch_size": 50,
    "timesteps_per_iteration": 50,
    "evaluation_interval": None,
    "model": {"fcnet_hiddens": [4]},
    "seed": 5,
}
ARS = {name: value for name, value in SMALL.items() if name not in ("episodes_per_batch", "train_batch_size")}
ARS |= {"num_rollouts": 4, "rollouts_used": 2}
POLICY = "default_policy"


class Walk(gymnasium.Env):
    """Ten steps; the reward is what env_config says."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2, start=3)

    def __init__(self, config):
        self._reward, self._broken_at = config.get("reward", 1.0), config.get("broken_at")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        assert action in (3, 4)
        self.steps += 1
        if self.steps == self._broken_at:
            raise OSError("out of order")
        return np.full(2, 0.5, np.float32), self._reward, self.steps == 10, False, {}


@pytest.fixture(autouse=True)
def at_home(tmp_path, monkeypatch, plug_ins):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")


@pytest.fixture
def made():
    """Function (**arguments) → a Trainer of ES on Walk, stopped behind the test."""
    trainers = []

    def make(algorithm="ES", config=None, is_ars=False, **arguments):
        common = ARS if is_ars else SMALL
        trainers.append(Trainer(algorithm, **{"env": Walk, **arguments}, config={**common, **(config or {})}))
        return trainers[-1]

    yield make
    for trainer in trainers:
        trainer.stop()


def read(path):
    return json.loads(path.read_text())


def test_run_leaves_the_folder_of_any_other_run(made, tmp_path):
    with made(experiment_name="mine", checkpoint_freq=2) as trainer:
        results = [trainer.train() for _ in range(3)]
        folder = trainer.run_folder
        assert is_locked(folder)
    assert folder.parent == tmp_path / "mine"
    assert [row["training_iteration"] for row in loggers.read_rows(folder)] == [1, 2, 3]
    assert results[-1]["episode_reward_mean"] == 10.0
    assert results[-1]["info"]["num_steps_trained"] > 0
    assert read(folder / "params.json")["config"]["model"]["fcnet_hiddens"] == [4]
    status = read(folder / "status.json")
    assert (status["state"], status["text"], status["exit_code"]) == ("finished", "stopped by the program", 0)
    assert [number for number, _ in retention.numbers(folder)] == [
        2,
        3,
    ]  # a periodic one, and the last, which is the best
    assert list(folder.glob("events.out.tfevents*"))
    assert not is_locked(folder)


def test_nothing_is_started_or_written_before_it_is_needed(made, tmp_path):
    trainer = made()
    trainer.compute_action([0.0, 0.0])
    trainer.evaluate(1)
    trainer.get_weights()
    assert (trainer.run_folder, trainer.iteration, list(tmp_path.iterdir())) == (None, 0, [])


def test_repr_says_what_it_is_and_how_far(made):
    trainer = made()
    env = trainer._spec.env
    assert repr(trainer) == f"<Trainer ES on {env}, not begun>"
    trainer.train()
    assert repr(trainer) == f"<Trainer ES on {env}, iteration 1, {trainer.run_folder}>"
    trainer.stop()
    assert repr(trainer) == f"<Trainer ES on {env}, over, {trainer.run_folder}>"


def test_save_and_restore_go_on_where_it_was(made):
    first = made()
    for _ in range(2):
        first.train()
    path = first.save()
    weights = first.get_weights()[POLICY]
    first.stop()
    other = made(config={"seed": 6})
    other.restore(path)
    for name, array in other.get_weights()[POLICY].items():
        np.testing.assert_array_equal(array, weights[name])
    assert other.run_folder is None
    result = other.train()
    assert (result["training_iteration"], result["iterations_since_restore"]) == (3, 1)
    assert other.run_folder != first.run_folder
    assert read(other.run_folder / "params.json")["restore"] == path


def test_restore_in_the_middle_ends_the_run_and_goes_back(made):
    trainer = made()
    trainer.train()
    path, weights = trainer.save(), trainer.get_weights()[POLICY]
    trainer.train()
    before = trainer.run_folder
    trainer.restore(path)
    assert read(before / "status.json")["state"] == "finished"
    for name, array in trainer.get_weights()[POLICY].items():
        np.testing.assert_array_equal(array, weights[name])
    assert trainer.train()["training_iteration"] == 2


def test_what_was_saved_stays_whatever_comes_later(made):
    trainer = made(config={"env_config": {"reward": 1.0}}, checkpoint_freq=1, keep_checkpoints_num=1)
    trainer.train()
    path = trainer.save()  # the best so far, too
    assert read(trainer.run_folder / "best.json")["only_best"] is False
    for _ in range(12):
        trainer.train()
    trainer.stop()
    assert [number for number, _ in retention.numbers(trainer.run_folder)][0] == 1
    assert checkpoints.load(path).number == 1


def test_restore_argument_is_the_same(made):
    with made() as trainer:
        trainer.train()
        path = trainer.save()
    assert made(restore=path).train()["training_iteration"] == 2


def test_checkpoint_plays_as_the_door_does(made):
    with made() as trainer:
        trainer.train()
        policy = policy_from_checkpoint(checkpoints.load(trainer.save()))
        obs = np.linspace(-1, 1, 40, dtype=np.float32).reshape(20, 2)
        chosen = policy.to_env(policy.act(obs, (), None, False)[0])
        assert [trainer.compute_action(row) for row in obs] == chosen.tolist()
        assert set(chosen) <= {3, 4}


def test_evaluation_plays_the_episodes_that_are_asked_for_and_others_each_time(made):
    trainer = made(config={"evaluation_num_episodes": 3})
    one = trainer.evaluate()["evaluation"]
    assert (one["episodes_this_iter"], one["episode_reward_mean"], one["episode_len_mean"]) == (3, 10.0, 10.0)
    assert trainer.evaluate(episodes=5)["evaluation"]["episodes_this_iter"] == 5


@pytest.mark.parametrize("episodes", [0, -1, 2.5, True, "3"])
def test_evaluation_of_no_number_of_episodes_is_refused(made, episodes):
    with pytest.raises(errors.InputError, match="evaluate: episodes"):
        made().evaluate(episodes)


def test_weights_are_set_before_and_while_a_run_is_open(made):
    trainer = made()
    zeros = {name: np.zeros_like(array) for name, array in trainer.get_weights()[POLICY].items()}
    trainer.set_weights({POLICY: zeros})
    assert not any(array.any() for array in trainer.get_weights()[POLICY].values())
    trainer._begin()
    assert not any(array.any() for array in trainer.get_weights()[POLICY].values())
    name = "policy/dense_0/kernel"
    trainer.set_weights({POLICY: {name: np.ones((2, 4))}})
    assert trainer.get_weights()[POLICY][name].tolist() == [[1.0] * 4] * 2
    assert trainer.train()["training_iteration"] == 1


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        ({"policy/dense_0/kernel": 1}, "set_weights: it takes"),
        (
            {POLICY: {"policy/dense_0/kernal": 1}},
            "named 'policy/dense_0/kernal'. Did you mean 'policy/dense_0/kernel'?",
        ),
        ({POLICY: {"policy/dense_0/bias": np.ones(3)}}, "have the shape (4,), not (3,)."),
        ({POLICY: {"policy/dense_0/bias": np.full(4, np.nan)}}, "hold a number that is not finite."),
        ({POLICY: {"policy/dense_0/bias": ["a"] * 4}}, "are no array of numbers"),
    ],
)
def test_weights_that_do_not_fit_are_refused(made, weights, text):
    with pytest.raises(errors.InputError) as caught:
        made().set_weights(weights)
    assert text in str(caught.value)


def test_stop_rule_closes_the_run(made):
    trainer = made(stop={"training_iteration": 2})
    assert [trainer.train()["done"] for _ in range(2)] == [False, True]
    assert read(trainer.run_folder / "status.json")["text"] == "training_iteration 2 reached 2"
    assert trainer.save().endswith("checkpoint_000002")
    with pytest.raises(errors.InputError, match=r"This run has ended \(training_iteration 2 reached 2\). restore"):
        trainer.train()


def test_exception_in_the_block_ends_the_run_and_goes_on(made):
    with pytest.raises(ZeroDivisionError), made() as trainer:
        trainer.train()
        raise ZeroDivisionError
    status = read(trainer.run_folder / "status.json")
    assert (status["state"], status["text"]) == ("interrupted", "ended by ZeroDivisionError")
    assert not is_locked(trainer.run_folder)
    assert trainer.compute_action([0.0, 0.0]) in (3, 4)


@pytest.mark.filterwarnings("ignore:overflow")
def test_error_of_the_run_is_raised_as_it_is_and_recorded(made):
    trainer = made(config={"env_config": {"reward": 1e308}})
    with pytest.raises(errors.Diverged), trainer:
        for _ in range(3):
            trainer.train()
    status = read(trainer.run_folder / "status.json")
    assert (status["state"], status["exit_code"]) == ("failed", 3)
    with pytest.raises(errors.InputError, match="This run has ended"):
        trainer.train()
    trainer.stop()


def test_interrupt_from_the_keyboard_is_handed_on_behind_the_end_of_the_run(made, monkeypatch):
    trainer = made()
    trainer.train()

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer._session.driver.loop, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert read(trainer.run_folder / "status.json")["state"] == "interrupted"


def test_two_runs_one_after_the_other_and_never_at_once(made):
    first, second = made(), made("ARS", is_ars=True)
    first.train()
    with pytest.raises(errors.InputError, match="Another Trainer of this process is training"):
        second.train()
    first.stop()
    assert second.train()["training_iteration"] == 1


def test_run_that_nobody_holds_any_more_is_closed(made):
    trainer = Trainer("ES", env=Walk, config=SMALL)
    listeners = len(events._listeners)
    trainer.train()
    folder = trainer.run_folder
    del trainer
    assert (is_locked(folder), len(events._listeners)) == (False, listeners)
    assert made().train()["training_iteration"] == 1


def test_signal_handlers_stay_whose_they_are(made):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    made().train()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_nothing_is_printed_and_everything_goes_to_the_log(made, capfd, caplog):
    before = len(events._listeners)
    with caplog.at_level(logging.INFO, "drl_cli"), made() as trainer:
        trainer.train()
    assert capfd.readouterr() == ("", "")
    assert any(record.message.startswith("result training_iteration=1") for record in caplog.records)
    assert len(events._listeners) == before


def test_verbose_prints_lines(made, capfd):
    with made(verbose=True) as trainer:
        trainer.train()
    out, err = capfd.readouterr()
    assert out == ""
    assert "result training_iteration=1" in err


def test_numbers_of_numpy_and_tuples_are_fine(made):
    config = made(config={"noise_stdev": np.float32(0.5), "model": {"fcnet_hiddens": (np.int64(4), 8)}}).config
    assert (config.noise_stdev, config.model.fcnet_hiddens) == (0.5, (4, 8))


def test_classes_and_functions_in_the_config_are_registered_under_their_names(made):
    class Counting(Callbacks):
        def on_episode_end(self, *, episode, **more):
            episode.custom_metrics["ten"] = 10

    def half(evaluation):
        return {"episode_reward_mean": 0.5, "asked": len(evaluation.seeds)}

    trainer = made(config={"callbacks": Counting, "custom_eval_function": half})
    assert (trainer.config.callbacks, trainer.config.custom_eval_function) == ("Counting", "half")
    assert trainer.evaluate(3) == {"evaluation": {"episode_reward_mean": 0.5, "asked": 3}}
    assert trainer.train()["custom_metrics"]["ten_mean"] == 10


def test_env_may_stand_in_the_config():
    assert Trainer("ES", config={**SMALL, "env": "CartPole-v1"}).config.env == "CartPole-v1"


@pytest.mark.parametrize(
    ("algorithm", "arguments", "kind", "text"),
    [
        ("SACC", {}, errors.ConfigError, "Unknown algorithm 'SACC'. Did you mean 'SAC'?"),
        ("SAC", {"env": "CartPol-v1"}, errors.ConfigError, "There is no environment 'CartPol-v1'"),
        ("TD3", {"env": "CartPole-v1"}, errors.EnvError, "CartPole-v1: TD3"),
        ("PPO", {"env": None}, errors.ConfigError, "env is missing"),
        ("PPO", {"config": {"lrr": 1}}, errors.ConfigError, "lrr: unknown key (config). Did you mean 'lr'?"),
        ("PPO", {"config": {"lr": "a"}}, errors.ConfigError, 'lr: "a" is not allowed'),
        ("PPO", {"config": {"lr": {"uniform": [0, 1]}}}, errors.ConfigError, "searched over by drl train only"),
        ("PPO", {"config": [1]}, errors.ConfigError, "Trainer: config '[1]' is not a mapping"),
        ("PPO", {"local_dirr": "x"}, errors.ConfigError, "unknown argument 'local_dirr'. Did you mean 'local_dir'?"),
        ("PPO", {"experiment_name": "a/b"}, errors.ConfigError, "'a/b' is no name for an experiment"),
        ("PPO", {"stop": {"rewards": 1}}, errors.ConfigError, "rewards"),
        ("PPO", {"checkpoint_freq": -1}, errors.ConfigError, "checkpoint_freq: -1 is not allowed"),
        ("PPO", {"env": object()}, errors.InputError, "is neither the id of an environment nor a class"),
        ("PPO", {"config": {"env": "Acrobot-v1"}}, errors.ConfigError, "Trainer: two environments"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_started(algorithm, arguments, kind, text):
    with pytest.raises(kind) as caught:
        Trainer(algorithm, **{"env": "CartPole-v1", **arguments})
    assert text in str(caught.value)


def test_environment_that_breaks_is_told_at_once():
    with pytest.raises(errors.EnvError, match="out of order"):
        Trainer("ES", env=Walk, config={**SMALL, "env_config": {"broken_at": 1}})


def test_checkpoint_of_something_else_is_refused(made):
    with made() as trainer:
        trainer.train()
        path = trainer.save()
    with pytest.raises(errors.CheckpointError, match="its algorithm is 'ES', this run's is 'ARS'"):
        made("ARS", is_ars=True).restore(path)
    with pytest.raises(
        errors.CheckpointError, match="its networks differ from those of this config. The weights policy/dense_0/kernel"
    ):
        made(config={"model": {"fcnet_hiddens": [5]}}).restore(path)
    with pytest.raises(errors.CheckpointError):
        made().restore(path + "0")


def test_save_before_anything_was_trained_is_refused(made):
    with pytest.raises(errors.InputError, match="nothing has been trained yet. Call train"):
        made().save()
