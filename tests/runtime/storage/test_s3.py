"""S3 through a local server: settings, writes under a condition, and requests that fail."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
from mixedmode.errors import OptionError
from mixedmode.runtime.driver.run.preflight import _check_savepoint
from mixedmode.runtime.storage import s3
from mixedmode.runtime.storage.conditional import WRITER_MARK
from mixedmode.runtime.storage.deletions import delete_files
from mixedmode.runtime.storage.exclusive import conditional_client, decides, put_if_absent
from mixedmode.runtime.storage.filesystem import (
    delete_quietly,
    exists,
    list_files,
    read_bytes,
    resolve,
    write_atomically,
)
from mixedmode.runtime.storage.folder_checks import resolve_option
from mixedmode.runtime.storage.s3_settings import S3Settings
from pyarrow import fs
from s3_server import FAILURES, S3Server

MANY = 12


@pytest.fixture
def settings(object_store: S3Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What Spark was told, which tests may change."""
    said = {name.removeprefix("fs.s3a."): text for name, text in object_store.hadoop.items()}
    monkeypatch.setattr(s3, "hadoop_settings", lambda prefix, bucket: dict(said))
    return said


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, S3Settings()),
        ({"endpoint": "http://10.0.0.1:9000"}, S3Settings(endpoint="10.0.0.1:9000", scheme="http")),
        ({"endpoint": "https://minio/"}, S3Settings(endpoint="minio", path_style=False)),
        (
            {"endpoint": "minio:1", "path.style.access": "True", "connection.ssl.enabled": "false"},
            S3Settings(endpoint="minio:1", scheme="http"),
        ),
        (
            {"access.key": "a", "secret.key": "b", "session.token": " c "},
            S3Settings(access_key="a", secret_key="b", session_token="c"),
        ),
        ({"access.key": "a"}, S3Settings()),
        ({"aws.credentials.provider": "org.x.AnonymousAWSCredentialsProvider"}, S3Settings(anonymous=True)),
        ({"endpoint.region": "eu-west-1"}, S3Settings(region="eu-west-1")),
        ({"endpoint": "s3.amazonaws.com"}, S3Settings(path_style=False)),
        ({"endpoint": "https://s3.amazonaws.com/", "endpoint.region": "a"}, S3Settings(region="a", path_style=False)),
        (
            {"endpoint": "s3.eu-west-1.amazonaws.com"},
            S3Settings(endpoint="s3.eu-west-1.amazonaws.com", region="eu-west-1", path_style=False),
        ),
        (
            {"endpoint": "https://x.vpce-1a.s3.us-gov-east-1.vpce.amazonaws.com"},
            S3Settings(
                endpoint="x.vpce-1a.s3.us-gov-east-1.vpce.amazonaws.com", region="us-gov-east-1", path_style=False
            ),
        ),
        (
            {"endpoint": "s3.dualstack.cn-north-1.amazonaws.com.cn", "endpoint.region": "b"},
            S3Settings(endpoint="s3.dualstack.cn-north-1.amazonaws.com.cn", region="b", path_style=False),
        ),
        ({"proxy.host": "p", "proxy.port": "3128"}, S3Settings(proxy="http://p:3128")),
        (
            {"proxy.host": "p", "proxy.username": "u", "proxy.password": "w", "proxy.ssl.enabled": "true"},
            S3Settings(proxy="https://u:w@p:443"),
        ),
    ],
)
def test_hadoops_settings_are_ours(told: dict[str, str], expected: S3Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has the meaning that Hadoop gives it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    found = S3Settings.of_hadoop(told)
    assert found == (expected if "endpoint" in told else S3Settings(**{**vars(expected), "path_style": False}))


def test_the_environment_says_what_hadoop_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and a token as a whole: those of one place are not mixed with those of the other."""
    said = {"ENDPOINT_URL": "http://here:9", "REGION": "eu", "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b"}
    for name, text in {**said, "SESSION_TOKEN": "c"}.items():
        monkeypatch.setenv(f"AWS_{name}", text)
    everything = S3Settings("a", "b", "c", endpoint="here:9", scheme="http", region="eu", path_style=True)
    assert S3Settings.of_hadoop({"path.style.access": "true"}) == everything
    found = S3Settings.of_hadoop({"access.key": "x", "secret.key": "y", "endpoint.region": "us"})
    assert (found.access_key, found.session_token, found.region, found.endpoint) == ("x", None, "us", "here:9")


def test_secrets_are_not_shown() -> None:
    """Whoever prints settings prints no key."""
    assert "hidden" not in repr(S3Settings(access_key="hidden", secret_key="hidden", session_token="hidden"))


def test_a_uri_may_say_more() -> None:
    """What stands in it goes before Spark's settings; what is not known there is refused."""
    said = S3Settings(region="a").with_uri("key:se%2Fcret", "?endpoint_override=here:9000&scheme=http&region=eu")
    assert said == S3Settings("key", "se/cret", endpoint="here:9000", scheme="http", region="eu")
    with pytest.raises(ValueError, match="'nosuch' behind the"):
        S3Settings().with_uri("", "?nosuch=1")


def test_a_pickled_filesystem_needs_no_environment(object_store: S3Server, settings: dict[str, str]) -> None:
    """It reaches the same bucket where nothing else says how; ``s3://`` and ``s3a://`` name the same file."""
    bucket = object_store.make("pickled")
    filesystem, path = resolve(f"s3://{bucket}/a b/100%/c#d")
    with filesystem.open_output_stream(path) as file:
        file.write(b"here")
    settings.clear()
    restored = pickle.loads(pickle.dumps(filesystem))
    assert read_bytes(restored, path) == b"here"
    settings.update({name.removeprefix("fs.s3a."): text for name, text in object_store.hadoop.items()})
    assert resolve(f"s3a://{bucket}/a b/100%/c#d") == (filesystem, path)
    assert [info.path for info in list_files(filesystem, bucket, recursive=True) if info.is_file] == [path]


def _of_many(work: Callable[[int], bool]) -> int:
    with ThreadPoolExecutor(MANY) as writers:
        (winner,) = [number for number, won in enumerate(writers.map(work, range(MANY))) if won]
    return winner


@pytest.mark.parametrize("bucket", ["races", "flaky-2-races"])
def test_of_many_writers_one_succeeds(object_store: S3Server, settings: dict[str, str], bucket: str) -> None:
    """In putting what is not there, and in replacing what they have all seen, though one request in twenty fails."""
    filesystem, folder = resolve(f"s3a://{object_store.make(bucket)}/x")

    def race(path: str) -> None:
        winner = _of_many(lambda writer: put_if_absent(filesystem, path, b"%d" % writer))
        found = conditional_client(filesystem, path)
        assert found is not None
        client, key = found
        seen = client.get(key)
        assert seen is not None and seen.data == b"%d" % winner
        winner = _of_many(lambda writer: client.swap(key, seen, b"new %d" % writer))
        assert read_bytes(filesystem, path) == b"new %d" % winner
        delete_quietly(filesystem, path)
        assert not client.swap(key, seen, b"late") and client.get(key) is None

    for number in range(4):
        race(f"{folder}/{number}")


@pytest.mark.parametrize("bucket", ["naive", "old"])
def test_a_store_may_know_no_conditions(object_store: S3Server, settings: dict[str, str], bucket: str) -> None:
    """That can be found out; a file that is there stays all the same."""
    filesystem, path = resolve(f"s3a://{object_store.make(bucket)}/x")
    assert put_if_absent(filesystem, path, b"one") and not put_if_absent(filesystem, path, b"two")
    assert read_bytes(filesystem, path) == b"one"
    assert not decides(filesystem, path, b"one")
    filesystem, path = resolve(f"s3a://{object_store.make('strict')}/{bucket}")
    assert put_if_absent(filesystem, path, b"one") and decides(filesystem, path, b"two")
    assert read_bytes(filesystem, path) == b"one"


def test_requests_that_fail_are_tried_again(object_store: S3Server, settings: dict[str, str]) -> None:
    """Refused, cut off, half answered, or done and not told: what was written is there, and what was read is whole."""
    bucket = object_store.make("flaky-3")
    filesystem, folder = resolve(f"s3a://{bucket}/x")
    large = bytes(range(256)) * 4096 * 7

    def use(number: int) -> None:
        data = large if number % 20 == 0 else b"%d" % number
        with filesystem.open_output_stream(f"{folder}/{number}") as file:
            file.write(data)
        filesystem.copy_file(f"{folder}/{number}", f"{folder}/copy-{number}")
        filesystem.delete_file(f"{folder}/{number}")
        assert read_bytes(filesystem, f"{folder}/copy-{number}") == data
        with filesystem.open_input_file(f"{folder}/copy-{number}") as file:
            file.seek(max(0, file.size() - 5))
            assert file.read() == data[-5:]
        assert not exists(filesystem, f"{folder}/{number}")

    with ThreadPoolExecutor(4) as users:
        list(users.map(use, range(100)))
    assert len(list_files(filesystem, folder)) == 100
    filesystem.delete_dir(folder)
    assert list_files(filesystem, folder) == []
    assert set(object_store.failures(bucket)) == set(FAILURES)


@pytest.mark.parametrize(
    ("bucket", "files", "many", "single"),
    [
        ("bulk", 2012, 3, 0),
        ("flaky-5-bulk", 2012, None, 0),
        ("kept-InternalError", 12, 2, 0),
        ("single-501", 12, 1, 12),
        ("single-405", 12, 1, 12),
        ("single-404", 12, 1, 12),
        ("single-400", 12, 1, 12),
        ("single-403", 12, 1, 12),
    ],
)
def test_many_files_are_removed_in_few_requests(
    object_store: S3Server, settings: dict[str, str], bucket: str, files: int, many: int | None, single: int
) -> None:
    """A thousand each, though some fail and some files are gone; one by one where the store has no such requests, or
    does not let everybody make them."""
    filesystem, folder = resolve(f"s3a://{object_store.make(bucket)}/x")
    assert isinstance(filesystem, s3.S3)
    here, told = [f"{folder}/{number} <&é" for number in range(9)], list[str]()
    for path in here:
        assert put_if_absent(filesystem, path, b"x")
    gone = [f"{folder}/gone-{number}" for number in range(files - 8)]
    delete_files(filesystem, [*gone, *here[1:]], lambda: told.append("request"))
    assert [info.path for info in list_files(filesystem, folder)] == here[:1]
    asked = object_store.requests(bucket)
    assert len(told) == -(-files // 1000) and asked.get("DELETE", 0) == single
    assert asked["POST delete"] == many or many is None
    delete_files(filesystem, here[:1])
    assert list_files(filesystem, folder) == []
    assert object_store.requests(bucket)["POST delete"] == asked["POST delete"], "of one file it is as ever"


def test_files_that_may_not_be_removed_are_told_at_once(object_store: S3Server, settings: dict[str, str]) -> None:
    """Trying again would change nothing."""
    bucket = object_store.make("kept-AccessDenied")
    filesystem, folder = resolve(f"s3a://{bucket}/x")
    with pytest.raises(OSError, match="AccessDenied"):
        delete_files(filesystem, [f"{folder}/1", f"{folder}/2"])
    assert object_store.requests(bucket)["POST delete"] == 1


def test_an_upload_that_failed_is_told_from_an_earlier_file_of_its_size(
    object_store: S3Server, settings: dict[str, str]
) -> None:
    """Writing a file anew has failed where the old content is there, however long it is."""
    filesystem, path = resolve(f"s3a://{object_store.make('anew')}/x")

    class Failing:
        flush = None

        def write(self, data: bytes) -> int:
            return len(data)

        def close(self) -> None:
            raise OSError("no answer")

    write_atomically(filesystem, path, b"old")
    for data in (b"old", b"new"):
        upload = s3.Upload(filesystem, path, Failing())
        upload.write(data[:1])
        upload.write(data[1:])
        with nullcontext() if data == b"old" else pytest.raises(OSError, match="no answer"):
            upload.close()


def test_marks_of_writes_are_names_that_every_store_takes() -> None:
    """Azure takes identifiers alone, in whatever case, and proxies leave headers with underscores out."""
    assert WRITER_MARK.isidentifier() and WRITER_MARK.islower() and "_" not in WRITER_MARK


def test_an_upload_whose_answer_is_lost_is_done(object_store: S3Server, settings: dict[str, str]) -> None:
    """Its end cannot be asked for again, but the file is there."""
    bucket = object_store.make("lost")
    filesystem, path = resolve(f"s3a://{bucket}/x")
    large = bytes(range(256)) * 4096 * 12
    with filesystem.open_output_stream(path) as file:
        file.write(large[:7])
        file.write(large[7:])
    assert read_bytes(filesystem, path) == large
    assert object_store.failures(bucket)["done-but-cut"] > 1


def test_what_is_wrong_with_a_bucket_is_said_at_once(object_store: S3Server, settings: dict[str, str]) -> None:
    """With the name of the setting; a missing file is a missing file."""

    def refusal(bucket: str, **different: str) -> str:
        settings.update({name.replace("_", "."): text for name, text in different.items()})
        with pytest.raises(OptionError, match="checkpointLocation = 's3a:") as raised:
            resolve_option("checkpointLocation", f"s3a://{bucket}/x")
        return str(raised.value)

    object_store.make("guarded")
    assert "no bucket 'missing'" in refusal("missing")
    assert "names no bucket" in refusal("")
    provider = "org.x.AssumedRoleCredentialProvider"
    assert provider in refusal("guarded", aws_credentials_provider=provider)
    del settings["aws.credentials.provider"]
    with pytest.raises(FileNotFoundError, match="guarded/x"):
        read_bytes(*resolve("s3a://guarded/x"))
    said = refusal("guarded", access_key="wrong")
    assert "INVALID_ACCESS_KEY" in said and "spark.hadoop.fs.s3a.access.key" in said and "wrong" not in said
    said = refusal("guarded", endpoint="http://127.0.0.1:9")
    assert "http://127.0.0.1:9 does not answer" in said and "spark.hadoop.fs.s3a.endpoint" in said


def test_folders_are_nothing(object_store: S3Server, settings: dict[str, str]) -> None:
    """None is made, and none stays when its last file goes."""
    filesystem, folder = resolve(f"s3a://{object_store.make('folders')}/a/b")
    filesystem.create_dir(folder, recursive=True)
    assert not exists(filesystem, folder)
    with filesystem.open_output_stream(f"{folder}/c") as file:
        file.write(b"")
    assert read_bytes(filesystem, f"{folder}/c") == b""
    assert filesystem.get_file_info(folder).type == fs.FileType.Directory
    filesystem.move(f"{folder}/c", f"{folder}/d")
    filesystem.delete_file(f"{folder}/d")
    filesystem.delete_file(f"{folder}/d")
    assert not exists(filesystem, folder)


def test_a_savepoint_in_a_bucket_that_is_missing(settings: dict[str, str]) -> None:
    """start() names the option, its value and what is allowed, under a code of its own."""
    with pytest.raises(OptionError) as caught:
        _check_savepoint(None, "s3a://no-such-bucket/savepoints/7")  # type: ignore[arg-type]
    said = str(caught.value)
    assert caught.value.code == "MIXEDMODE_LOCATION_UNUSABLE"
    assert said.startswith("execution.savepoint.path = 's3a://no-such-bucket/savepoints/7' cannot be reached")
    assert "no-such-bucket" in said.split("cannot be reached")[1] and "allowed: a folder that savepoint()" in said
    assert "a bucket that exists" in said
