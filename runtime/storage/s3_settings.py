"""Resolves how an S3 bucket is reached, from Hadoop's settings, the driver's environment and the URI.

``spark.hadoop.fs.s3a.*`` is the one place for endpoint and credentials: Hadoop reads it in the JVM, and here it is read
once more, that of a single bucket (``fs.s3a.bucket.<bucket>.*``) before the general one.  What it leaves open comes
from the driver's environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, unquote

_ANONYMOUS, _ASSUMED_ROLE = "AnonymousAWSCredentialsProvider", "AssumedRoleCredentialProvider"
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
