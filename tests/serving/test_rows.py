import io
import sys

import pytest

from bat_tf._internal.validation import DataError
from bat_tf.serving import rows
from bat_tf.serving.rows import ShardReader


def test_shards_are_read_in_any_order(tmp_path, monkeypatch):
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{n}\n" for n in range(1, 11)))
    opened = []

    def read_lines(path, real=rows.read_lines):
        opened.append(path)
        return real(path)

    monkeypatch.setattr(rows, "read_lines", read_lines)
    reader = ShardReader(path, 3)
    for shard in (0, 2, 3):
        numbers = [number for number, _ in reader.read(shard)]
        assert numbers == list(range(3 * shard + 1, min(3 * shard + 3, 10) + 1))
    assert len(opened) == 1
    assert reader.read(1) == [(4, b"4"), (5, b"5"), (6, b"6")]
    assert reader.read(9) == [] and len(opened) == 2


def test_texts_of_files_and_of_standard_input(tmp_path, monkeypatch):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "one"}\n\n{"text": "two"}\n{"title": "three"}\n')
    texts = rows.read_texts(path)
    assert [next(texts), next(texts)] == ["one", "two"]
    with pytest.raises(DataError, match="in.jsonl, line 4: expected"):
        next(texts)
    stdin = io.TextIOWrapper(io.BytesIO(b"one\r\n\ncaf\xe9"))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert list(rows.read_texts()) == ["one", "", "caf\ufffd"]
