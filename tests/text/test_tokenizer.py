"""TextTokenizer: offsets, batches, padding, learning, saving and export."""

import functools
import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bat_tf.text import TextTokenizer

LINES = [
    "Blue water bottle, 500ml!",
    "Apple's USB-C cable: 3.5 m",
    "新品 東京タワー　ガラスのＣＵＰ",
    "Café cafe\u0301 straße ΣΟΦΟΣ İx",
    "👩\u200d👩\u200d👧 👍🏽 a\u200bb \ufeffc co\u00adop",
    "한국어 नमस्ते ภาษา",
    "",
    "  \t\n",
]
KINDS = ["characters", "words", "wordpiece"]
TEXTS = st.text(max_size=25) | st.text(
    alphabet=st.sampled_from(sorted(set("".join(LINES)))), max_size=25
)
KEYS = ["token_ids", "starts", "ends", "word_ids"]


@functools.cache
def tokenizer_of(kind, split="unicode", features=()):
    tokenizer = TextTokenizer(kind, vocabulary_size=300, split=split, features=features)
    tokenizer.adapt(LINES)
    return tokenizer


@functools.cache
def traced(kind, split):
    signature = [tf.TensorSpec([None], tf.string)]
    tokenizer = tokenizer_of(kind, split, ("case", "suffix2"))
    return tf.function(tokenizer.tokenize, input_signature=signature, autograph=False)


def tokenize(kind, texts, split="unicode"):
    tokens = traced(kind, split)(tf.constant([text.encode() for text in texts]))
    return {key: values.to_list() for key, values in tokens.items()}


# === Offsets ===


@pytest.mark.parametrize("split", ["unicode", "whitespace"])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=12))
def test_offsets_are_in_order_inside_the_text(kind, split, texts):
    tokens = tokenize(kind, texts, split)
    for text, starts, ends, words in zip(
        texts, tokens["starts"], tokens["ends"], tokens["word_ids"], strict=True
    ):
        assert all(start < end for start, end in zip(starts, ends, strict=True))
        assert starts == sorted(starts)
        assert ends == sorted(ends)
        assert not ends or ends[-1] <= len(text)
        # Words are numbered from 0, none left out.
        assert words == sorted(words)
        assert sorted(set(words)) == list(range(len(set(words))))
        if kind == "characters":
            assert starts == list(range(len(text)))
        if kind == "words":
            assert words == list(range(len(words)))
            surfaces = [text[a:b] for a, b in zip(starts, ends, strict=True)]
            assert split == "unicode" or surfaces == text.split()


def folded(surface, kind):
    """How a surface stands in the vocabulary, in Python's words."""
    half = "".join(
        chr(ord(letter) - 0xFEE0) if "\uff01" <= letter <= "\uff5e" else letter
        for letter in surface
    )
    return half.lower() if kind == "words" else "".join(c.lower() for c in half)


@pytest.mark.parametrize("kind", ["characters", "words"])
@settings(max_examples=12, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=12))
def test_every_token_is_what_the_text_says_there(kind, texts):
    vocabulary = tokenizer_of(kind).vocabulary
    known = set(vocabulary[2:])
    tokens = tokenize(kind, texts)
    for text, ids, starts, ends in zip(
        texts, tokens["token_ids"], tokens["starts"], tokens["ends"], strict=True
    ):
        for token, start, end in zip(ids, starts, ends, strict=True):
            key = folded(text[start:end], kind)
            assert vocabulary[token] == (key if key in known else "[UNK]")


def test_wordpiece_is_what_the_text_says_there():
    vocabulary = tokenizer_of("wordpiece").vocabulary
    text = "İx Ｃａｆé cafe\u0301 STRASSE 東京"
    tokens = tokenize("wordpiece", [text])
    pieces = [vocabulary[token].removeprefix("##") for token in tokens["token_ids"][0]]
    places = zip(tokens["starts"][0], tokens["ends"][0], strict=True)
    spoken = [text[start:end].lower().replace("é", "e") for start, end in places]
    assert "[UNK]" in pieces  # full-width letters, which BERT does not fold
    for piece, surface in zip(pieces, spoken, strict=True):
        assert piece in ("[UNK]", surface, surface.replace("i\u0307", "i"))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12, deadline=None)
