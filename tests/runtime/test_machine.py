"""Limits of containers, read from folders like the kernel's."""

import pytest

from drl_cli.runtime import machine

pytestmark = pytest.mark.process


def group(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def v2(tmp_path):
    (tmp_path / "own").write_text("0::/box/inner\n")
    return {"root": tmp_path / "cg", "own": str(tmp_path / "own")}


def test_memory_limit_of_version_2_is_the_tightest_of_the_groups_above(tmp_path):
    where = v2(tmp_path)
    group(where["root"] / "box", memory__max="2000000000\n", memory__current="500000000\n")
    group(where["root"] / "box" / "inner", memory__max="max\n")
    assert machine.memory_limit(**where) == 2_000_000_000


def test_memory_free_leaves_out_what_the_page_cache_would_give_back(tmp_path):
    where = v2(tmp_path)
    stat = "anon 5\ninactive_file 300000000\n"
    group(where["root"] / "box", memory__max="1000000000\n", memory__current="900000000\n", memory__stat=stat)
    assert machine.memory_free(**where) == 400_000_000


def test_memory_limit_of_version_1_that_is_no_limit_counts_as_none(tmp_path):
    (tmp_path / "own").write_text("4:memory:/a\n3:cpu,cpuacct:/a\n")
    group(tmp_path / "cg" / "memory" / "a", memory__limit_in_bytes="9223372036854771712\n")
    assert machine.memory_limit(tmp_path / "cg", str(tmp_path / "own")) is None


def test_memory_total_is_at_most_the_containers_limit(tmp_path):
    where = v2(tmp_path)
    group(where["root"] / "box", memory__max="1000000\n", memory__current="1\n")
    assert machine.memory_total(**where) == 1_000_000


def test_cpu_quota_of_version_2_is_time_over_period(tmp_path):
    where = v2(tmp_path)
    group(where["root"] / "box", cpu__max="150000 100000\n")
    group(where["root"], cpu__max="max 100000\n")
    assert machine.cpu_quota(**where) == 1.5


def test_cpu_quota_of_version_1_without_a_limit_is_none(tmp_path):
    (tmp_path / "own").write_text("1:cpu:/a\n")
    group(tmp_path / "cg" / "cpu" / "a", cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n")
    assert machine.cpu_quota(tmp_path / "cg", str(tmp_path / "own")) is None


def test_disk_free_of_a_folder_that_is_not_there_is_its_parents(tmp_path):
    assert machine.disk_free(tmp_path / "a" / "b") == machine.disk_free(tmp_path)


def test_shared_memory_that_is_missing_is_none():
    assert machine.shared_memory("/no/such/folder") == (None, None)
