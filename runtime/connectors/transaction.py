"""What a sink's transaction is: the staged output that becomes visible with one checkpoint."""

from __future__ import annotations

import hashlib

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
    #: What tells it from every other one, as an id may come again when a job is put back to an older checkpoint; the
    #: same when its files are staged again in another form.  Empty: written before this was recorded.
    token: str = ""

    @property
    def unique(self) -> str:
        """The token, or what stands for it: the names of attempts' files do not come again either."""
        return self.token or hashlib.sha256("/".join(file.name for file in self.files).encode()).hexdigest()[:32]
