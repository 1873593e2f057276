"""Sums of decimals that Spark computes as whole numbers of 64 bits.

Spark adds decimals of more than eight digits as objects, and stores each sum as bytes that it makes anew for each row.
A sum of unscaled values takes one addition, eight bytes in the shuffle, and hands no object over to Python.  A sum that
needs more than 64 bits is found, and Spark then adds decimals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....errors import WideSumError
from ....state.codec.byte_arrays import null_mask
from ...scan.decimal_words import of_unscaled


@dataclass(frozen=True)
class UnscaledSum:
    """One of them."""

    #: Its column in the prepared rows.
    column: str
    #: The column that counts its values.
    count: str
    #: The sum's own type.
    type: pa.Decimal128Type
    #: The aggregate that it is for, as the user wrote it.
    text: str = ""


@dataclass(frozen=True)
class UnscaledSums:
    """Makes decimals of such sums, as if Spark had added decimals.

    Args:
        sums: the sums.
    """

    sums: tuple[UnscaledSum, ...]

    def restored(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same rows with decimals.

        Raises:
            WideSumError: a sum is not known, as it needs more than 64 bits.
        """
        for batch in batches:
            yield self._restored(batch)

    def _restored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for one in self.sums:
            place = batch.schema.get_field_index(one.column)
            field = pa.field(one.column, one.type)
            batch = batch.set_column(place, field, _decimals(batch.column(place), batch.column(one.count), one))
        return batch


def _decimals(words: pa.Array, counts: pa.Array, one: UnscaledSum) -> pa.Array:
    nulls = null_mask(words)
    numbers = (words if nulls is None else pc.fill_null(words, 0)).to_numpy(zero_copy_only=False)
    if nulls is not None and (nulls & (counts.to_numpy(zero_copy_only=False) > 0)).any():
        raise WideSumError(f"{one.text or one.column} needs more than 64 bits; Spark adds decimals instead")
    if one.type.precision < 19 and len(numbers):
        bound = 10**one.type.precision
        if int(numbers.max()) >= bound or int(numbers.min()) <= -bound:
            what = f"{one.text or one.column} is too large for {one.type}"
            raise WideSumError(f"{what}; Spark adds decimals, and says what becomes of it")
    return of_unscaled(np.asarray(numbers), one.type, nulls)
