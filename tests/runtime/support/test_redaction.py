"""Credentials inside locations are found, and hidden in texts."""

from __future__ import annotations

import pytest
from mixedmode.runtime.support.redaction import credentials_in, redacted

WITH_SECRETS = [
    "s3a://AKIA:s3cr3t@bucket/folder",
    "s3a://AKIA:s3/cr+t=s3cr3t@bucket/folder",
    "https://host/folder?sv=1&sig=s3cr3t&x=1",
    "abfss://container@account.dfs.core.windows.net/folder?sas_token=s3cr3t",
    "jdbc:postgresql://user:s3cr3t@host/db",
    "jdbc:sqlserver://host;user=a;password=s3cr3t;x=1",
]


@pytest.mark.parametrize("location", WITH_SECRETS)
def test_secrets_are_hidden(location: str) -> None:
    """In a location alone and in a text around it; what says where it is stays."""
    for text in (location, f"FileScan parquet [k] Location: InMemoryFileIndex[{location}], PushedFilters: []"):
        assert "s3cr3t" not in redacted(text) and "(redacted)" in redacted(text)
    assert credentials_in(location) is not None and "s3cr3t" not in str(credentials_in(location))


@pytest.mark.parametrize(
    "location",
    [
        "/folder/a:b@c?sig=x",
        "s3a://bucket/folder@1:2",
        "abfss://container@account.dfs.core.windows.net/folder",
        "hdfs://user@host:8020/folder",
        "hdfs://host:8020/folder@2",
        "s3://bucket/folder?design=1",
        "s3://bucket/folder?endpoint_override=localhost%3A9000&region=x",
        "file:///folder/design",
    ],
)
def test_locations_without_secrets_stay(location: str) -> None:
    """An ``@`` or a port is no secret."""
    assert credentials_in(location) is None
    if "://" in location:
        assert redacted(location) == location
