"""Makes the output of an operator's rows before it is sent: what follows the keyed stage, done by its own task."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ....errors import QueryError
from ...connectors.sinks.kafka.live_messages import LiveSender
from ...scan.output_rows import OutputRows
from ...scan.parquet_scan import NotTakenError


@dataclass(frozen=True)
class ComputedOutput:
    """Takes an operator's rows, and sends what is made of them."""

    output: OutputRows
    sender: LiveSender

    def write(self, rows: pa.RecordBatch) -> None:
        """Send what rows are made into.

        Raises:
            QueryError: a row cannot be made; Spark would fail, too, but for times outside of the years 1 to 9999.
        """
        try:
            made = self.output.of(rows)
        except NotTakenError as error:
            raise QueryError(
                f"what follows the keyed stage cannot be computed of a row: {error}; use trigger(processingTime=…) to"
                " have Spark compute it, or see which operation behind the stage fails"
            ) from error
        if made.num_rows:
            self.sender.write(made)
