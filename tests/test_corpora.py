import functools
import gzip
import io
import json
import tarfile
import zipfile

import pytest

from bat_tf._validation import DataError
from bat_tf.data import CORPORA, read

# Examples, and spans or labels, of each part, as each SOURCE.txt has them. Where spans
# overlap (scienceie2017) the shorter ones are left out, and listed.
SIZES = {
    "conll2003": [(14041, 23499), (3250, 5942), (3453, 5648)],
    "zh_ecommerce_ner/ecommerce": [(6000, 29397), (998, 4941), (1000, 4866)],
    "zh_ecommerce_ner/phantom": [(3989, 12110), (500, 1540), (498, 1567)],
    "ja_wikipedia_ner": [(4274, 10487), (534, 1404), (535, 1294)],
    "scienceie2017": [(350, 6732), (50, 1162), (100, 2052)],
    "inspec_keyphrase": [(1000, 9678), (500, 4553), (500, 4835)],
    "reuters21578": [(7769, 9584), (3019, 3744)],
    "goemotions": [(43410, 51103), (5426, 6380), (5427, 6329)],
    "fasttext_cooking": [(12404, 28604), (3000, 6938)],
}

load = functools.cache(read)


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("BAT_TF_DATA", str(tmp_path))
    return tmp_path


def test_every_corpus_is_checked():
    assert set(SIZES) == set(CORPORA)


@pytest.mark.parametrize("name", SIZES)
def test_corpora_have_the_published_sizes(data_folder, name):
    found = []
    for split in CORPORA[name].splits:
        data = load(name, split)
        assert data.name == f"{name}/{split}"
        found.append((len(data), data.counts().total() + len(data.skipped)))
    assert found == SIZES[name]


def test_conll2003_has_the_published_kinds(data_folder):
    data = load("conll2003", "test")
    assert data.counts() == {"LOC": 1668, "MISC": 702, "ORG": 1661, "PER": 1617}
    assert data[0].text == "SOCCER - JAPAN GET LUCKY WIN , CHINA IN SURPRISE DEFEAT ."
    assert sum(len(text.split(" ")) for text in data.texts) == 46435


def test_conll2003_joins_the_sentences_of_a_document(data_folder):
    whole = load("conll2003", "test", documents="joined")
    assert len(whole) == 231 and whole.counts().total() == 5648
    parts = load("conll2003", "test", documents="joined", max_words=128)
    assert max(len(text.split()) for text in parts.texts) <= 128
    assert 231 < len(parts) < 3453 and parts.counts() == whole.counts()


def test_phantom_counts_characters_with_their_blanks(data_folder):
    data = load("zh_ecommerce_ner/phantom", "test")
    assert data.counts() == {"product": 1345, "brand": 222}
    assert sum(len(text) for text in data.texts) == 14680
    assert sum(letter.isspace() for text in data.texts for letter in text) == 630


def test_ecommerce_keeps_blank_characters(data_folder):
    texts = load("zh_ecommerce_ner/ecommerce", "train").texts
    assert sum(len(text) for text in texts) == 174562
    assert sum(text.count("\u3000") for text in texts) == 6


def test_ja_wikipedia_parts_do_not_share_a_sentence(data_folder):
    parts = [load("ja_wikipedia_ner", split) for split in ("train", "valid", "test")]
    assert sum(len(part) for part in parts) == 5343
    assert sum(part.counts()["製品名"] for part in parts) == 1215
    assert parts[0].texts == read("ja_wikipedia_ner").texts


def test_scienceie_lists_the_spans_it_drops(data_folder):
    data = load("scienceie2017", "valid")
    assert len(data.skipped) == 101
    assert "dropped, it overlaps a longer one" in str(data.skipped[0])


