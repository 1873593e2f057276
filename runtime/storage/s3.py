"""S3, and stores that speak its language, as pyarrow reaches them with the settings that Spark was given.

A filesystem takes its settings (:mod:`.s3_settings`) along when it is pickled, so that tasks have the driver's and not
those of their machine.

Invariants: a file is there whole or not at all; nothing is renamed (:meth:`S3.move` is a copy and a removal); folders
are nothing, so none is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyarrow import fs

from ..jvm.hadoop_settings import hadoop_settings
from .conditional import ConditionalClient
from .object_stores import s3_client
from .s3_settings import S3Settings
from .s3_streams import Anywhere, Pieces, Upload

#: Attempts of one request: one in twenty may fail for years before as many in a row do.  Together some twenty seconds.
ATTEMPTS = 10
#: Those of the first request to a bucket, whose settings may be wrong, and how long each may take.
_FIRST_ATTEMPTS, _FIRST_TIMEOUT_S = 3, 5.0
_PREFIX = "fs.s3a."


class S3(fs.S3FileSystem):
    """pyarrow's filesystem, with settings that it takes along and without requests that change nothing.

    Args:
        settings: how its buckets are reached.
        attempts: how often a request is tried.
        timeout_s: how long a connection, or an answer, is waited for.
    """

    def __init__(self, settings: S3Settings, attempts: int = ATTEMPTS, timeout_s: float | None = None) -> None:
        self.settings = settings
        super().__init__(
            access_key=settings.access_key,
            secret_key=settings.secret_key,
            session_token=settings.session_token,
            anonymous=settings.anonymous,
            endpoint_override=settings.endpoint,
            scheme=settings.scheme,
            region=settings.region,
            proxy_options=settings.proxy,
            force_virtual_addressing=settings.endpoint is not None and not settings.path_style,
            connect_timeout=timeout_s,
            request_timeout=timeout_s,
            retry_strategy=fs.AwsDefaultS3RetryStrategy(max_attempts=attempts),
            **_small_files_at_once(),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (asdict(self.settings),)

    def client(self, bucket: str) -> ConditionalClient:
        """For writes that depend on what is there."""
        return s3_client(bucket, self.settings)

    def create_dir(self, path: str, *, recursive: bool = True) -> None:
        """Nothing: a file brings its folders along."""

    def open_input_stream(self, path: str, *ignored: object, **also: object) -> Pieces:
        """pyarrow's own gives up on an answer that is cut off."""
        bucket, _, key = path.partition("/")
        return Pieces(self.client(bucket).stream(key))

    def open_output_stream(self, path: str, *ignored: object, **also: object) -> Upload:
        """An upload; its end may have been done though the answer is lost, and cannot be done again."""
        return Upload(self, path, super().open_output_stream(path))

    def open_input_file(self, path: str) -> pa.NativeFile:
        """As :meth:`open_input_stream`, for reading from any place."""
        bucket, _, key = path.partition("/")
        return pa.PythonFile(Anywhere(self.client(bucket).reader(key)), mode="r")

    def delete_file(self, path: str) -> None:
        """Remove a file, which may be gone; the folder is not marked as one when its last file goes."""
        bucket, _, key = path.partition("/")
        self.client(bucket).delete(key)

    def delete_files(self, paths: Sequence[str]) -> None:
        """Remove files of one bucket, which may be gone; as many as ``conditional.MOST_AT_ONCE``."""
        bucket, _, _ = paths[0].partition("/")
        self.client(bucket).delete_many([path.partition("/")[2] for path in paths])

    def move(self, src: str, dest: str) -> None:
        """A copy by the store, then a removal: readers may see both."""
        self.copy_file(src, dest)
        self.delete_file(src)


@lru_cache
def _small_files_at_once() -> dict[str, Any]:
    """One request for a small file instead of three, where this pyarrow can."""
    try:
        fs.S3FileSystem(anonymous=True, region="us-east-1", allow_delayed_open=True)
    except TypeError:
        return {}
    return {"allow_delayed_open": True}


@lru_cache(maxsize=16)
def _filesystem(settings: S3Settings) -> S3:
    return S3(settings)


def _restored(settings: dict[str, Any]) -> S3:
    """A filesystem in the process that it was sent to, which may be of another version's making."""
    known = {one.name for one in fields(S3Settings)}
    return _filesystem(S3Settings(**{name: value for name, value in settings.items() if name in known}))


#: Buckets that have answered in this process.
_answered: set[tuple[str, S3Settings]] = set()


def s3_filesystem(authority: str, path: str, query: str) -> tuple[S3, str]:
    """The filesystem of a bucket, which is asked for an answer the first time; and the path on it.

    Args:
        authority: of the URI: the bucket, perhaps with ``key:secret@`` before it.
        path: of the URI.
        query: of the URI, with its ``?``.

    Raises:
        ValueError: the URI names no bucket, or options that are not known.
        OSError: the bucket cannot be used; says which setting may be wrong.
    """
    user, _, bucket = authority.rpartition("@")
    if not bucket:
        raise ValueError("the URI names no bucket")
    settings = S3Settings.of_hadoop(hadoop_settings(_PREFIX, bucket)).with_uri(user, query)
    path = f"{bucket}{path}"
    if settings.region is None and settings.endpoint is None:
        settings = replace(settings, region=_region_of(bucket))
    if (bucket, settings) not in _answered:
        _try_out(settings, bucket, path)
        _answered.add((bucket, settings))
    return _filesystem(settings), path


@lru_cache
def _region_of(bucket: str) -> str:
    try:
        return str(fs.resolve_s3_region(bucket))
    except OSError as error:
        raise OSError(
            f"the region of bucket {bucket!r} could not be found at AWS ({error}); set"
            " spark.hadoop.fs.s3a.endpoint.region, or spark.hadoop.fs.s3a.endpoint if the bucket is elsewhere"
        ) from error


def _try_out(settings: S3Settings, bucket: str, path: str) -> None:
    """Ask for the bucket, with little patience."""
    first = S3(settings, _FIRST_ATTEMPTS, _FIRST_TIMEOUT_S)
    try:
        try:
            found = first.get_file_info(bucket).type != fs.FileType.NotFound
        except OSError:
            # Who may not ask for buckets may still use this one; and here the answer tells what is wrong.
            first.get_file_info(fs.FileSelector(path, allow_not_found=True))
            found = True
    except OSError as error:
        raise OSError(_why(str(error), settings, bucket)) from error
    if not found:
        raise OSError(
            f"there is no bucket {bucket!r} at the S3 endpoint {settings.where}; make it, or set"
            " spark.hadoop.fs.s3a.endpoint or spark.hadoop.fs.s3a.endpoint.region if it is elsewhere"
        )


def _why(said: str, settings: S3Settings, bucket: str) -> str:
    if any(word in said for word in ("NETWORK_CONNECTION", "curlCode", "REQUEST_TIMEOUT")):
        return f"the S3 endpoint {settings.where} does not answer ({said}); set spark.hadoop.fs.s3a.endpoint"
    if any(word in said for word in ("ACCESS_DENIED", "INVALID_ACCESS_KEY", "SIGNATURE", "HTTP status 403", "TOKEN")):
        return (
            f"the S3 endpoint {settings.where} refuses bucket {bucket!r} to these credentials ({said}); set"
            " spark.hadoop.fs.s3a.access.key and spark.hadoop.fs.s3a.secret.key"
        )
    return f"the S3 endpoint {settings.where} answers for bucket {bucket!r}: {said}"
