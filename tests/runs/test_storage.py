"""Storages through pyarrow: whole files, and failures in one line."""

import subprocess
import sys

import pytest
import stores

from drl_cli.errors import StorageError
from drl_cli.runs import storage


def test_file_uri_opens_the_folder_with_its_blanks(tmp_path):
    one = storage.opened(str(tmp_path / "my results"))
    one.write(b"abc", "default", "params.json")
    assert (tmp_path / "my results" / "default" / "params.json").read_bytes() == b"abc"
    assert one.uri.endswith("/my%20results")


@pytest.mark.parametrize("make", [stores.mock, lambda: None], ids=["mock", "local"])
def test_what_was_written_is_listed_read_and_removed(make, tmp_path):
    one = make() or stores.local(tmp_path)
    one.write(b"abc", "a", "b", "c.json")
    assert one.entries("a", "b")["c.json"].size == 3 and one.entries("a")["b"].size is None
    assert one.read("a", "b", "c.json", limit=3) == b"abc"
    one.remove("a")
    assert one.entries() == {} and one.entry("a") is None and one.read("a", "b", "c.json", limit=3) is None


def test_entries_of_a_folder_that_is_not_there_are_none(tmp_path):
    assert stores.mock().entries("nowhere") == {}


def test_file_larger_than_allowed_is_refused():
    one = stores.mock()
    one.write(b"abcd", "x")
    with pytest.raises(StorageError, match=r"s3://bucket/runs/x: has more than the 3 bytes"):
        one.read("x", limit=3)


def test_sent_file_has_the_hash_of_its_bytes_and_comes_back(tmp_path):
    (tmp_path / "here").write_bytes(b"abc" * 1000)
    one = stores.mock()
    with open(tmp_path / "here", "rb") as file:
        sha = one.send(file, 3, "there")
    one.fetch(tmp_path / "back", "there")
    assert sha == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of "abc", FIPS 180-4
    assert (tmp_path / "back").read_bytes() == b"abc"


def test_file_is_there_only_when_it_is_whole(tmp_path):
    one = stores.faulty(tmp_path, lambda verb, path: OSError("gone") if verb == "move" else None)
    with pytest.raises(StorageError, match="gone"):
        one.write(b"abc", "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("uri", "text", "said"),
    [
        (
            "s3://b/x",
            "AWS Error ACCESS_DENIED\nduring PutObject.",
            "ACCESS_DENIED during PutObject. Credentials are taken from",
        ),
        ("gs://b/x", "Could not create a OAuth2 access token", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("abfs://c@a/x", "Failed to get token from DefaultAzureCredential", "AZURE_CLIENT_ID"),
        ("hdfs://h/x", "Unable to load libjvm", "Set JAVA_HOME, HADOOP_HOME and CLASSPATH"),
        ("s3://b/x", "curlCode: 6, Could not resolve hostname", "Could not resolve hostname"),
    ],
)
def test_reason_is_one_line_with_what_helps(uri, text, said):
    found = storage.reason(OSError(text), uri)
    assert said in found and "\n" not in found


def test_unknown_scheme_is_one_line():
    with pytest.raises(StorageError, match=r"^ftp:// is not a storage that drl can use. There are s3://"):
        storage.opened("ftp://host/x")


@pytest.mark.process
def test_pyarrow_is_loaded_by_the_first_uri_and_not_before():
    code = (
        "import sys; from drl_cli.runs import run_upload, storage; assert 'pyarrow' not in sys.modules;"
        "storage.opened('file:///tmp'); assert 'pyarrow' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
