"""What TensorBoard's HParams tab reads of a run: its config, the scalars to compare, and that it has ended."""

import glob

from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

from drl_cli.runs import loggers

FACTS = {
    "run": "SAC",
    "env": "Pendulum-v1",
    "seed": 7,
    "config": {
        "gamma": 0.98,
        "twin_q": True,
        "env": "Pendulum-v1",
        "horizon": None,
        "model": {"fcnet_hiddens": [8, 4]},
    },
}
ROW = {"training_iteration": 1, "timesteps_total": 1000, "episode_reward_mean": -3.0}


def events(folder):
    (path,) = glob.glob(f"{folder}/events.out.tfevents.*")
    found = []
    with open(path, "rb") as file:
        while header := file.read(12):
            found.append(Event.FromString(file.read(int.from_bytes(header[:8], "little"))))
            file.read(4)
    return [value for event in found for value in event.summary.value]


def test_config_goals_and_end_are_where_the_tab_looks_for_them(tmp_path):
    writer = loggers.Loggers(tmp_path, None, FACTS)
    writer.write(ROW)
    writer.close()
    values = events(tmp_path)
    plugged = {
        value.tag: HParamsPluginData.FromString(value.metadata.plugin_data.content)
        for value in values
        if value.metadata.plugin_data.plugin_name == "hparams"
    }
    assert list(plugged) == [f"_hparams_/{name}" for name in ("experiment", "session_start_info", "session_end_info")]
    chosen = plugged["_hparams_/session_start_info"].session_start_info.hparams
    assert (chosen["gamma"].number_value, chosen["seed"].number_value) == (0.98, 7.0)
    assert chosen["twin_q"].bool_value is True and chosen["run"].string_value == "SAC"
    assert chosen["model/fcnet_hiddens"].string_value == "[8, 4]" and "horizon" not in chosen
    experiment = plugged["_hparams_/experiment"].experiment
    assert sorted(info.name for info in experiment.hparam_infos) == sorted(chosen)
    goals = [info.name.tag for info in experiment.metric_infos]
    assert goals[:2] == ["ray/tune/episode_reward_mean", "ray/tune/evaluation/episode_reward_mean"]
    scalars = {value.tag for value in values if value.HasField("simple_value")}
    assert "ray/tune/episode_reward_mean" in scalars
    assert plugged["_hparams_/session_end_info"].session_end_info.status == 1  # STATUS_SUCCESS


def test_without_facts_no_session_is_written(tmp_path):
    writer = loggers.Loggers(tmp_path)
    writer.write(ROW)
    writer.close()
    assert not any(value.tag.startswith("_hparams_") for value in events(tmp_path))
