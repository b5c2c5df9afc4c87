"""Sources: which files, in which order, how often, by whom, and where reading goes on."""

import json
import os

import numpy as np
import pytest
from recorded import batch, columns, layout, told, write

from drl_cli.errors import CheckpointError, ExperienceError
from drl_cli.experience.recorded import pieces
from drl_cli.experience.recorded.input_files import find
from drl_cli.experience.recorded.read import Source, check


def files(tmp_path, count=5, per_file=3):
    """Files a0.json … of episodes 100·file + number, each over two lines, the second ones in reverse order."""
    for file in range(count):
        names = [100 * file + number for number in range(per_file)]
        first = [batch(columns(name, 0, 2)) for name in names]
        write(tmp_path / f"a{file}.json", *first, *[batch(columns(name, 2, 2, True)) for name in reversed(names)])
    return tmp_path


def episodes(source, count=None):
    found = []
    for piece in source:
        found.append(piece.episode)
        if len(found) == count:
            break
    return found


def test_each_pass_brings_every_episode_once_in_an_order_by_seed(tmp_path):
    folder = files(tmp_path)
    first, second = (episodes(Source(folder, layout(), seed, passes=2)) for seed in (1, 2))
    whole = sorted(100 * file + number for file in range(5) for number in range(3))
    assert sorted(first[:15]) == sorted(first[15:]) == whole
    assert first[:15] != first[15:]
    assert first != second
    assert first == episodes(Source(folder, layout(), 1, passes=2))


def test_endless_source_goes_on_and_counts_its_passes(tmp_path):
    source = Source(files(tmp_path, 2, 1), layout())
    assert len(episodes(source, 7)) == 7
    assert source.passed == 3


def test_only_a_line_is_held_of_a_file(tmp_path):
    path = write(tmp_path / "a.json", batch(columns(1, 0, 1, True)), "no JSON")
    source = Source(path, layout())
    assert next(source).episode == 1
    with pytest.raises(ExperienceError, match="a.json:2"):
        next(source)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7])
def test_shares_bring_everything_once_between_them(tmp_path, count):
    folder = files(tmp_path)
    parts = [episodes(Source(folder, layout(), 3, passes=1, share=(index, count))) for index in range(count)]
    assert sorted(sum(parts, [])) == sorted(100 * file + number for file in range(5) for number in range(3))
    assert all(parts)


@pytest.mark.parametrize("taken", range(12))
@pytest.mark.parametrize("share", [(0, 1), (1, 2), (1, 9)])
def test_loaded_source_reads_on_exactly(tmp_path, taken, share):
    folder = files(tmp_path, 3, 2)
    source = Source(folder, layout(), 5, share=share)
    for _ in range(taken):
        next(source)
    state = json.loads(json.dumps(source.state()))
    rest = [(told(piece), piece.source, piece.obs.tolist()) for piece, _ in zip(source, range(10), strict=False)]
    again = Source(folder, layout(), 5, share=share)
    next(again)
    again.load(state)
    assert [(told(p), p.source, p.obs.tolist()) for p, _ in zip(again, range(10), strict=False)] == rest


def test_loaded_source_begins_at_the_newest_line_before_which_nothing_was_open(tmp_path):
    path = write(tmp_path / "a.json", *[batch(columns(name, 0, 1, True)) for name in range(50)])
    source = Source(path, layout())
    for _ in range(40):
        next(source)
    assert source.state()["at"]["line"] == 39
    assert source.state()["at"]["given"] == 1


def test_state_of_other_files_is_refused(tmp_path):
    source = Source(files(tmp_path), layout())
    next(source)
    state = source.state()
    source.load(state)
    write(tmp_path / "a1.json", batch(columns(1, 0, 1, True)))
    with pytest.raises(CheckpointError, match="have changed"):
        Source(tmp_path, layout()).load(state)
    with pytest.raises(CheckpointError, match="incomplete"):
        source.load({"files": 3})
    for crooked in ({"at": {"offset": "x", "line": 0, "given": 0}}, {"at": {}}, {"at": {"offset": -1}}, {"place": 99}):
        with pytest.raises(CheckpointError, match="fits no file"):
            source.load(state | crooked)


