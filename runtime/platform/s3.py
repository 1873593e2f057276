"""S3, and stores that speak its language, as pyarrow reaches them with the settings that Spark was given.

``spark.hadoop.fs.s3a.*`` is the one place for endpoint and credentials: Hadoop reads it in the JVM, and here it is read
once more, that of a single bucket (``fs.s3a.bucket.<bucket>.*``) before the general one.  What it leaves open comes
from the driver's environment.  A filesystem takes its settings along when it is pickled, so that tasks have the
driver's and not those of their machine.

Invariants: a file is there whole or not at all; nothing is renamed (:meth:`S3.move` is a copy and a removal); folders
are nothing, so none is made.
"""

from __future__ import annotations

import os
import re
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, unquote

import pyarrow as pa
from pyarrow import fs

from .conditional import ConditionalClient, s3_client
from .hadoop_settings import hadoop_settings

#: Attempts of one request: one in twenty may fail for years before as many in a row do.  Together some twenty seconds.
ATTEMPTS = 10
#: Those of the first request to a bucket, whose settings may be wrong, and how long each may take.
_FIRST_ATTEMPTS, _FIRST_TIMEOUT_S = 3, 5.0
_PREFIX = "fs.s3a."
_ANONYMOUS, _ASSUMED_ROLE = "AnonymousAWSCredentialsProvider", "AssumedRoleCredentialProvider"
_PIECE_BYTES = 1 << 20
#: AWS's endpoint of all regions: it says no more than none does.
_ANY_REGION = re.compile(r"(https?://)?s3\.amazonaws\.com/?", re.IGNORECASE)
#: Those of one region, which Hadoop takes from it.
_OF_REGION = re.compile(
    r"\bs3(?:-fips)?[.-](?:dualstack\.)?(?P<region>[a-z]{2}(?:-[a-z]+)+-\d+)\.(?:vpce\.)?amazonaws\.com(?:\.cn)?(?::\d+)?/?$",
    re.IGNORECASE,
)
#: What pyarrow takes behind the ``?`` of a URI, and we do too.
_IN_URI = {"endpoint_override": "endpoint", "region": "region", "scheme": "scheme"}


@dataclass(frozen=True)
class S3Settings:
    """How a bucket is reached; None: as the environment says."""

    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    anonymous: bool = False
    #: Host, and perhaps a port.
    endpoint: str | None = None
    scheme: str = "https"
    region: str | None = None
    #: False: the bucket is part of the host's name.
    path_style: bool = True
    proxy: str | None = field(default=None, repr=False)

    @property
    def where(self) -> str:
        """The endpoint, for errors."""
        return f"{self.scheme}://{self.endpoint}" if self.endpoint else f"of AWS in {self.region or 'its region'}"

    @classmethod
    def of_hadoop(cls, settings: Mapping[str, str]) -> S3Settings:
        """What Hadoop's settings of a bucket say, without ``fs.s3a.`` before their names.

        Raises:
            ValueError: they name a provider of credentials that exists in Hadoop only.
        """
        given = {name: text.strip() for name, text in settings.items() if text.strip()}
        if _ANY_REGION.fullmatch(given.get("endpoint", "")):
            del given["endpoint"]
        if (found := _OF_REGION.search(given.get("endpoint", ""))) is not None:
            given.setdefault("endpoint.region", found["region"].lower())
        given = {**_of_environment(given), **given}
        providers = given.get("aws.credentials.provider", "")
        access, secret = given.get("access.key"), given.get("secret.key")
        has_keys = access is not None and secret is not None
        secure = given.get("connection.ssl.enabled", "true").lower() != "false"
        scheme, endpoint = _endpoint(given.get("endpoint"), "https" if secure else "http")
        if _ASSUMED_ROLE in providers:
            raise ValueError(
                f"spark.hadoop.fs.s3a.aws.credentials.provider = {providers} is Spark's alone; give the role to the"
                " machines, or its temporary keys as spark.hadoop.fs.s3a.access.key, .secret.key and .session.token"
            )
        return cls(
            access_key=access if has_keys else None,
            secret_key=secret if has_keys else None,
            session_token=given.get("session.token") if has_keys else None,
            anonymous=_ANONYMOUS in providers and not has_keys,
            endpoint=endpoint,
            scheme=scheme,
            region=given.get("endpoint.region"),
            path_style=given.get("path.style.access", "false").lower() == "true" or _is_address(endpoint),
            proxy=_proxy(given),
        )

    def with_uri(self, user: str, query: str) -> S3Settings:
        """These, and what a URI says itself: ``key:secret`` before the bucket, and pyarrow's options behind a ``?``.

        Raises:
            ValueError: it says what is not known here.
        """
        said: dict[str, Any] = {}
        for name, text in parse_qsl(query.removeprefix("?"), strict_parsing=bool(query)):
            if name not in _IN_URI:
                raise ValueError(f"the option {name!r} behind the ? is not known; allowed: {', '.join(_IN_URI)}")
            said[_IN_URI[name]] = text
        if "endpoint" in said:
            said["scheme"], said["endpoint"] = _endpoint(said["endpoint"], said.get("scheme", self.scheme))
            said["path_style"] = True
        if user:
            key, _, secret = user.partition(":")
            said |= {"access_key": unquote(key), "secret_key": unquote(secret), "session_token": None}
        return replace(self, **said)


