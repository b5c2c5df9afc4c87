"""Storages for tests: pyarrow's mock file system, a local folder behind SubTreeFileSystem, and one that fails on request."""

from pyarrow import fs

from drl_cli.runs.storage import Storage

URI = "s3://bucket/runs"


def mock(root="bucket/runs"):
    """Return a Storage in pyarrow's own mock file system, which lives in memory."""
    return Storage(fs._MockFileSystem(), root, URI)


def local(folder, uri=URI):
    """Return a Storage in a folder of this machine, whose paths are relative, as those of an object store."""
    return Storage(fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem()), "", uri)


def faulty(folder, fails):
    """Return a Storage in ``folder``; ``fails(verb, path)`` returns the error of a call ("open", "remove", …), or None."""
    return Storage(fs.PyFileSystem(_Faulty(str(folder), fails)), "", URI)


class _Faulty(fs.FileSystemHandler):
    """A folder whose calls are asked about first; ``calls`` lists (verb, path) of those that change it."""

    def __init__(self, folder, fails):
        self._inner, self._fails = fs.SubTreeFileSystem(folder, fs.LocalFileSystem()), fails

    def _ask(self, verb, path):
        error = self._fails(verb, path)
        if error is not None:
            raise error
        return self._inner

    def get_type_name(self):
        return "faulty"

    def normalize_path(self, path):
        return path

    def get_file_info(self, paths):
        return self._ask("look", paths[0]).get_file_info(paths)

    def get_file_info_selector(self, selector):
        return self._ask("look", selector.base_dir).get_file_info(selector)

    def create_dir(self, path, recursive):
        self._ask("create", path).create_dir(path, recursive=recursive)

    def delete_dir(self, path):
        self._ask("remove", path).delete_dir(path)

    def delete_dir_contents(self, path, missing_dir_ok=False):
        self._ask("remove", path).delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self):
        raise NotImplementedError

    def delete_file(self, path):
        self._ask("remove", path).delete_file(path)

    def move(self, src, dest):
        self._ask("move", dest).move(src, dest)

    def copy_file(self, src, dest):
        self._ask("copy", dest).copy_file(src, dest)

    def open_input_stream(self, path):
        return self._ask("read", path).open_input_stream(path)

    def open_input_file(self, path):
        return self._ask("read", path).open_input_file(path)

    def open_output_stream(self, path, metadata):
        return self._ask("open", path).open_output_stream(path, metadata=metadata)

    def open_append_stream(self, path, metadata):
        raise NotImplementedError
