"""Films of training in TensorBoard and W&B, and the charts of the Custom Scalars tab."""

import re
import types

import numpy as np
import pytest
from tensorboardX.proto.layout_pb2 import Layout
from test_hparams import FACTS, ROW, events

from drl_cli.envs.video import Video
from drl_cli.runs import loggers
from drl_cli.runs.loggers import tensorboard_events

FILMED = FACTS | {"config": FACTS["config"] | {"record_env": True}}
FIELDS = ("episode_reward_mean", "evaluation/episode_reward_mean", "info/learner/default_policy/policy_loss")
FIELDS += ("info/learner/default_policy/kl", "timers/learn_s", "timers/sample_throughput", "policy_reward_mean/good")


def film(folder, number):
    folder.mkdir(exist_ok=True)
    video = Video(folder / f"episode-{number:06d}.mp4", 10)
    for brightness in range(0, 250, 10):
        video.add(np.full((64, 96, 3), brightness, np.uint8))
    video.close()


def images(folder):
    return {value.tag: value.image for value in events(folder) if value.HasField("image")}


def test_new_films_move_in_tensorboard_and_earlier_ones_are_not_written_again(tmp_path):
    film(tmp_path / "videos", 0)
    writer = loggers.Loggers(tmp_path, None, FILMED)
    writer.write(ROW)
    film(tmp_path / "videos", 1)
    writer.write(ROW | {"timesteps_total": 2000})
    writer.write(ROW | {"timesteps_total": 3000})
    writer.close()
    (image,) = images(tmp_path).values()
    assert (image.width, image.height) == (240, 160) and image.encoded_image_string[:6] == b"GIF89a"
    assert list(images(tmp_path)) == ["ray/tune/films/episode-000001"]


@pytest.mark.parametrize("wish", [False, "elsewhere"])
def test_only_the_folder_of_record_env_is_looked_into(tmp_path, wish):
    wish = wish and str(tmp_path / wish)
    writer = loggers.Loggers(tmp_path, None, FACTS | {"config": {"record_env": wish}})
    film(tmp_path / "videos", 1)
    film(tmp_path / "elsewhere", 8)
    writer.write(ROW)
    writer.close()
    assert list(images(tmp_path)) == (["ray/tune/films/episode-000008"] if wish else [])


def test_film_that_ffmpeg_cannot_read_is_left_out_with_a_warning(tmp_path, heard):
    writer = loggers.Loggers(tmp_path, None, FILMED)
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "episode-000001.mp4").write_bytes(b"no film")
    film(tmp_path / "videos", 8)
    writer.write(ROW)
    writer.write(ROW)
    writer.close()
    assert list(images(tmp_path)) == ["ray/tune/films/episode-000008"]
    (warning,) = [fields["text"] for kind, fields in heard if kind == "warning"]
    assert re.match(r"TensorBoard has no episode-000001.mp4: .*ffmpeg cannot read it: ", warning)


def test_wandb_gets_new_films(tmp_path, monkeypatch):
    logged = []
    run = types.SimpleNamespace(define_metric=lambda *a, **k: None, log=logged.append, finish=lambda: None)
    fake = types.ModuleType("wandb")
    fake.init, fake.Settings = lambda **given: run, lambda **given: None
    fake.Video = lambda path, format: (path, format)
    monkeypatch.setitem(__import__("sys").modules, "wandb", fake)
    from drl_cli.runs.loggers import to_wandb

    monkeypatch.setattr(to_wandb, "wandb", fake)  # another test may have loaded it with a module of its own
    writer = to_wandb.ToWandb(tmp_path, FILMED | {"experiment": "default"}, False)
    film(tmp_path / "videos", 1)
    writer.write(ROW)
    writer.write(ROW)
    path = str(tmp_path / "videos" / "episode-000001.mp4")
    assert logged[0]["films/episode-000001"] == (path, "mp4") and "films/episode-000001" not in logged[1]


def test_charts_of_the_custom_scalars_tab_show_fields_of_results(tmp_path):
    writer = loggers.Loggers(tmp_path)
    writer.close()
    (value,) = [value for value in events(tmp_path) if value.tag == "custom_scalars__config__"]
    layout = Layout.FromString(value.tensor.string_val[0])
    assert [category.title for category in layout.category] == list(tensorboard_events.CHARTS)
    shown = {}
    for chart in [chart for category in layout.category for chart in category.chart]:
        (pattern,) = chart.multiline.tag
        shown[chart.title] = [name for name in FIELDS if re.match(pattern, f"ray/tune/{name}")]
    assert shown["training and greedy evaluation"] == list(FIELDS[:2]) and shown["losses"] == [FIELDS[2]]
    assert shown["everything else"] == [FIELDS[3]] and shown["of each policy"] == [FIELDS[6]]
    assert shown["seconds"] == [FIELDS[4]] and shown["per second"] == [FIELDS[5]]
