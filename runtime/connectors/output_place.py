"""Describes where the attempts of a job's tasks put their output, and in which form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import fs

from ..catalyst.types.arrow_types import arrow_schema
from .parquet_form import ParquetForm
from .partitioned_output import PartitionedOutput
from .staged_output import DroppedOutput, StagedOutput

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from .partition_paths import PartitionPaths


@dataclass(frozen=True)
class OutputPlace:
    """Where the attempts of a job's tasks put their output."""

    filesystem: fs.FileSystem
    #: None: nobody takes the rows.
    folder: str | None
    #: How rows are dealt to folders; None: they are not.
    partitions: PartitionPaths | None = None
    #: Of the files.
    form: ParquetForm = field(default_factory=ParquetForm)

    def open(self, attempt: str, schema: StructType) -> AttemptOutput:
        """The output of one attempt, whose name no other one has."""
        if self.folder is None:
            return DroppedOutput()
        place = (self.filesystem, self.folder)
        if self.partitions is None:
            return StagedOutput(*place, attempt, arrow_schema(schema), schema.json(), form=self.form)
        fields = [field for at, field in enumerate(schema.fields) if at not in self.partitions.columns]
        inner = type(schema)(fields)

        def one(name: str, folder: str, values: pa.RecordBatch) -> StagedOutput:
            return StagedOutput(*place, name, arrow_schema(inner), inner.json(), folder, values, self.form)

        return PartitionedOutput(attempt, self.partitions, one)


#: What the rows of an attempt are written to.
AttemptOutput = StagedOutput | PartitionedOutput | DroppedOutput
