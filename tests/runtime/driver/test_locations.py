"""What a location's text means: the filesystem, the path on it, and the URI by which Spark finds the same place."""

from __future__ import annotations

import os
from typing import Any

import pytest
from mixedmode.errors import OptionError
from mixedmode.runtime.storage import filesystem
from mixedmode.runtime.storage.filesystem import absolute, is_local, resolve, uri
from mixedmode.runtime.storage.folder_checks import resolve_option
from pyarrow import ArrowInvalid, fs


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URIs that pyarrow is asked for, instead of connecting anywhere."""
    seen: list[str] = []

    class Known:
        @staticmethod
        def from_uri(location: str) -> tuple[Any, str]:
            seen.append(location)
            scheme, _, rest = location.partition("://")
            if scheme not in ("gs", "abfss", "hdfs"):
                raise ArrowInvalid(f"Unrecognized filesystem type in URI: {location}")
            path = rest.partition("?")[0]
            return fs.LocalFileSystem(), path.partition("/")[2] if scheme == "hdfs" else path

    monkeypatch.setattr(filesystem.fs, "FileSystem", Known)
    return seen


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("hdfs:/x", "hdfs:///x"),
        ("hdfs:///x/y/", "hdfs:///x/y/"),
        ("hdfs://host:8020/x", "hdfs://host:8020/x"),
        ("HDFS://Host/x", "hdfs://Host/x"),
        ("abfss://box@account.dfs.core.windows.net/x", "abfss://box@account.dfs.core.windows.net/x"),
        ("gs://bucket/a b/100%/c#d", "gs://bucket/a%20b/100%25/c%23d"),
        ("gs://bucket/a%20b", "gs://bucket/a%2520b"),
        ("gs://bucket?endpoint_override=localhost:9000&scheme=http",) * 2,
    ],
)
def test_what_pyarrow_is_asked_for(asked: list[str], location: str, expected: str) -> None:
    """Scheme and authority are kept, and so encoded that the path is what is written."""
    resolve(location)
    assert asked == [expected]
    assert not is_local(location)
    assert absolute(location) == location


@pytest.mark.parametrize(
    ("location", "path", "expected"),
    [
        ("hdfs:/x", "/x/part", "hdfs:///x/part"),
        ("hdfs://host:8020/x", "/x/part", "hdfs://host:8020/x/part"),
        ("hdfs://x/x", "/x/x/part", "hdfs://x/x/x/part"),
        ("hdfs://host:8020/", "/part", "hdfs://host:8020/part"),
        ("abfss://box@account.dfs.core.windows.net/x", "box/x/part", "abfss://box@account.dfs.core.windows.net/x/part"),
        ("abfss://box@account.dfs.core.windows.net", "box/part", "abfss://box@account.dfs.core.windows.net/part"),
        ("s3://bucket/x/", "bucket/x", "s3://bucket/x"),
        ("s3a://bucket/x", "bucket/x/part-00000000-a", "s3a://bucket/x/part-00000000-a"),
        ("s3://bucket/bucket", "bucket/bucket/bucket", "s3://bucket/bucket/bucket"),
        ("s3://key:secret@bucket/x?region=eu", "bucket/x/part", "s3://bucket/x/part"),
        ("gs://bucket/a%20b", "bucket/a%20b/c", "gs://bucket/a%20b/c"),
        ("local:///srv/x", "/srv/x/part", "local:///srv/x/part"),
        ("oss://bucket/x", "bucket/x/part", "oss://bucket/x/part"),
        ("file:/srv/x", "/srv/x/part", "file:///srv/x/part"),
        ("srv/x", "/home/srv/x/part", "file:///home/srv/x/part"),
    ],
)
def test_what_spark_is_given(location: str, path: str, expected: str) -> None:
    """Whatever is below a location is named with the location's scheme and authority."""
    assert uri(location, path) == expected


@pytest.mark.parametrize(("location", "path"), [("s3://bucket/x", "bucket/xy"), ("hdfs:/x", "/y"), ("gs://b/x", "c/x")])
def test_what_is_not_below_a_location_has_no_name(location: str, path: str) -> None:
    """A name is never made up."""
    with pytest.raises(ValueError, match="is not below"):
        uri(location, path)


@pytest.mark.parametrize("location", ["x", "./a:b", "a:b", "x/s3://y", "~/x", "/x?y", "c:"])
def test_plain_paths_are_local(location: str) -> None:
    """A colon alone makes no URI."""
    found, path = resolve(location)
    assert isinstance(found, fs.LocalFileSystem)
    assert path == os.path.abspath(os.path.expanduser(location))
    assert is_local(location)


@pytest.mark.parametrize(
    ("location", "hint"),
    [
        ("dbfs:/x", "/dbfs/"),
        ("dbfs:///x", "/dbfs/"),
        ("wasbs://box@account.blob.core.windows.net/x", "abfss://container@account"),
        ("nosuch:/x", "fsspec"),
    ],
)
def test_a_scheme_that_nobody_serves_is_refused(location: str, hint: str) -> None:
    """Rather than taken for a local folder of that name; the error says what can be done."""
    with pytest.raises(OptionError) as caught:
        resolve_option("checkpointLocation", location)
    scheme = location.partition(":")[0]
    assert str(caught.value).startswith(f"checkpointLocation = {location!r} cannot be reached: neither pyarrow.fs nor")
    assert f"serves {scheme}:" in str(caught.value) and hint in str(caught.value)
    assert not os.path.exists(scheme + ":")


def test_fsspec_serves_what_pyarrow_does_not() -> None:
    """Its filesystems work as pyarrow's do."""
    found, path = resolve("memory://box/a%20b/")
    assert isinstance(found, fs.PyFileSystem) and path.strip("/") == "box/a%20b"
    found.create_dir(path)
    assert found.get_file_info(path).type == fs.FileType.Directory
    assert uri("memory://box/a%20b/", f"{path}/c") == "memory://box/a%20b/c"
