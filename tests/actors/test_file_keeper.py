"""Files of workers on other nodes: another node is a folder of the worker's that the run's node does not have."""

import errno
import os
from types import SimpleNamespace

import pytest
from parts import config, identity, server, spec
from scripted_envs import ENV, HIGH, LOW, Scripted

from drl_cli.actors import file_keeper
from drl_cli.actors.file_keeper import FileKeeper
from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.errors import CheckpointError
from drl_cli.runtime.cluster import LocalHandle, PartLost

SPEC = spec(2, (LOW,), (HIGH,))
PLANS = [{"ends": (7, "terminated")}, {"ends": (4, "truncated")}]


@pytest.fixture
def home(tmp_path):
    """The folder of the run's node that workers record into."""
    return tmp_path / "home" / "experience"


def keeper(home, most=2**20):
    return LocalHandle("files", FileKeeper, (str(home), most, str(home.parent / "videos")))


def worker(folder, handle=None, incarnation=0, **keys):
    Scripted.begin(*PLANS)
    who = identity(3, 10**9) | {"output": str(folder), "incarnation": incarnation}
    who |= {"keeper": handle} if handle else {}
    return RolloutWorker(config(**({"num_envs_per_worker": 2} | keys)), ENV, SPEC, who, server())


def content(folder):
    return [path.read_bytes() for path in sorted(folder.glob("*"))]


def test_worker_of_another_node_records_on_the_runs_node_what_it_would_record_itself(tmp_path, home):
    for folder, handle in ((tmp_path / "elsewhere", keeper(home)), (tmp_path / "own", None)):
        made = worker(folder, handle)
        for _ in range(3):
            made.collect()
    assert content(home) == content(tmp_path / "own") and len(content(home)) == 1
    assert not (tmp_path / "elsewhere").exists()


def test_what_a_fragment_recorded_is_on_disk_when_the_worker_returns_it(tmp_path, home):
    made = worker(tmp_path / "elsewhere", keeper(home))
    for count in (1, 2, 3):
        made.collect()
        assert content(home)[0].count(b"\n") == count


def test_worker_that_shares_the_disk_writes_by_itself(home):
    handle = keeper(home)
    made = worker(home, handle)
    made.collect()
    assert len(content(home)) == 1 and handle.part._files == {}


def test_folder_of_the_same_name_on_another_disk_is_not_shared(tmp_path, home):
    handle = keeper(home)
    (tmp_path / "elsewhere").mkdir()
    worker(tmp_path / "elsewhere", handle).collect()
    assert (len(content(home)), content(tmp_path / "elsewhere")) == (1, [])


def test_files_are_rotated_and_incarnations_have_their_own(tmp_path, home):
    handle = keeper(home, most=1024)
    for incarnation in (0, 1):
        made = worker(tmp_path / "elsewhere", handle, incarnation)
        made.collect(), made.collect()
    parts = sorted(name.rpartition("_")[2] for name in os.listdir(home))
    assert parts == ["0.json", "0.json", "1.json", "1.json"]


def test_resumed_worker_takes_back_what_was_written_after_its_state(tmp_path, home):
    made = worker(tmp_path / "elsewhere", keeper(home))
    made.collect()
    state = made.state()
    made.collect()
    assert content(home)[0].count(b"\n") == 2
    again = worker(tmp_path / "elsewhere", keeper(home))
    again.load(*state)
    assert content(home)[0].count(b"\n") == 1
    with pytest.raises(CheckpointError, match="names no file of a recording"):
        keeper(home).call("cut_back", (3, 0), {"prefix": "../x", "part": 0, "bytes": 0}).result()


def test_recording_that_cannot_be_written_there_ends_with_a_note(tmp_path, home):
    home.parent.mkdir()
    home.write_text("a file")
    made = worker(tmp_path / "elsewhere", keeper(home))
    notes = made.collect()[0].notes
    assert len(notes) == 1 and notes[0].startswith(
        f"worker 3 stops recording, and the run continues without: {home} cannot"
    )
    assert not made.collect()[0].notes


def test_keeper_that_is_lost_ends_the_recording_and_not_the_run(tmp_path, home):
    handle = keeper(home)
    made = worker(tmp_path / "elsewhere", handle)
    made.collect()

    def lost(*_):
        raise PartLost("files", "killed")

    handle.call = lambda *_: SimpleNamespace(result=lost)
    notes = made.collect()[0].notes
    assert "the process of the run's node that writes it was lost" in notes[0]
    made.state()  # a checkpoint is still written


def test_film_is_brought_to_the_folder_of_the_run_and_one_of_a_shared_folder_stays(tmp_path, home):
    handle = keeper(home)
    send = file_keeper.film_sender(identity(0) | {"keeper": handle}, str(tmp_path / "elsewhere" / "videos"))
    (tmp_path / "episode-000008.mp4").write_bytes(b"film")
    send(tmp_path / "episode-000008.mp4")
    assert (home.parent / "videos" / "episode-000008.mp4").read_bytes() == b"film"
    assert file_keeper.film_sender(identity(0) | {"keeper": handle}, str(home.parent / "videos")) is None
    assert file_keeper.film_sender(identity(0), "/anywhere") is None
    assert not (tmp_path / "elsewhere").exists()


def test_film_that_cannot_be_written_there_is_an_oserror(tmp_path, home):
    handle = keeper(home)
    send = file_keeper.film_sender(identity(0) | {"keeper": handle}, str(tmp_path / "elsewhere"))
    (home.parent / "videos").rmdir()
    (home.parent / "videos").write_text("a file")
    (tmp_path / "episode-000008.mp4").write_bytes(b"film")
    with pytest.raises(OSError) as caught:
        send(tmp_path / "episode-000008.mp4")
    assert caught.value.errno in (errno.EEXIST, errno.ENOTDIR)
