"""Minari datasets: their episodes as pieces, in HDF5 files made here as Minari makes them."""

import json

import h5py
import numpy as np
import pytest
from recorded import PLANE, PUSH, layout

from drl_cli.errors import ExperienceError
from drl_cli.experience.recorded.read import Source

BOX = {"type": "Box", "shape": [2], "dtype": "float32"}


def dataset(root, episodes, space=BOX, name="toy/push-v0"):
    """Write a dataset; ``episodes``: a list of {column: values}; returns its file."""
    folder = root / name / "data"
    folder.mkdir(parents=True)
    (folder / "metadata.json").write_text(json.dumps({"data_format": "hdf5", "observation_space": json.dumps(space)}))
    with h5py.File(folder / "main_data.hdf5", "w") as file:
        for number, columns in enumerate(episodes):
            fill(file.create_group(f"episode_{number}"), columns)
    return folder / "main_data.hdf5"


def fill(group, columns):
    for key, values in columns.items():
        if isinstance(values, dict):
            fill(group.create_group(key), values)
        else:
            group.create_dataset(key, data=values)


def episode(number, steps, how="terminations", **more):
    """An episode of ``steps``, observations [number, t], actions t / 10."""
    ends = {name: np.zeros(steps, bool) for name in ("terminations", "truncations")}
    if how:
        ends[how][-1] = True
    return {
        "observations": np.array([[number, t] for t in range(steps + 1)], np.float64),
        "actions": np.arange(steps, dtype=np.float32)[:, None] / 10,
        "rewards": np.arange(steps, dtype=np.float64),
        **ends,
    } | more


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def read(name="toy/push-v0", of=None, **keys):
    return list(Source(f"minari://{name}", of or layout(PUSH), passes=1, **keys))


def test_episodes_are_pieces_with_their_ends(root):
    path = dataset(root, [episode(0, 2), episode(1, 3, "truncations"), episode(2, 1, None)])
    pieces = sorted(read(), key=lambda piece: piece.episode)
    assert [(p.episode, p.start, p.steps, p.terminated, p.truncated) for p in pieces] == [
        (0, 0, 2, True, False),
        (1, 0, 3, False, True),
        (2, 0, 1, False, False),
    ]
    assert pieces[1].obs.tolist() == [[1, 0], [1, 1], [1, 2]]
    assert (pieces[1].end_obs.tolist(), pieces[1].reward.tolist(), pieces[1].logp) == ([1, 3], [0, 1, 2], None)
    assert (pieces[0].obs.dtype, pieces[0].action.dtype, pieces[0].action.shape) == (np.float32, np.float32, (2, 1))
    assert pieces[0].source == f"{path}:episode_0"


def test_order_is_drawn_by_seed_and_pass(root):
    dataset(root, [episode(number, 1) for number in range(20)])
    source = Source("minari://toy/push-v0", layout(PUSH), 1, passes=2)
    found = [piece.episode for piece in source]
    assert sorted(found[:20]) == sorted(found[20:]) == list(range(20))
    assert found[:20] != found[20:]
    assert found[:20] != list(range(20))


def test_dataset_by_its_folder(root):
    dataset(root, [episode(0, 2)])
    assert len(read(str(root / "toy/push-v0"))) == 1


def test_loaded_source_reads_on_exactly(root):
    dataset(root, [episode(number, 2) for number in range(5)])
    for taken in range(7):
        source, again = (Source("minari://toy/push-v0", layout(PUSH), 1) for _ in range(2))
        for _ in range(taken):
            next(source)
        again.load(json.loads(json.dumps(source.state())))
        assert [next(again).episode for _ in range(8)] == [next(source).episode for _ in range(8)]


def test_episode_that_ended_before_its_last_step_is_two_pieces(root):
    dataset(root, [episode(0, 4, terminations=np.array([False, True, False, False]))])
    assert [(p.episode, p.steps, p.terminated, p.end_obs.tolist()) for p in read()] == [
        ("0.0", 2, True, [0, 2]),
        ("0.1", 2, False, [0, 4]),
    ]


def test_observations_of_several_parts_are_flattened_as_gymnasium_does(root):
    space = {
        "type": "Dict",
        "subspaces": {
            "z": {"type": "Box", "shape": [1, 2], "dtype": "float32"},
            "a": {"type": "Discrete", "n": 3, "start": 1},
            "t": {
                "type": "Tuple",
                "subspaces": [
                    {"type": "MultiBinary", "n": 2},
                    {"type": "MultiDiscrete", "nvec": [2, 3], "start": [0, 0]},
                ],
            },
        },
    }
    obs = {
        "z": np.array([[[0.5, 0.25]], [[1.5, 1.25]]]),
        "a": np.array([1, 3]),
        "t": {"_index_0": np.array([[1, 0], [0, 1]], np.int8), "_index_1": np.array([[1, 2], [0, 0]])},
    }
    dataset(root, [episode(0, 1, observations=obs)], space)
    (piece,) = read(of=layout(PUSH, {"shape": [12], "dtype": "float32"}))
    assert piece.obs.tolist() == [[0.5, 0.25, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1]]
    assert piece.end_obs.tolist() == [1.5, 1.25, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0]


