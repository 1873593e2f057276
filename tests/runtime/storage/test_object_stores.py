"""Clients for conditional writes are let in as pyarrow's filesystem for the same place is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import obstore.store
import pytest
from mixedmode.runtime.storage import object_stores
from mixedmode.runtime.storage.exclusive import conditional_client
from mixedmode.runtime.storage.s3 import S3
from mixedmode.runtime.storage.s3_settings import S3Settings
from obstore.exceptions import UnknownConfigurationKeyError
from pyarrow import fs


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The settings that the library's stores are made with."""
    found: list[dict[str, Any]] = []

    def store(bucket: str, *, config: Mapping[str, Any], retry_config: Any) -> None:
        found.append({"bucket": bucket, **config})

    for name in ("GCSStore", "AzureStore"):
        monkeypatch.setattr(obstore.store, name, store)
    for client in (object_stores.google_client, object_stores.azure_client):
        client.cache_clear()
    for name in object_stores._AZURE_CREDENTIALS:
        monkeypatch.delenv(name, raising=False)
    return found


def test_a_google_bucket_for_everybody(made: list[dict[str, Any]]) -> None:
    """``gs://anonymous@bucket`` signs nothing; any other is signed with what the environment has."""
    for anonymous, config in ((True, {"skip_signature": True}), (False, {})):
        made.clear()
        conditional_client(fs.GcsFileSystem(anonymous=anonymous), "bucket/file")
        assert made == 2 * [{"bucket": "bucket", **config}]


def test_a_library_that_does_not_know_how_single_files_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older ones remove a single file as every store knows it, and refuse to be told so."""
    made: list[bool] = []

    def store(bucket: str, *, config: Mapping[str, Any], **_: Any) -> None:
        if "disable_bulk_delete" in config:
            raise UnknownConfigurationKeyError
        made.append("skip_signature" in config)

    monkeypatch.setattr(obstore.store, "S3Store", store)
    object_stores.s3_client.cache_clear()
    S3(S3Settings(anonymous=True, region="eu")).client("bucket")
    object_stores.s3_client.cache_clear()
    assert made == [True] * 3


def test_a_login_at_azure(made: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without other credentials the login of the command line counts; one of the account, or of an application, or of
    the environment, goes before it."""
    az = tmp_path / "az"
    az.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("AZURE_CONFIG_DIR", str(tmp_path))

    def asked(**more: str) -> dict[str, Any]:
        made.clear()
        object_stores.azure_client.cache_clear()
        conditional_client(fs.AzureFileSystem(account_name="acc", **more), "box/file")
        first, second = made
        assert first == second
        return first

    plain = {"bucket": "box", "account_name": "acc"}
    assert asked() == plain, "nobody has logged in"
    (tmp_path / "azureProfile.json").touch()
    assert asked() == {**plain, "use_azure_cli": True}
    assert asked(account_key="a2V5") == {**plain, "account_key": "a2V5"}
    application = {"tenant_id": "t", "client_id": "i", "client_secret": "s"}
    assert asked(**application) == {**plain, **application}
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "of the environment")
    assert asked() == plain
