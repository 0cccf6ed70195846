"""What tells whether a run goes on with the data that it began with."""

import base64
import hashlib
import json
import zlib
from typing import NamedTuple

import numpy as np
import scipy.sparse

from bat_tf.data.texts import as_texts


class Fingerprint(NamedTuple):
    """A digest of texts with their targets and weights, in their order.

    Args:
        rows: how many texts.
        digest: of all of them.
        marks: two bytes a text, base64, which tell where others begin.

    Example:
        >>> now = Fingerprint.of((["a lamp", "oil"], [["home"], ["energy"]]))
        >>> then = Fingerprint.of((["a lamp", "gas"], [["home"], ["energy"]]))
        >>> now.difference(then)
        'text 2 is another'
    """

    rows: int
    digest: str
    marks: str

    @classmethod
    def of(cls, data):
        """The fingerprint of a `TextDataset`, `Texts`, or (texts, targets)."""
        texts = as_texts(*data) if type(data) is tuple else as_texts(data)
        digest, marks = hashlib.sha256(), []
        columns = [column for column in texts if column is not None]
        for row in zip(*columns, strict=True):
            line = json.dumps(row, default=_plain).encode("utf-8")
            digest.update(line + b"\n")
            marks.append(zlib.crc32(line) & 0xFFFF)
        marks = base64.b64encode(np.asarray(marks, "<u2").tobytes()).decode()
        return cls(len(texts.texts), digest.hexdigest(), marks)

    def difference(self, then):
        """How this is another one than `then`, in words; "" if it is not."""
        if self.digest == then.digest:
            return ""
        marks = [
            np.frombuffer(base64.b64decode(one.marks), "<u2") for one in (self, then)
        ]
        both = min(map(len, marks))
        other = np.flatnonzero(marks[0][:both] != marks[1][:both])
        first = f"text {other[0] + 1} is another" if len(other) else ""
        if self.rows == then.rows:
            return first or "some text is another"
        counts = f"{then.rows:,} texts then, {self.rows:,} now"
        return f"{counts}, {first or f'the first {both:,} alike'}"


def _plain(value):
    """What JSON does not know of a row: numbers of NumPy, and sparse rows."""
    if scipy.sparse.issparse(value):
        value = value.tocoo()
        return [value.coords[-1].tolist(), value.data.tolist()]
    return np.asarray(value).tolist()
