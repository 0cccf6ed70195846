import io
import json
import sys

import pytest
import served

from bat_tf._validation import DataError
from bat_tf.serving import bulk_rows
from bat_tf.serving.bulk_rows import ShardReader, answers


def test_shards_are_read_in_any_order(tmp_path, monkeypatch):
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{n}\n" for n in range(1, 11)))
    opened = []

    def read_lines(path, real=bulk_rows.read_lines):
        opened.append(path)
        return real(path)

    monkeypatch.setattr(bulk_rows, "read_lines", read_lines)
    reader = ShardReader(path, 3)
    for shard in (0, 2, 3):
        numbers = [number for number, _ in reader.read(shard)]
        assert numbers == list(range(3 * shard + 1, min(3 * shard + 3, 10) + 1))
    assert len(opened) == 1
    assert reader.read(1) == [(4, b"4"), (5, b"5"), (6, b"6")]
    assert reader.read(9) == [] and len(opened) == 2


def test_the_best_labels_of_models_that_can():
    model = served.model("news")
    texts = [text for text, _ in served.NEWS]
    style, ask = answers(model, top_k=2)
    assert [len(found) for found in ask(texts)] == [2, 2, 2]
    assert ask(texts) == model.label(texts, top_k=2)
    assert json.loads(style.json(texts[0], ask(texts)[0]))["labels"]
    with pytest.raises(ValueError, match="`top_k` must be an integer >= 1"):
        answers(model, top_k=0)


def test_the_best_labels_of_models_that_cannot():
    class Exported:
        def label(self, texts, batch_size=32):
            return [[("energy", 0.9)] for _ in texts]

    class Tagger:
        def tag(self, texts, batch_size=32):
            return [[] for _ in texts]

    assert answers(Exported())[1](["oil"]) == [[("energy", 0.9)]]
    with pytest.raises(ValueError, match="only the labels above its threshold"):
        answers(Exported(), top_k=2)
    with pytest.raises(ValueError, match="marks keywords"):
        answers(Tagger(), top_k=2)


def test_texts_of_files_and_of_standard_input(tmp_path, monkeypatch):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "one"}\n\n{"text": "two"}\n{"title": "three"}\n')
    texts = bulk_rows.read_texts(path)
    assert [next(texts), next(texts)] == ["one", "two"]
    with pytest.raises(DataError, match="in.jsonl, line 4: expected"):
        next(texts)
    stdin = io.TextIOWrapper(io.BytesIO(b"one\r\n\ncaf\xe9"))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert list(bulk_rows.read_texts()) == ["one", "", "caf\ufffd"]
