"""What a sink's transaction is: the staged output that becomes visible with one checkpoint."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from .staged_form import StagedForm
from .staging import StagedFile


class SinkTransaction(BaseModel):
    """Output that becomes visible when its checkpoint is complete.  ``id`` is stable across re-deliveries."""

    model_config = ConfigDict(frozen=True)

    id: int
    files: tuple[StagedFile, ...] = ()
    #: How to read them; None: written before this was recorded.
    form: StagedForm | None = None
