"""URIs of storages: which are accepted, and that nothing secret is repeated."""

import pytest

from drl_cli.config import storage_uri


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("s3://bucket/folder/", "s3://bucket/folder"),
        ("S3://bucket?region=eu-west-1", "s3://bucket?region=eu-west-1"),
        ("gs://anonymous@bucket/a", "gs://anonymous@bucket/a"),
        ("abfs://container@account.dfs.core.windows.net/a", "abfs://container@account.dfs.core.windows.net/a"),
        ("hdfs://host:8020/a", "hdfs://host:8020/a"),
        ("file:///mnt/results", "file:///mnt/results"),
        ("/mnt/results", "file:///mnt/results"),
        ("/mnt/a/../results/", "file:///mnt/results"),
    ],
)
def test_checked_storage_path_is_a_uri_without_a_slash_at_its_end(text, uri):
    assert storage_uri.checked(text) == uri


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ftp://host/a", "ftp:// is not a storage that drl can use. There are s3://, gs://, abfs://"),
        ("fil:///a", "Did you mean 'file'?"),
        (
            "s3://key:hunter2@bucket/a",
            "a URI is recorded with the run, so none with a password is accepted. Credentials are",
        ),
        ("s3://key:hunter2/x@bucket/a", "none with a password is accepted"),
        ("abfs://:hunter2@account/a", "AZURE_CLIENT_SECRET"),
        ("s3://bucket/a?secret_key=hunter2", "so secret_key is not accepted in it. Credentials"),
        ("abfs://c@a/x?client_secret=hunter2", "so client_secret is not accepted in it"),
        ("s3://", "names no place: write it as s3://BUCKET/folder"),
        ("file://mnt/results", "names no place: write it as file:///mnt/results"),
        ("s3://bucket/a b", "a URI has no blanks"),
        ("s3://bucket/../other", "a URI has no .. in its path"),
    ],
)
def test_uri_that_cannot_be_used_is_refused_without_its_secrets(text, said):
    with pytest.raises(ValueError) as caught:
        storage_uri.checked(text)
    assert said in str(caught.value) and "hunter2" not in str(caught.value)


def test_names_are_added_before_the_options():
    uri = storage_uri.below("s3://bucket/a?region=x", "default", "RUN")
    assert uri == "s3://bucket/a/default/RUN?region=x"
    assert storage_uri.split(uri) == ("s3://bucket/a/default?region=x", "RUN")


def test_bucket_alone_has_no_name_in_a_folder():
    assert storage_uri.split("s3://bucket") == ("s3://bucket", "")