@given(raw=st.lists(st.binary(max_size=20), min_size=1, max_size=12))
def test_broken_utf8_gives_offsets_into_what_python_decodes(kind, raw):
    tokens = traced(kind, "unicode")(tf.constant(raw))
    texts = [text.decode("utf-8", "replace") for text in raw]
    decoded = tokenize(kind, texts)
    assert {key: values.to_list() for key, values in tokens.items()} == decoded


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=6))
def test_a_batch_is_its_texts_one_by_one(kind, texts):
    together = tokenize(kind, texts)
    for row, text in enumerate(texts):
        alone = tokenize(kind, [text])
        assert {key: rows[row] for key, rows in together.items()} == {
            key: rows[0] for key, rows in alone.items()
        }


@pytest.mark.parametrize("kind", KINDS)
def test_eager_is_graph(kind):
    tokenizer = tokenizer_of(kind, "unicode", ("case", "suffix2"))
    eager = tokenizer(LINES)
    dataset = tf.data.Dataset.from_tensor_slices(LINES).batch(len(LINES))
    mapped = next(iter(dataset.map(tokenizer)))
    for other in (mapped, tokenizer(np.array(LINES))):
        assert other.keys() == eager.keys()
        for key in eager:
            np.testing.assert_array_equal(other[key], eager[key])


def test_one_megabyte_in_one_string():
    text = "hello world, 東京 café " * 40_000
    assert len(text.encode()) > 1_000_000
    for kind in KINDS:
        tokens = tokenize(kind, [text, ""])
        assert text[tokens["starts"][0][-1] : tokens["ends"][0][-1]].strip() in "café"
        assert tokens["token_ids"][1] == []


# === Padding ===


def test_pack_pads_and_marks():
    tokenizer = TextTokenizer("words", ["a", "b"], features=("case",))
    packed = tokenizer(["a b c", "", "B"])
    assert {key: values.numpy().tolist() for key, values in packed.items()} == {
        "token_ids": [[2, 3, 1], [0, 0, 0], [3, 0, 0]],
        "padding_mask": [[True] * 3, [False] * 3, [True, False, False]],
        "starts": [[0, 2, 4], [0, 0, 0], [0, 0, 0]],
        "ends": [[1, 3, 5], [0, 0, 0], [1, 0, 0]],
        "word_ids": [[0, 1, 2], [-1] * 3, [0, -1, -1]],
        "case": [[1, 1, 1], [0, 0, 0], [4, 0, 0]],
    }
    assert {key: values.dtype.name for key, values in packed.items()} == {
        **dict.fromkeys([*KEYS, "case"], "int32"),
        "padding_mask": "bool",
    }


def test_pack_puts_special_tokens_around_pieces():
    vocabulary = ["a", "[SEP]", "[UNK]", "[CLS]", "b", "[PAD]"]
    tokenizer = TextTokenizer("wordpiece", vocabulary, features=("case",))
    assert tokenizer.num_special == 2
    packed = tokenizer(["a b", ""])
    assert {key: values.numpy().tolist() for key, values in packed.items()} == {
        "token_ids": [[3, 0, 4, 1], [3, 1, 5, 5]],
        "padding_mask": [[True] * 4, [True, True, False, False]],
        "starts": [[0, 0, 2, 0], [0] * 4],
        "ends": [[0, 1, 3, 0], [0] * 4],
        "word_ids": [[-1, 0, 1, -1], [-1] * 4],
        "case": [[0, 1, 1, 0], [0] * 4],
    }


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_to_read_still_has_a_column(kind):
    tokenizer = tokenizer_of(kind)
    columns = max(1, tokenizer.num_special)
    assert tokenizer(["", ""])["token_ids"].shape == [2, columns]
    assert tokenizer(tf.constant([], tf.string))["padding_mask"].shape == [0, 1]
    assert not tokenizer.tokenize(["", ""])["token_ids"].flat_values.shape[0]


