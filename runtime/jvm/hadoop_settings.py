"""Reads Hadoop's settings of a store in the driver, for clients of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .gateway import java_texts, session_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Settings that may be in a credential provider instead.
_SECRETS = ("access.key", "secret.key", "session.token", "proxy.username", "proxy.password")


def hadoop_settings(prefix: str, bucket: str) -> dict[str, str]:
    """Settings without the prefix, those of the bucket alone before the general ones; none if no session runs here.

    Args:
        prefix: of the store's settings, with a dot at its end.
        bucket: the bucket.
    """
    spark = _session()
    if spark is None:
        return {}
    conf = session_state(spark).newHadoopConf()
    found = java_texts(spark, conf.getPropsWithPrefix(prefix))
    own = f"bucket.{bucket}."
    if conf.get("hadoop.security.credential.provider.path"):
        for name in (*_SECRETS, *(own + secret for secret in _SECRETS)):
            secret = conf.getPassword(prefix + name)
            if secret is not None:
                found[name] = "".join(secret)
    return {
        **{name: text for name, text in found.items() if not name.startswith("bucket.")},
        **{name.removeprefix(own): text for name, text in found.items() if name.startswith(own)},
    }


def _session() -> SparkSession | None:
    """A session of this process's driver: settings of a store are the same in all of its sessions."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    last = SparkSession._instantiatedSession
    return None if last is None or last.sparkContext._jsc is None else last
