"""The clients of object stores, by whose store it is: who is asked, and with which credentials.

They are those of pyarrow's filesystem for the same place, wherever that one tells them.
"""

from __future__ import annotations

import os
import shutil
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .conditional import ONCE, ConditionalClient

if TYPE_CHECKING:
    from obstore.store import RetryConfig

    from .s3_settings import S3Settings

#: Any of these says by which credentials Azure lets a process in, or where it gets some.
_AZURE_CREDENTIALS = (
    *("AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY"),
    *("AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_TOKEN", "IDENTITY_ENDPOINT", "MSI_ENDPOINT"),
)


@lru_cache(maxsize=16)
def s3_client(bucket: str, settings: S3Settings) -> ConditionalClient:
    """The client of a bucket of S3."""
    from obstore.exceptions import UnknownConfigurationKeyError
    from obstore.store import S3Store

    endpoint = settings.endpoint
    where = endpoint if endpoint is None or settings.path_style else f"{bucket}.{endpoint}"
    given: dict[str, Any] = {
        "access_key_id": settings.access_key,
        "secret_access_key": settings.secret_key,
        "session_token": settings.session_token,
        "skip_signature": settings.anonymous or None,
        "endpoint": None if where is None else f"{settings.scheme}://{where}",
        "region": settings.region,
        "virtual_hosted_style_request": not settings.path_style if endpoint else None,
    }
    options: Any = {"allow_http": True, **({} if settings.proxy is None else {"proxy_url": settings.proxy})}
    config: Any = {name: value for name, value in given.items() if value is not None}

    def store(retries: RetryConfig, **more: Any) -> S3Store:
        whole: Any = {**config, **more}
        return S3Store(bucket, config=whole, client_options=options, retry_config=retries)

    def of_single(retries: RetryConfig) -> S3Store:
        # Newer ones remove a single file by a request for many, too, which not every store that speaks S3 has.
        try:
            return store(retries, disable_bulk_delete=True)
        except UnknownConfigurationKeyError:
            return store(retries)

    return ConditionalClient(of_single, bucket, store(ONCE))


@lru_cache(maxsize=16)
def google_client(bucket: str, *, anonymous: bool = False) -> ConditionalClient:
    """The client of a bucket of Google's; credentials are those of the environment.

    Args:
        bucket: its name.
        anonymous: whether it is for everybody, and nobody says who he is.
    """
    from obstore.store import GCSStore

    config: Any = {"skip_signature": True} if anonymous else {}
    return ConditionalClient(lambda retries: GCSStore(bucket, config=config, retry_config=retries), bucket)


@lru_cache(maxsize=16)
def azure_client(
    container: str,
    account: str,
    key: str | None = None,
    token: str | None = None,
    principal: tuple[str, str, str] | None = None,
) -> ConditionalClient:
    """The client of a container of Azure's.

    Without credentials it takes those of the environment, of the machine, or of a login by ``az login``, as pyarrow's.

    Args:
        container: its name.
        account: the storage account's.
        key: of the account; None: it is not by this that one is let in.
        token: a shared access signature; None: as above.
        principal: tenant, id and secret of an application; None: as above.
    """
    from obstore.store import AzureStore

    given: dict[str, Any] = {"account_name": account, "account_key": key, "sas_key": token}
    if principal is not None:
        given |= dict(zip(("tenant_id", "client_id", "client_secret"), principal, strict=True))
    elif key is None and token is None and _is_logged_in():
        given["use_azure_cli"] = True
    config: Any = {name: value for name, value in given.items() if value is not None}
    return ConditionalClient(lambda retries: AzureStore(container, config=config, retry_config=retries), container)


def _is_logged_in() -> bool:
    """Whether Azure's command line has a login, and the environment no credentials that go before it."""
    if any(name in os.environ for name in _AZURE_CREDENTIALS) or shutil.which("az") is None:
        return False
    folder = os.environ.get("AZURE_CONFIG_DIR") or Path.home() / ".azure"
    return (Path(folder) / "azureProfile.json").exists()