def test_pack_to_a_length():
    tokenizer = tokenizer_of("words")
    tokens = tokenizer.tokenize(["a b c", ""])
    assert tokenizer.pack(tokens, length=5)["token_ids"].shape == [2, 5]

    @tf.function(autograph=False)
    def graph(texts):
        return tokenizer.pack(tokenizer.tokenize(texts), 2)

    assert graph(tf.constant(["a"]))["starts"].shape == [1, 2]
    for pack in (
        lambda: tokenizer.pack(tokens, 2),
        lambda: graph(tf.constant(["a b c"])),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"windows\.split"):
            pack()
    with pytest.raises(ValueError, match="`length` must be an integer >= 1"):
        tokenizer.pack(tokens, length=0)


# === Learning ===


def test_adapt_keeps_the_most_frequent():
    tokenizer = TextTokenizer("words", vocabulary_size=5)
    tokenizer.adapt(text for text in ["b a C", "c Ａ b", "é"])
    assert tokenizer.vocabulary == ["[PAD]", "[UNK]", "a", "b", "c"]
    tokenizer = TextTokenizer("words", min_count=2, lowercase=False)
    tokenizer.adapt(["b a C", "c Ａ b", "é"])
    assert tokenizer.vocabulary == ["[PAD]", "[UNK]", "b"]


def test_adapt_of_characters_keeps_blanks():
    tokenizer = TextTokenizer("characters")
    tokenizer.adapt(tf.data.Dataset.from_tensor_slices(["Aa a", "京\n"]).batch(2))
    assert tokenizer.vocabulary == ["[PAD]", "[UNK]", "a", "\n", " ", "京"]


def test_texts_cannot_spell_special_tokens():
    tokenizer = TextTokenizer("words", split="whitespace", lowercase=False)
    tokenizer.adapt(["[PAD] [UNK] a"])
    assert tokenizer.vocabulary == ["[PAD]", "[UNK]", "a"]
    assert tokenizer.tokenize(["[PAD] a"])["token_ids"].to_list() == [[1, 2]]


def test_a_vocabulary_is_taken_with_and_without_special_tokens():
    for vocabulary in (["a", "b"], ["[PAD]", "[UNK]", "a", "b"]):
        tokenizer = TextTokenizer("words", vocabulary)
        assert tokenizer.vocabulary == ["[PAD]", "[UNK]", "a", "b"]


def test_feature_sizes():
    tokenizer = TextTokenizer("words", ["a"], features=("case", "prefix1", "suffix4"))
    assert tokenizer.feature_sizes == {"case": 10, "prefix1": 513, "suffix4": 8193}


# === Saving ===


def assert_same(one, other):
    assert one.vocabulary == other.vocabulary
    mine, theirs = one(LINES), other(LINES)
    assert mine.keys() == theirs.keys()
    for key in mine:
        np.testing.assert_array_equal(mine[key], theirs[key])


@pytest.mark.parametrize("kind", KINDS)
def test_config_and_assets(kind, tmp_path):
    tokenizer = TextTokenizer(
        kind, vocabulary_size=200, min_count=2, lowercase=False, split="whitespace",
        features=("case",), name="reader",
    )  # fmt: skip
    tokenizer.adapt(LINES * 2)
    config = json.loads(json.dumps(tokenizer.get_config()))
    again = TextTokenizer.from_config(config)
    assert again.get_config() == config
    assert again.vocabulary == []
    tokenizer.save_assets(tmp_path)
    again.load_assets(tmp_path)
    assert_same(tokenizer, again)


def test_odd_tokens_survive_saving(tmp_path):
    tokenizer = TextTokenizer("characters", ["\n", " ", '"', "\x00", "\u2028", "𠮷"])
    tokenizer.save_assets(tmp_path)
    again = TextTokenizer("characters")
    again.load_assets(tmp_path)
    assert again.vocabulary == tokenizer.vocabulary


@pytest.mark.parametrize("kind", KINDS)
def test_model_with_a_tokenizer_saves(kind, tmp_path):
    tokenizer = tokenizer_of(kind, "unicode", ("case",))
    texts = keras.Input((), dtype="string")
    tokens = tokenizer(texts)
    states = keras.layers.Embedding(len(tokenizer.vocabulary), 4)(tokens["token_ids"])
    model = keras.Model(texts, {"states": states, **tokens})
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    expected = model(tf.constant(LINES))
    found = again(tf.constant(LINES))
    for key in expected:
        np.testing.assert_array_equal(found[key], expected[key])