def test_inspec_marks_whole_words_longest_first(own_folder):
    files = {
        "1.abstr": b"Fuzzy logic control\r\nFuzzy\n\tlogic, not fuzzy logics or C++.",
        "1.uncontr": b"fuzzy logic control; fuzzy logic; fuzzy\n\tlogic sets; C++\r\n",
    }
    inner, folder = io.BytesIO(), own_folder / "inspec_keyphrase"
    folder.mkdir()
    with zipfile.ZipFile(inner, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    with tarfile.open(folder / "Hulth2003.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("Hulth2003/Test.zip")
        member.size = len(inner.getvalue())
        archive.addfile(member, io.BytesIO(inner.getvalue()))
    (example,) = read("inspec_keyphrase", "test")
    found = [example.text[span.start : span.end] for span in example.spans]
    assert found == ["Fuzzy logic control", "Fuzzy logic", "C++"]
    assert example.id == "1"


def test_ja_wikipedia_shape(own_folder):
    rows = [
        {
            "curid": str(n),
            "text": "東京へ",
            "entities": [{"span": [0, 2], "type": "地名"}],
        }
        for n in range(20)
    ]
    folder = own_folder / "ja_wikipedia_ner"
    folder.mkdir()
    (folder / "ner.json.gz").write_bytes(gzip.compress(json.dumps(rows).encode()))
    parts = [read("ja_wikipedia_ner", split) for split in ("train", "valid", "test")]
    assert [len(part) for part in parts] == [16, 2, 2]
    assert len({example.id for part in parts for example in part}) == 20
    assert parts[0][0].spans == ((0, 2, "地名"),)


def test_goemotions_has_the_published_labels(data_folder):
    counts = load("goemotions", "train").counts()
    assert len(counts) == 28 and min(counts.items(), key=lambda c: c[1]) == (
        "grief",
        77,
    )
    example = load("goemotions", "valid")[1]
    assert example.text.startswith("You know the answer man")
    assert example.labels == ("approval", "neutral") and example.id == "ee84bjg"


def test_goemotions_names_the_line_of_a_bad_row(own_folder):
    folder = own_folder / "goemotions"
    folder.mkdir()
    (folder / "labels.txt").write_text("joy\nneutral\n")
    rows = b'a "b\t0,1\tx1\nb\t2\tx2\nc\t1\n\xff\t1\tx4\ne\t\tx5\nf\t1\tx6\n'
    (folder / "train.tsv.gz").write_bytes(gzip.compress(rows))
    with pytest.raises(DataError, match="line 2: expected numbers .* from 0 to 1.*'2'"):
        read("goemotions")
    data = read("goemotions", on_error="skip")
    assert data.texts == ['a "b', "f"] and data[0].labels == ("joy", "neutral")
    assert [error.line for error in data.skipped] == [2, 3, 4, 5]


def test_cooking_has_the_published_tags(data_folder):
    data = load("fasttext_cooking", "train") + load("fasttext_cooking", "valid")
    assert len(data) == 15404 and len(data.counts()) == 736
    assert data[0].text == "How much does potato starch affect a cheese sauce recipe?"
    assert data[0].labels == ("sauce", "cheese")


def write_cooking(folder, content, name="cooking.stackexchange.txt"):
    path = folder / "fasttext_cooking" / "cooking.stackexchange.tar.gz"
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))


def test_cooking_names_the_line_of_a_bad_row(own_folder):
    good = b"__label__a __label__b-c Why __label__ me?\n"
    write_cooking(own_folder, good + b"no tag\n__label__a\n" + good)
    with pytest.raises(DataError, match="txt, line 2: expected __label__tag.*'no tag'"):
        read("fasttext_cooking", "valid")
    data = read("fasttext_cooking", "valid", on_error="skip")
    assert data.texts == ["Why __label__ me?"] * 2
    assert data[0].labels == ("a", "b-c")
    assert [error.line for error in data.skipped] == [2, 3]
    write_cooking(own_folder, good, "other.txt")
    with pytest.raises(DataError, match="does not hold cooking.stackexchange.txt"):
        read("fasttext_cooking")


def test_a_part_that_a_corpus_lacks_is_a_sentence(own_folder):
    with pytest.raises(
        ValueError, match="'train', 'test'. Received: 'valid'.*no other part.*split"
    ):
        read("reuters21578", "valid")
    with pytest.raises(ValueError, match="one of 'train', 'valid'. Received: 'test'"):
        read("fasttext_cooking", "test")


@pytest.mark.parametrize("name", SIZES)
def test_a_missing_corpus_says_where_it_comes_from(monkeypatch, own_folder, name):
    with pytest.raises(
        FileNotFoundError, match=r"does not exist.*Get it \(.*github.com"
    ):
        read(name)
    monkeypatch.delenv("BAT_TF_DATA")
    with pytest.raises(FileNotFoundError, match="BAT_TF_DATA is not set.*Get it"):
        read(name)


@pytest.mark.parametrize(
    "file",
    [
        "inspec_keyphrase/Hulth2003.tar.gz",
        "scienceie2017/scienceie2017.tar.xz",
        "reuters21578/reuters21578.tar.xz",
        "fasttext_cooking/cooking.stackexchange.tar.gz",
    ],
)
def test_a_broken_archive_is_a_sentence(own_folder, file):
    path = own_folder / file
    path.parent.mkdir()
    path.write_bytes(b"not an archive")
    with pytest.raises(DataError, match="is not a whole tar archive"):
        read(path.parent.name)


def test_wrong_split_and_option_are_sentences(own_folder):
    with pytest.raises(
        ValueError, match="`split` must be one of 'train', 'valid', 'test'"
    ):
        read("conll2003", "dev")
    with pytest.raises(TypeError, match="Its options are: documents, max_words"):
        read("conll2003", scheme="IOB1")
