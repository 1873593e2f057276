"""Credentials inside locations: found, so that options with them are refused, and hidden in texts of Spark's.

A location is printed, logged and stored wherever a job is described, so none of ours may hold a secret; those of the
sources are Spark's, and what is shown of them goes through :func:`redacted`.
"""

from __future__ import annotations

import re

#: What stands for a secret, as in Spark's own texts.
_HIDDEN = "*********(redacted)"
#: ``user:password@`` of a URI; ``container@account``, ``user@host`` and ``host:8020/a@b`` hold no secret.
_USER = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^\s/?#@:,]*:)(?!\d+/)(?P<secret>[^\s?#@]+)(?=@)", re.IGNORECASE)
#: A parameter behind ``?``, ``&`` or (of jdbc) ``;`` whose name says that it is a secret.
_PARAMETER = re.compile(
    r"(?P<before>[?&;](?P<name>(?:[a-z0-9_.-]*[_.-])?(?:sig|signature|pwd|[a-z0-9]*(?:token|password|passwd|secret"
    r"|credential)|access[_.-]?key)[a-z0-9_.-]*)=)(?P<secret>[^\s&;#,\]]+)",
    re.IGNORECASE,
)


def credentials_in(location: str) -> str | None:
    """The kind of credentials that a location holds, in words without them; None: it holds none."""
    if _USER.search(location):
        return "credentials before the @"
    found = _PARAMETER.search(location) if "://" in location else None
    return None if found is None else f"a secret in its parameter {found['name']}"


def redacted(text: str) -> str:
    """A text with locations in it, without the credentials that they hold."""
    for pattern in (_USER, _PARAMETER):
        text = pattern.sub(lambda found: found["before"] + _HIDDEN, text)
    return text