def _of_environment(given: Mapping[str, str]) -> dict[str, str]:
    """What the driver's environment says, which tasks elsewhere do not have, under Hadoop's names."""
    names: dict[str, tuple[str, ...]] = {
        "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        "endpoint.region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    }
    if not {"access.key", "secret.key"} & given.keys() and _ANONYMOUS not in given.get("aws.credentials.provider", ""):
        names["access.key"] = ("AWS_ACCESS_KEY_ID",)
        names["secret.key"] = ("AWS_SECRET_ACCESS_KEY",)
        names["session.token"] = ("AWS_SESSION_TOKEN",)
    found = {name: next(filter(None, map(os.environ.get, variables)), None) for name, variables in names.items()}
    return {name: text for name, text in found.items() if text}


def _endpoint(text: str | None, scheme: str) -> tuple[str, str | None]:
    if not text:
        return scheme, None
    before, found, host = text.rpartition("://")
    return (before.lower() if found else scheme), host.rstrip("/")


def _is_address(endpoint: str | None) -> bool:
    """True for an endpoint without a name, which no bucket can stand before."""
    try:
        ip_address((endpoint or "").rpartition(":")[0] or endpoint or "")
    except ValueError:
        return endpoint is not None and endpoint.partition(":")[0] == "localhost"
    return True


def _proxy(given: Mapping[str, str]) -> str | None:
    host = given.get("proxy.host")
    if host is None:
        return None
    secure = given.get("proxy.ssl.enabled", "false").lower() == "true"
    user, password = given.get("proxy.username"), given.get("proxy.password")
    who = f"{user}:{password or ''}@" if user else ""
    return f"{'https' if secure else 'http'}://{who}{host}:{given.get('proxy.port') or (443 if secure else 80)}"


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
        return s3_client(bucket, **asdict(self.settings))

    def create_dir(self, path: str, *, recursive: bool = True) -> None:
        """Nothing: a file brings its folders along."""

    def open_input_stream(self, path: str, *ignored: object, **also: object) -> _Pieces:
        """pyarrow's own gives up on an answer that is cut off."""
        bucket, _, key = path.partition("/")
        return _Pieces(self.client(bucket).stream(key))

    def open_output_stream(self, path: str, *ignored: object, **also: object) -> _Upload:
        """An upload; its end may have been done though the answer is lost, and cannot be done again."""
        return _Upload(self, path, super().open_output_stream(path))

    def open_input_file(self, path: str) -> pa.NativeFile:
        """As :meth:`open_input_stream`, for reading from any place."""
        bucket, _, key = path.partition("/")
        return pa.PythonFile(_Anywhere(self.client(bucket).reader(key)), mode="r")

    def delete_file(self, path: str) -> None:
        """Remove a file, which may be gone; the folder is not marked as one when its last file goes."""
        bucket, _, key = path.partition("/")
        self.client(bucket).delete(key)

    def move(self, src: str, dest: str) -> None:
        """A copy by the store, then a removal: readers may see both."""
        self.copy_file(src, dest)
        self.delete_file(src)


class _Pieces:
    """A stream of bytes as a file of pyarrow's that is read from its beginning to its end."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def read(self, size: int | None = None) -> bytes:
        """So many bytes, fewer at the end."""
        wanted = sys.maxsize if size is None or size < 0 else size
        taken, length = [self._rest], len(self._rest)
        while length < wanted and (piece := next(self._pieces, b"")):
            taken.append(piece)
            length += len(piece)
        data = b"".join(taken)
        self._rest = data[wanted:]
        return data[:wanted]

    def read_buffer(self) -> pa.Buffer:
        """All that is left."""
        return pa.py_buffer(self.read())

    def close(self) -> None:
        self._pieces, self._rest = iter(()), b""

    def __enter__(self) -> _Pieces:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Upload:
    """A file that is there when it is closed."""

    closed = False

    def __init__(self, filesystem: S3, path: str, stream: pa.NativeFile) -> None:
        self._filesystem, self._path, self._stream = filesystem, path, stream
        self._size_bytes, self._checksum = 0, 0
        self.flush = stream.flush

    def write(self, data: Any) -> int:
        """Add bytes."""
        size_bytes = int(self._stream.write(data))
        self._size_bytes += size_bytes
        self._checksum = zlib.crc32(data, self._checksum)
        return size_bytes

    def tell(self) -> int:
        return self._size_bytes

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        try:
            self._stream.close()
        except OSError:
            if not self._is_there():
                raise

    def _is_there(self) -> bool:
        """Whether the file is what was written; an earlier one of its name may be as long."""
        if self._filesystem.get_file_info(self._path).size != self._size_bytes:
            return False
        checksum = 0
        with self._filesystem.open_input_stream(self._path) as there:
            while piece := there.read(_PIECE_BYTES):
                checksum = zlib.crc32(piece, checksum)
        return checksum == self._checksum

    def __enter__(self) -> _Upload:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Anywhere:
    """A reader of the library's as a file of Python's."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.seek, self.tell = reader.seek, reader.tell
        self.closed = False

    def read(self, size: int | None = None) -> bytes:
        """So many bytes, fewer at the end."""
        return bytes(self._reader.read(size))

    def close(self) -> None:
        self.closed = True
        self._reader.close()


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