def test_choices_count_from_the_start_of_the_environment(root):
    counted = {"kind": "Discrete", "n": 3, "start": 5, "shape": [], "dtype": "int64"}
    dataset(root, [episode(0, 2, actions=np.array([5, 7]))])
    assert read(of=layout(counted))[0].action.tolist() == [0, 2]


def test_unknown_dataset_is_refused_with_the_nearest_and_how_to_get_it(root):
    dataset(root, [episode(0, 1)])
    with pytest.raises(
        ExperienceError, match=r"Did you mean 'toy/push-v0'\? Download it with: pip install 'drl-cli\[minari\]'"
    ):
        read("toy/pusk-v0")
    with pytest.raises(ExperienceError, match="is not a dataset"):
        read("a b")


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"rewards": np.zeros(3)}, "terminations: 2 rows, where rewards have 3"),
        ({"observations": np.zeros((2, 2))}, "2 rows for 2 steps"),
        ({"observations": np.zeros((3, 5))}, "rows of shape (5,)"),
        ({"rewards": np.array([np.nan, 0.0])}, "not finite"),
        ({"actions": np.array([b"ab", b"cd"])}, "actions is not a list of numbers"),
        ({"actions": {"a": np.zeros(2)}}, "actions does not lie in the file"),
        ({"terminations": np.array([0, 7])}, "values other than true and false"),
    ],
)
def test_crooked_episode_is_refused_with_its_place(root, more, what):
    path = dataset(root, [episode(0, 2, **more)])
    with pytest.raises(ExperienceError) as caught:
        read()
    assert str(caught.value).startswith(f"{path}:episode_0: ") and what in str(caught.value)


def test_what_lies_elsewhere_is_not_followed(root):
    other = root / "other.hdf5"
    with h5py.File(other, "w") as file:
        file["secret"] = np.zeros(2)
    path = dataset(root, [{name: value for name, value in episode(0, 2).items() if name != "rewards"}])
    raw = root / "raw"
    raw.write_bytes(bytes(16))
    for place in ("link", "soft", "external", "virtual"):
        with h5py.File(path, "a") as file:
            group = file["episode_0"]
            if "rewards" in group or group.get("rewards", getlink=True):
                del group["rewards"]
            if place == "link":
                group["rewards"] = h5py.ExternalLink(str(other), "secret")
            elif place == "soft":
                group["rewards"] = h5py.SoftLink("/episode_0/actions")
            elif place == "external":
                group.create_dataset("rewards", (2,), "f8", external=[(str(raw), 0, 16)])
            else:
                virtual = h5py.VirtualLayout((2,), "f8")
                virtual[:] = h5py.VirtualSource(str(other), "secret", shape=(2,))
                group.create_virtual_dataset("rewards", virtual)
        with pytest.raises(
            ExperienceError, match="rewards is missing, or a link|rewards does not lie in the file itself"
        ):
            read()


def test_column_of_impossible_size_is_refused_before_it_is_read(root):
    path = dataset(root, [{name: value for name, value in episode(0, 2).items() if name != "rewards"}])
    with h5py.File(path, "a") as file:
        file["episode_0"].create_dataset("rewards", (10**12,), "f8", chunks=(1000,), compression="gzip")
    with pytest.raises(ExperienceError, match="too many for one episode"):
        read()


def test_images_as_jpeg_are_refused_with_the_way_out(root):
    space = {"type": "Box", "shape": [32, 32, 3], "dtype": "uint8"}
    dataset(root, [episode(0, 2, observations=np.zeros((3, 700), np.uint8))], space)
    image = {"shape": [32, 32, 3], "dtype": "uint8"}
    with pytest.raises(ExperienceError, match="jpeg_encoding=False"):
        read(of=layout(PUSH, image))


@pytest.mark.parametrize("data", [b"", b"no HDF5 at all"])
def test_file_that_is_no_hdf5_is_refused(root, data):
    path = dataset(root, [episode(0, 1)])
    path.write_bytes(data)
    with pytest.raises(ExperienceError, match="is no Minari dataset"):
        read()


def test_metadata_that_is_crooked_is_refused(root):
    path = dataset(root, [episode(0, 1)])
    for text, what in (
        ("{", "is no Minari dataset"),
        (json.dumps({"observation_space": "[" * 90_000}), "is no Minari dataset"),
    ):
        (path.parent / "metadata.json").write_text(text)
        with pytest.raises(ExperienceError, match=what):
            read()


def test_dataset_without_described_spaces_is_taken_as_it_is(root):
    path = dataset(root, [episode(0, 1)])
    (path.parent / "metadata.json").unlink()
    assert read(of=layout(PUSH, PLANE))[0].obs.tolist() == [[0, 0]]
