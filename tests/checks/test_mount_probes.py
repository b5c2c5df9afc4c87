"""What kind of disk a folder is on, from mountinfo texts of other machines, and what is tried on the disk itself."""

import errno
import fcntl
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from drl_cli.checks import mount_probes

LAPTOP = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
31 27 0:45 / /home rw,relatime shared:7 - btrfs /dev/sda2 rw,subvol=/home
32 27 0:46 / /mnt/my\\040disk rw - nfs4 server:/export/a\\040b rw,vers=4.2,addr=10.0.0.1
33 27 0:47 / /srv/old rw - nfs server:/old rw,vers=3,nolock
34 27 0:48 / /srv/win rw - cifs //server/share rw,vers=3.1.1
35 27 0:49 / /srv/ssh rw - fuse.sshfs me@there:/ rw,user_id=0
36 27 0:50 / /srv/ntfs rw - fuseblk /dev/sdb1 rw
37 27 0:51 / /shared rw - 9p host rw,trans=virtio
38 27 0:52 / /tmp rw - tmpfs tmpfs rw,size=4g
garbage
39 38 0:53 / /tmp/sub rw - tmpfs
"""
CONTAINER = "1 0 0:60 / / rw - overlay overlay rw,lowerdir=/a:/b\n2 1 8:1 /data /data rw - xfs /dev/sda1 rw\n"


def judged(text, folder, what="results"):
    """(state, the kind of file system) of the finding about a folder of a machine with these mounts."""
    (found,) = mount_probes.kind(what, Path(folder), mount_probes.parsed(text))
    return found.state, found.text.partition(" is on ")[2].split(" ")[0]


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/var/ray_results", ("ok", "ext4")),
        ("/home/me/ray_results", ("ok", "btrfs")),
        ("/homes", ("ok", "ext4")),  # not below /home
        ("/mnt/my disk/runs", ("warn", "nfs4")),
        ("/srv/old", ("warn", "nfs")),
        ("/srv/win/a", ("warn", "cifs")),
        ("/srv/ssh/a", ("warn", "fuse.sshfs")),
        ("/srv/ntfs/a", ("ok", "fuseblk")),
        ("/shared/a", ("warn", "9p")),
        ("/tmp/a", ("note", "tmpfs")),
        ("/tmp/sub", ("note", "tmpfs")),  # its own line is torn
    ],
)
def test_disk_of_results_is_named_and_judged_by_its_kind(folder, expected):
    assert judged(LAPTOP, folder) == expected


def test_layer_of_a_container_is_worth_a_note_and_a_volume_in_it_is_not():
    assert judged(CONTAINER, "/var/ray_results") == ("note", "overlay")
    assert judged(CONTAINER, "/data/runs") == ("ok", "xfs")


def test_temporary_files_in_memory_are_as_they_should_be():
    assert judged(LAPTOP, "/tmp", what="temporary") == ("ok", "tmpfs")


def test_network_disk_without_locks_says_that_two_machines_can_write_one_run():
    (found,) = mount_probes.kind("results", Path("/srv/old"), mount_probes.parsed(LAPTOP))
    assert "mounted with nolock, two machines can write one run folder" in found.text
    assert found.mend == "drl train … --local-dir /a/local/disk"


def test_later_mount_on_the_same_point_hides_the_earlier_one():
    text = "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:2 / /x rw - nfs s:/ rw\n3 2 8:3 / /x rw - xfs /dev/b rw\n"
    assert judged(text, "/x/y") == ("ok", "xfs")


def test_disk_is_not_named_where_there_is_no_mountinfo(tmp_path):
    found = mount_probes.disks(tmp_path / "new" / "results", tmp_path / "nothing")
    assert "results disk" not in [one.what for one in found]
    assert found[-1] == ("results locks", "ok", "fsync, rename and locks work", None)
    assert list(tmp_path.iterdir()) == []


def test_results_behind_a_link_are_judged_by_where_it_leads(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    file = tmp_path / "mountinfo"
    file.write_text(f"1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:2 / {os.path.realpath(tmp_path)}/there rw - nfs s:/ rw\n")
    found = mount_probes.disks(tmp_path / "link" / "runs", file)
    assert found[0].state == "warn" and f"{tmp_path}/link/runs is on nfs" in found[0].text


@pytest.mark.parametrize(
    ("files", "free", "states"), [(0, 0, []), (10**6, 60_000, ["ok"]), (10**6, 5_000, ["warn"]), (10**6, 9, ["fail"])]
)
def test_room_for_files_is_judged_where_the_disk_has_such_a_limit(monkeypatch, tmp_path, files, free, states):
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_files=files, f_favail=free))
    assert [one.state for one in mount_probes.inodes("results", tmp_path)] == states


def raising(number):
    def call(*_):
        raise OSError(number, os.strerror(number))

    return call


@pytest.mark.parametrize(
    ("owner", "name", "number", "state", "text"),
    [
        (fcntl, "flock", errno.ENOLCK, "warn", "flock does not work in"),
        (fcntl, "flock", errno.EIO, "fail", "flock does not work in"),
        (os, "fsync", errno.EIO, "fail", "fsync does not work in"),
        (os, "replace", errno.EPERM, "fail", "rename does not work in"),
    ],
)
def test_what_a_checkpoint_needs_and_the_disk_cannot_do_is_named(
    monkeypatch, tmp_path, owner, name, number, state, text
):
    monkeypatch.setattr(owner, name, raising(number))
    (found,) = mount_probes.works("results", tmp_path)
    assert found.state == state and found.text.startswith(f"{text} {tmp_path} ")
    assert list(tmp_path.iterdir()) == []


def test_disk_that_cannot_sync_folders_is_a_warning_for_the_newest_checkpoint(monkeypatch, tmp_path):
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda fd: raising(errno.EINVAL)() if os.path.isdir(f"/proc/self/fd/{fd}") else real(fd)
    )
    (found,) = mount_probes.works("results", tmp_path)
    assert found.state == "warn" and "a power cut may take the newest checkpoint" in found.text


def test_folder_that_cannot_be_written_is_left_to_the_probe_of_that(tmp_path):
    assert mount_probes.works("results", tmp_path / "nothing") == []
