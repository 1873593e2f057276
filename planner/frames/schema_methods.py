"""Adds the parts of ``DataFrame`` that describe a job's rows: schema, columns, types."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pyspark.sql.types import StructType

from ...runtime.support.notebook_html import facts_html, table_html
from ..inputs.inputs import Inputs


class SchemaMethods(ABC):
    """A frame with a schema."""

    @property
    @abstractmethod
    def schema(self) -> StructType:
        """The names and types of the columns: ``orders.schema["amount"].dataType``."""

    @abstractmethod
    def _read(self) -> Inputs:
        """The inputs that the rows are made of."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns: ``orders.columns``."""
        return self.schema.fieldNames()

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        """The names of the columns with their types as text: ``dict(orders.dtypes)["amount"]``."""
        return [(field.name, field.dataType.simpleString()) for field in self.schema.fields]

    @property
    def isStreaming(self) -> bool:
        """True if there is a live source; a job without one ends by itself: ``orders.isStreaming``."""
        return self._read().is_streaming

    def printSchema(self, level: int | None = None) -> None:
        """Prints the schema as a tree.

            orders.printSchema()

        Args:
            level: the depth; None: all levels.
        """
        print(self.schema.treeString(level) if level is not None else self.schema.treeString())

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{', '.join(f'{name}: {kind}' for name, kind in self.dtypes)}]"

    def _repr_html_(self) -> str:
        read = self._read()
        kinds = {"history": read.history is not None, "live": read.is_streaming}
        inputs = " and then ".join(name for name, is_there in kinds.items() if is_there)
        columns = [
            (field.name, field.dataType.simpleString(), "" if field.nullable else "not null")
            for field in self.schema.fields
        ]
        title = facts_html(type(self).__name__, [("reads", inputs or "nothing")])
        return title + table_html(("column", "type", ""), columns)


class KeySchemaMethods(ABC):
    """Rows by key."""

    @property
    @abstractmethod
    def _key_schema(self) -> StructType:
        """Names and types of the keys."""

    def __repr__(self) -> str:
        keys = ", ".join(f"{field.name}: {field.dataType.simpleString()}" for field in self._key_schema.fields)
        return f"{type(self).__name__}[{keys}]"

    def _repr_html_(self) -> str:
        keys = [(field.name, field.dataType.simpleString()) for field in self._key_schema.fields]
        return facts_html(type(self).__name__, []) + table_html(("key", "type"), keys)
