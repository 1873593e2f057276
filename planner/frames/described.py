"""What a frame of a job says of its rows, as a ``DataFrame`` does."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pyspark.sql.types import StructType

from ..inputs.inputs import Inputs


class Described(ABC):
    """Rows with a schema, made of a job's inputs."""

    @property
    @abstractmethod
    def schema(self) -> StructType:
        """Names and types of the columns."""

    @abstractmethod
    def _read(self) -> Inputs:
        """The inputs that the rows are made of."""

    @property
    def columns(self) -> list[str]:
        return self.schema.fieldNames()

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        return [(field.name, field.dataType.simpleString()) for field in self.schema.fields]

    @property
    def isStreaming(self) -> bool:
        """True if there is a live source, that is, if the job has no end of its own."""
        return self._read().is_streaming

    def printSchema(self, level: int | None = None) -> None:
        """Print the schema as a tree; ``level``: how deep, None: all of it."""
        print(self.schema.treeString(level) if level is not None else self.schema.treeString())

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{', '.join(f'{name}: {kind}' for name, kind in self.dtypes)}]"
