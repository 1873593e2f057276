"""The base of records that nobody changes."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A record whose fields stay as they were given."""

    model_config = ConfigDict(frozen=True)