class Reader(keras.Model):
    """A subclassed model, which Keras exports by another way than a functional one."""

    def __init__(self, *tokenizers):
        super().__init__()
        self.tokenizers = tokenizers

    def call(self, texts):
        outputs = {}
        for tokenizer in self.tokenizers:
            for key, values in tokenizer(texts).items():
                outputs[f"{tokenizer.kind}_{key}"] = values
        return outputs


RELOAD = """
import json, pathlib, sys
import tensorflow as tf
folder = pathlib.Path(sys.argv[1])
model = tf.saved_model.load(folder / "model")
lines = json.loads((folder / "lines.json").read_text())
outputs = model.signatures["serving_default"](tf.constant(lines))
found = {key: value.numpy().tolist() for key, value in outputs.items()}
(folder / "found.json").write_text(json.dumps(found))
assert not {"bat_tf", "tensorflow_text"} & set(sys.modules)
import bat_tf.text
bat_tf.text.TextTokenizer("words", ["a"])(["a"])
assert "tensorflow_text" not in sys.modules
"""


def test_characters_and_words_need_core_tensorflow_alone(tmp_path):
    kinds = ("characters", "words")
    model = Reader(
        *(tokenizer_of(kind, "unicode", ("case", "suffix2")) for kind in kinds)
    )
    expected = model(tf.constant(LINES))
    signature = [tf.TensorSpec([None], tf.string, name="text")]
    model.export(tmp_path / "model", input_signature=signature, verbose=False)
    (tmp_path / "lines.json").write_text(json.dumps(LINES))
    done = subprocess.run(
        [sys.executable, "-c", RELOAD, tmp_path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found == {key: value.numpy().tolist() for key, value in expected.items()}


def test_saved_model_of_pieces(tmp_path):
    module = tf.Module()
    module.tokenizer = tokenizer_of("wordpiece")
    signature = [tf.TensorSpec([None], tf.string)]
    module.run = tf.function(module.tokenizer.call, signature, autograph=False)
    tf.saved_model.save(module, tmp_path)
    again = tf.saved_model.load(tmp_path)
    expected = module.tokenizer(LINES)
    found = again.run(tf.constant(LINES))
    for key in expected:
        np.testing.assert_array_equal(found[key], expected[key])


# === Errors ===


@pytest.mark.parametrize("kind", KINDS)
def test_calling_before_adapt(kind):
    tokenizer = TextTokenizer(kind)
    for use in (tokenizer, tokenizer.tokenize):
        with pytest.raises(ValueError, match="no vocabulary yet"):
            use(["a"])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"kind": "word"}, ValueError, "`kind` must be one of 'characters', 'words'"),
        ({"split": "blank"}, ValueError, "`split` must be one of 'unicode'"),
        ({"features": ["shape"]}, ValueError, "`features` must be one of 'case'"),
        (
            {"vocabulary_size": 2},
            ValueError,
            "`vocabulary_size` must be an integer >= 3",
        ),
        ({"min_count": 0}, ValueError, "`min_count` must be an integer >= 1"),
        ({"vocabulary": []}, ValueError, "`vocabulary` must be a list of tokens"),
        ({"vocabulary": ["a", "a"]}, ValueError, "'a' 2 times"),
        ({"vocabulary": "abc"}, TypeError, "`vocabulary` must be a list of str"),
        (
            {"kind": "wordpiece", "vocabulary": ["[PAD]", "[UNK]", "a", "b", "c"]},
            ValueError,
            r"5 tokens without \[CLS\], \[SEP\]",
        ),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        TextTokenizer(**arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_adapt_on_nothing(kind):
    with pytest.raises(ValueError, match="0 texts without a token"):
        TextTokenizer(kind).adapt([])


def test_pieces_without_tensorflow_text(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    with pytest.raises(
        ImportError, match='pip install "tensorflow-text>=2.21.1,<2.22"'
    ):
        TextTokenizer("wordpiece", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"])
