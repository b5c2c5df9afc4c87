"""URIs of file systems elsewhere, such as ``s3://bucket/folder``: which ones there are, and how they are taken apart.

Used by the experiment key ``storage_path``, by ``runs.storage``, which opens them with ``pyarrow.fs``, and by the commands that
take a run or a checkpoint. Credentials never stand in a URI: it is written to logs and to params.json.
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote, unquote

from drl_cli.errors import suggestion

SCHEMES = ("s3", "gs", "abfs", "abfss", "hdfs", "file")
"""What is typed before ``://``, in the order in which messages name them; ``SYNONYMS`` are accepted too."""
SYNONYMS = ("gcs", "viewfs")

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_USER_PASSWORD = re.compile(r"://[^?#]*:[^?#]*@")  # secret keys may have a / in them
_SECRET_OPTION = re.compile(r"secret|passw|token|credential(?!_kind)|access_?key|account_?key|sas|sig", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x20\x7f]")


def is_uri(word: str) -> bool:
    """Whether ``word`` starts as a URI does; a path with ``://`` in the middle is none."""
    return bool(_URI.match(word))


def checked(text: str) -> str:
    """Return a storage path as it is recorded: a URI without a ``/`` at its end, of a folder its ``file://`` URI.

    Raises ValueError with what is wrong, in which nothing secret stands.
    """
    if not is_uri(text):
        return "file://" + quote(os.path.abspath(os.path.expanduser(text)))
    scheme = text.partition("://")[0].lower()
    if scheme not in (*SCHEMES, *SYNONYMS):
        known = ", ".join(f"{name}://" for name in SCHEMES)
        hint = suggestion(scheme, SCHEMES)
        raise ValueError(
            f"{scheme}:// is not a storage that drl can use. There are {known}{f'.{hint}' if hint else ''}"
        )
    base, mark, query = text.partition("?")
    if _USER_PASSWORD.search(base):
        raise ValueError(f"a URI is recorded with the run, so none with a password is accepted. {credentials(scheme)}")
    for option in query.split("&") if mark else ():
        name = option.partition("=")[0]
        if _SECRET_OPTION.search(name):
            raise ValueError(
                f"a URI is recorded with the run, so {name[:40]} is not accepted in it. {credentials(scheme)}"
            )
    if "#" in text or _CONTROL.search(text):
        raise ValueError("a URI has no blanks and no #: write %20 and %23")
    place = base.partition("://")[2].rstrip("/")
    if not place or (scheme == "file" and not base.startswith("file:///")):
        example = {"file": "file:///mnt/results", "hdfs": "hdfs://HOST:PORT/folder"}.get(
            scheme, f"{scheme}://BUCKET/folder"
        )
        raise ValueError(f"names no place: write it as {example}")
    if ".." in place.split("/"):
        raise ValueError("a URI has no .. in its path")
    return f"{scheme}://{place}{mark}{query}"


def credentials(scheme: str) -> str:
    """Return the sentence that says where the credentials of a scheme are taken from, without its full stop."""
    found = {
        "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, from ~/.aws, or from the role of the machine",
        "gs": "the file that GOOGLE_APPLICATION_CREDENTIALS names, or from gcloud auth application-default login",
        "abfs": "AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET, or from az login",
        "hdfs": "Kerberos (kinit), with HADOOP_HOME and CLASSPATH set",
    }
    name = {"gcs": "gs", "abfss": "abfs", "viewfs": "hdfs"}.get(scheme, scheme)
    return f"Credentials are taken from {found[name]}" if name in found else "file:// needs none"


def below(uri: str, *names: str) -> str:
    """Return the URI of ``names`` under ``uri``, before its options."""
    base, mark, query = uri.partition("?")
    return "/".join([base.rstrip("/"), *(quote(name) for name in names)]) + mark + query


def split(uri: str) -> tuple[str, str]:
    """Return (the URI of the folder that holds what ``uri`` names, its name); the name is empty for a bucket."""
    base, mark, query = uri.partition("?")
    head, slash, name = base.rstrip("/").rpartition("/")
    if head.endswith(("/", ":")) or not slash:
        return uri, ""
    return head + mark + query, unquote(name)