def test_files_without_a_step_are_refused(tmp_path):
    write(tmp_path / "a.json", "")
    with pytest.raises(ExperienceError, match=r"a\.json: holds no step"):
        next(Source(tmp_path, layout()))
    with pytest.raises(ExperienceError, match=r"a\.json: holds no step"):
        check(tmp_path, layout())


def test_check_gives_the_first_piece(tmp_path):
    assert check(files(tmp_path, 1, 1), layout()).steps == 4


def test_share_of_nothing_is_refused(tmp_path):
    source = Source(files(tmp_path, 1, 2), layout(), share=(2, 3))
    with pytest.raises(ExperienceError, match="2 episodes are too few for 3 readers. Lower num_workers"):
        next(source)


def test_endless_episode_comes_in_pieces_that_follow_one_another(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "MAX_STEPS", 4)
    path = write(tmp_path / "a.json", *[batch(columns(1, t, 2)) for t in range(0, 10, 2)])
    assert [told(piece) for piece in Source(path, layout(), passes=1)] == [
        (1, 0, 4, False, False),
        (1, 4, 4, False, False),
        (1, 8, 2, False, False),
    ]


def test_open_episodes_that_are_too_large_together_come_early(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "MAX_BYTES", 24)
    path = write(tmp_path / "a.json", *[batch(columns(name, t, 2)) for t in (0, 2) for name in (1, 2)])
    found = [told(piece)[:3] for piece in Source(path, layout(), passes=1)]
    assert found == [(1, 0, 2), (2, 0, 2), (1, 2, 2), (2, 2, 2)]


def test_log_probabilities_of_a_part_are_none_of_the_whole(tmp_path):
    path = write(tmp_path / "a.json", batch(columns(1, 0, 1, action_logp=[-1.0])), batch(columns(1, 1, 1, True)))
    assert next(Source(path, layout())).logp is None
    path = write(tmp_path / "b.json", *[batch(columns(1, t, 1, t == 1, action_logp=[-1.0 - t])) for t in range(2)])
    assert np.array_equal(next(Source(path, layout())).logp, [-1.0, -2.0])


# -- which files ------------------------------------------------------------------------------------------------


def names(found):
    return [file.name for file in found]


def test_folder_globs_and_lists_give_each_file_once_with_numbers_by_value(tmp_path):
    for number in (10, 9, 1):
        write(tmp_path / f"output-2021-01-01_00-00-00_worker-0_{number}.json", "")
    write(tmp_path / "params.json", "{}")
    wanted = [f"output-2021-01-01_00-00-00_worker-0_{number}.json" for number in (1, 9, 10)]
    assert names(find(str(tmp_path))) == wanted
    assert names(find([str(tmp_path / "*_?.json"), str(tmp_path / wanted[2]), tmp_path])) == wanted


def test_run_folder_means_what_it_recorded(tmp_path):
    write(tmp_path / "params.json", "{}")
    with pytest.raises(ExperienceError, match="has recorded nothing. Run it with output: logdir"):
        find(tmp_path)
    (tmp_path / "experience").mkdir()
    write(tmp_path / "experience" / "output-a.json", "")
    assert names(find(tmp_path)) == ["output-a.json"]


def test_file_whose_name_is_a_pattern_is_itself(tmp_path):
    write(tmp_path / "a[1].json", "")
    assert names(find(str(tmp_path / "a[1].json"))) == ["a[1].json"]


def test_paths_that_hold_nothing_readable_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, what in (
        (tmp_path, "holds no"),
        (tmp_path / "none.json", "No such file"),
        (tmp_path / "*.json", "no file matches"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path / "a\0b", "null"),
        (write(tmp_path / "a.zip", ""), "Unpack it"),
        (write(tmp_path / "a.hdf5", ""), "minari://FOLDER"),
        ([], "is empty"),
    ):
        with pytest.raises(ExperienceError, match=what):
            find(path if isinstance(path, list) else str(path))
