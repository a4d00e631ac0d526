"""Texts or messages of equal length as rows of a matrix of bytes. Requires numpy, which devices do not have."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

ByteMatrix = npt.NDArray[np.uint8]


def differ_only_within(matrix: ByteMatrix, fields: Iterable[slice]) -> bool:
    """Whether every row equals the first outside these columns."""
    differs = (matrix != matrix[0]).any(axis=0)
    for field in fields:
        differs[field] = False
    return not differs.any()
