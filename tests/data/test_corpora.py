import functools
import gzip
import io
import json
import lzma
import random
import tarfile
import zipfile
import zlib

import pytest

from bat_tf._internal.validation import DataError
from bat_tf.data import CORPORA, corpora, read

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
    "yso_finna_en_xmc": [(633682, 1552725), (10000, 24239), (10000, 24776)],
}
LARGE = {"yso_finna_en_xmc"}  # not kept for the next test
# Sets of ZLPR's paper, see test_zlpr.py: nobody's copy is at hand.
ELSEWHERE = {"cnipa", "toutiao", "uspto", "archive", "cmu_movie", "toxic"}

load = functools.cache(read)


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("BAT_TF_DATA", str(tmp_path))
    return tmp_path


def test_every_corpus_is_checked():
    others = {name for name in CORPORA if name.partition("/")[0] in ELSEWHERE}
    assert set(SIZES) | others | {"goemotions/raw"} == set(CORPORA)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * (n in LARGE)) for n in SIZES],
)
def test_corpora_have_the_published_sizes(data_folder, name):
    found = []
    for split in CORPORA[name].splits:
        data = (read if name in LARGE else load)(name, split)
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


def test_a_faulty_row_of_ja_wikipedia_is_raised_or_skipped(own_folder):
    entity = {"name": "東京", "span": [0, 2], "type": "地名"}
    rows = [{"curid": "1", "text": "東京駅", "entities": [entity]}] * 10
    rows += [{"curid": "2", "text": "東", "entities": [entity]}]
    path = own_folder / "ja_wikipedia_ner" / "ner.json.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(json.dumps(rows).encode()))
    splits, found = ("train", "valid", "test"), []
    with pytest.raises(DataError, match="ner.json.gz: span .* is outside the text"):
        for split in splits:
            read("ja_wikipedia_ner", split)
    for split in splits:
        found.append(read("ja_wikipedia_ner", split, on_error="skip"))
    assert sum(map(len, found)) == 10 and sum(len(data.skipped) for data in found) == 1
    with pytest.raises(ValueError, match="`on_error` must be one of"):
        read("ja_wikipedia_ner", on_error="ignore")


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


def write_yso(folder, titles, labels=b"p1\tjazz\t2\np2\trock\t1\np3\tjazz\t1\n"):
    folder = folder / "yso_finna_en_xmc"
    folder.mkdir(exist_ok=True)
    (folder / "titles.tsv.xz").write_bytes(lzma.compress(titles))
    (folder / "labels.tsv.xz").write_bytes(lzma.compress(labels))


def test_yso_parts_follow_one_order_and_share_nothing(own_folder, monkeypatch):
    monkeypatch.setattr(corpora, "_YSO_HELD_OUT", 3)
    titles = [f"title {number:02}" for number in range(12)]
    write_yso(own_folder, "".join(f"{title}\tp2\n" for title in titles).encode())
    random.Random(13).shuffle(titles)
    name = "yso_finna_en_xmc"
    parts = [read(name, split).texts for split in ("train", "valid", "test")]
    assert parts == [titles[6:], titles[3:6], titles[:3]]
    assert read("yso_finna_en_xmc", size=4).texts == titles[6:10]
    assert read("yso_finna_en_xmc", "valid", size=9).texts == titles[3:6]
    with pytest.raises(ValueError, match="`size` must be an integer >= 1. Received: 0"):
        read("yso_finna_en_xmc", size=0)


def test_yso_tells_subjects_of_one_name_apart(own_folder):
    labels = b"p1\tjazz\t2\np2\tsatyr play\ts\t1\np3\tjazz\t1\np4\t\t1\n"
    write_yso(own_folder, b'A "song\tp1 p2 p3 p4\n', labels)
    (example,) = read("yso_finna_en_xmc", "test")
    assert example.text == 'A "song'
    assert example.labels == ("jazz (p1)", "satyr play s", "jazz (p3)", "p4")


def test_yso_names_the_line_of_a_bad_row(own_folder):
    write_yso(own_folder, b"a\tp1\nb\tp1 p9\nc\nd\tp2\n")
    with pytest.raises(DataError, match=r"tsv.xz, line (2.* have the id 'p9'|3: exp)"):
        read("yso_finna_en_xmc", "test")
    data = read("yso_finna_en_xmc", "test", on_error="skip")
    assert sorted(data.texts) == ["a", "d"]
    assert sorted(error.line for error in data.skipped) == [2, 3]
    write_yso(own_folder, b"a\tp1\n", b"p1 jazz\n")
    with pytest.raises(DataError, match="line 1: expected an id, a name and a count"):
        read("yso_finna_en_xmc", "test")


@pytest.mark.slow
def test_yso_training_rows_at_a_size_are_the_first_of_all(data_folder):
    data = read("yso_finna_en_xmc", size=100_000)
    counts = data.counts()
    assert len(data) == 100_000 and counts.total() == 245_164 and len(counts) == 21_319
    # The order is that of random.Random(13), whatever is made of it.
    assert zlib.crc32("\n".join(data.texts).encode()) == 2998042942
    held = {*read("yso_finna_en_xmc", "valid").texts}
    assert len(held) == 10_000 and not held & set(data.texts)


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
    with pytest.raises(DataError, match="it is not a whole file of that kind"):
        read(path.parent.name)


def test_wrong_split_and_option_are_sentences(own_folder):
    with pytest.raises(
        ValueError, match="`split` must be one of 'train', 'valid', 'test'"
    ):
        read("conll2003", "dev")
    with pytest.raises(TypeError, match="Its options are: documents, max_words"):
        read("conll2003", scheme="IOB1")


def tar(path, files):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def zip_bomb():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("1.abstr", b"oil " * 5_000_000)
        archive.writestr("1.uncontr", "oil")
    return file.getvalue()


@pytest.mark.fault(
    "decompression bomb inside of a corpus's archive (.tar.gz, .zip, sparse files)",
    '"… unpacks to more than … MB, which is all that is taken from a file of …"',
)
@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("inspec_keyphrase/Hulth2003.tar.gz", {"Hulth2003/Test.zip": zip_bomb()}),
        ("fasttext_cooking/cooking.stackexchange.tar.gz", {"a": b"0" * 20_000_000}),
    ],
)
def test_a_bomb_in_an_archive_is_a_sentence(own_folder, file, content, sees):
    tar(own_folder / file, content)
    name = file.partition("/")[0]
    with pytest.raises(DataError, match="unpacks to more than 5 MB") as found:
        read(name, "test" if name.startswith("inspec") else "train", max_unpacked_mb=5)
    sees(str(found.value))


def test_a_sparse_file_in_an_archive_is_a_sentence(own_folder):
    path = tar(own_folder / "fasttext_cooking/cooking.stackexchange.tar.gz", {})
    member = tarfile.TarInfo("cooking.stackexchange.txt")
    member.size, map_of = 512, "0,1\n"
    member.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.map": map_of.strip(),
        "GNU.sparse.size": str(2**40),
    }
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member, io.BytesIO(b"x" * 512))
    with pytest.raises(DataError, match="unpacks to more than 400 MB"):
        read("fasttext_cooking")
