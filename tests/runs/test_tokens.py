"""Which tokens fit texts: characters where words would cut what is marked."""

import pytest

from bat_tf.data import from_rows, read
from bat_tf.runs import baseline, tokens
from bat_tf.runs.train import prepare

CHARACTERS = {"tokenizer": "characters"}


@pytest.mark.parametrize(
    ("text", "span", "expected"),
    [
        ("A lamp by Zorv", (10, 14, "brand"), {}),
        ("Wir fahren nach Köln-Deutz", (16, 20, "LOC"), {}),
        ("서울에 비가 내린다", (0, 2, "LOC"), CHARACTERS),  # 에 is a particle
        ("กรุงเทพมหานครเป็นเมืองหลวง", (0, 13, "LOC"), CHARACTERS),
        ("東京タワーは高い", (0, 5, "LOC"), CHARACTERS),
    ],
)
def test_spans_have_their_borders_between_tokens(text, span, expected):
    assert tokens.that_fit(from_rows([(text, [span])] * 5)) == expected


def test_labels_need_characters_where_no_blanks_are():
    assert tokens.that_fit(from_rows([("东京很大", "x"), ("北京", "y")])) == CHARACTERS
    assert tokens.that_fit(from_rows([("the rain", "x"), ("gas", "y")])) == {}


def test_a_file_of_tokens_keeps_them(tmp_path):
    path = tmp_path / "train.conll"
    path.write_text("".join(f"EU{n} B-ORG\n's O\n\n" for n in range(5)))
    data = read(path)
    assert tokens.that_fit(data) == tokens.WHITESPACE
    assert tokens.that_fit(data.split(0.5, seed=0)[0]) == tokens.WHITESPACE
    settings, _ = prepare(**{"data.train": str(path), "encoder.backbone": "none"})
    assert settings.text.settings == {"split": "whitespace"}
    beside = baseline._for_spans(settings, data)
    assert beside.text == settings.text
