import gzip
import json
import lzma

import numpy as np
import pytest
import scipy.sparse

from bat_tf._internal.files import Source
from bat_tf._internal.validation import DataError
from bat_tf.data import FORMATS, Example, LabelSpace, read
from bat_tf.data.readers.xmc import iter_xmc, xmc_file

ROWS = [
    {"uid": "A1", "title": "Red shoes", "content": "Size 9.", "target_ind": [2, 0]},
    {"uid": 7, "title": "Lamp", "content": "", "target_ind": [], "target_rel": []},
    {"title": "", "content": " Größe ", "target_ind": [1], "target_rel": [1.0]},
]
DOCUMENTS = ["Red shoes\nSize 9.", "Lamp", "Größe"]
NAMES = ["shop", "café", "fashion"]
LABELS = [("fashion", "shop"), (), ("café",)]


def as_lines(rows):
    return "".join(f"{row}\n" for row in rows).encode()


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        content = content if isinstance(content, bytes) else content.encode()
        path = tmp_path / name
        pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
        path.write_bytes(pack(content))
        return path

    return write


@pytest.fixture
def write_json(write):
    def write_json(name="trn.json.gz", rows=ROWS):
        return write(name, as_lines(map(json.dumps, rows)))

    return write_json


@pytest.mark.parametrize("packed", ["", ".gz", ".xz"])
@pytest.mark.parametrize("stem", ["train_texts", "train_raw_texts"])
def test_texts_find_their_labels(write, stem, packed):
    path = write(f"{stem}.txt{packed}", "red shoes /SEP/ x\r\nlamp\n日本 語\n")
    write("train_labels.txt", "shop fashion_&_style,\r\n\n 店\tshop  shop \n")
    data = read(path)
    assert data.texts == ["red shoes /SEP/ x", "lamp", "日本 語"]
    assert data.labels == [("shop", "fashion_&_style,"), (), ("店", "shop")]
    assert data.task == "labels" and data.name == str(path)


def test_labels_may_have_another_name_and_names_of_their_own(write):
    path = write("documents", "a\nb\n")
    labels, names = write("y", "1 0\n1\n"), write("n", "jazz\n rock \n")
    data = read(path, format="xmc", labels=labels, names=names)
    assert data.labels == [("rock", "jazz"), ("rock",)]
    assert read(path, format="xmc", labels=labels).labels == [("1", "0"), ("1",)]
    with pytest.raises(FileNotFoundError, match="The labels of .*documents were not"):
        read(path, format="xmc")


@pytest.mark.parametrize(
    "texts, labels, reason",
    [
        (
            "a\nb\nc\n",
            "x\ny\n",
            r"_labels.txt, line 2: the file ends here, but train_t",
        ),
        (
            "a\n",
            "x\ny\nz\n",
            r"_texts.txt, line 1: the file ends here, but train_labels",
        ),
        ("a\n", "", r"train_labels.txt: the file ends here"),
    ],
)
def test_files_of_different_lengths_are_an_error_always(write, texts, labels, reason):
    path = write("train_texts.txt", texts)
    write("train_labels.txt", labels)
    for on_error in ("raise", "skip"):
        with pytest.raises(DataError, match=reason):
            read(path, on_error=on_error)


def test_a_missing_partner_is_named_and_other_formats_remembered(write):
    path = write("train_texts.txt", "Ann B-PER\n")
    with pytest.raises(
        FileNotFoundError, match='no train_labels.txt beside it.*`format`, as "conll"'
    ):
        read(path)
    assert read(path, format="conll").kinds == ["PER"]
    with pytest.raises(FileNotFoundError, match="nowhere.txt does not exist"):
        read(path, labels="nowhere.txt")
    with pytest.raises(FileNotFoundError, match="gone_texts.txt does not exist"):
        read("gone_texts.txt", format="xmc")


def test_a_faulty_line_names_its_own_file(write):
    path = write("test_texts.txt", b"a\n  \n\xff\nd\ne\n")
    write("test_labels.txt", b"x\nx\nx\n\xff\nx\n")
    with pytest.raises(DataError, match="texts.txt, line 2: the document is empty"):
        read(path)
    data = read(path, on_error="skip")
    assert data.texts == ["a", "e"]
    places = [(error.path.split("/")[-1], error.line) for error in data.skipped]
    assert places == [
        ("test_texts.txt", 2),
        ("test_texts.txt", 3),
        ("test_labels.txt", 4),
    ]


def test_numbers_outside_the_names_are_an_error(write):
    path, names = write("train_texts.txt", "a\nb\n"), write("names.txt", "jazz\nrock\n")
    write("train_labels.txt", "1\n2\n")
    with pytest.raises(
        DataError, match="labels.txt, line 2: expected numbers .* 0 to 1. Received: '2'"
    ):
        read(path, names=names)


@pytest.mark.parametrize("name", ["trn.json", "tst.json.gz", "trn.raw.json.xz"])
def test_the_repositorys_json(write, write_json, name):
    path = write_json(name)
    assert read(path).labels == [("2", "0"), (), ("1",)]
    write("Yf.txt", "shop\ncafé\nfashion\n".encode("latin-1"))
    data = read(path)
    assert data.texts == DOCUMENTS and data.labels == LABELS
    assert [example.id for example in data] == ["A1", "7", None]
    titles = [{"uid": "x", "title": name} for name in ("hat", "hat", "")]
    write_json("lbl.json.gz", titles)
    assert read(path).labels == [("2", "hat (0)"), (), ("hat (1)",)]


@pytest.mark.parametrize(
    "row, reason",
    [
        ("{", "line 2: not JSON: .* at character 2"),
        ("[1]", r"line 2: expected a JSON object. Received: \[1\]"),
        (
            '{"title": "a"}',
            'expected a list of numbers as "target_ind". Received: None',
        ),
        ('{"title": "a", "target_ind": [3]}', "labels, from 0 to 2. Received: 3"),
        ('{"title": "a", "target_ind": [-1]}', "labels, from 0 to 2. Received: -1"),
        ('{"title": "a", "target_ind": [true]}', "from 0 to 2. Received: True"),
        ('{"title": "a", "target_ind": ["x"]}', "from 0 to 2. Received: 'x'"),
        ('{"title": 5, "target_ind": []}', "title and content must be texts"),
        ('{"title": " ", "target_ind": []}', "line 2: the document is empty"),
        ("[" * 100_000, "line 2: not JSON"),
    ],
)
def test_a_bad_row_of_json_is_a_sentence(write, row, reason):
    good = json.dumps(ROWS[0])
    path = write("trn.json", as_lines([good, row, "", good]))
    write("Yf.txt", as_lines(NAMES))
    with pytest.raises(DataError, match=reason):
        read(path)
    data = read(path, on_error="skip")
    assert len(data) == 2 and [error.line for error in data.skipped] == [2]


def test_a_bad_row_of_label_names_is_a_sentence(write, write_json):
    path = write_json()
    write("lbl.json", '{"title": "a"}\nb\n')
    with pytest.raises(DataError, match="lbl.json, line 2: not JSON"):
        read(path)


def test_texts_with_a_matrix(write, tmp_path):
    path = write("X.trn.txt", "a\nb\nc\n")
    matrix = scipy.sparse.csr_matrix(np.float32([[1, 0, 0.5], [0, 0, 0], [0, 1, 0]]))
    scipy.sparse.save_npz(tmp_path / "Y.trn.npz", matrix)
    assert read(path).labels == [("0", "2"), (), ("1",)]
    write("output-items.txt", as_lines(NAMES))
    data = read(path)
    assert data.labels == [("shop", "fashion"), (), ("café",)]
    assert (LabelSpace(NAMES).csr(data.labels) != (matrix > 0)).nnz == 0
    write("output-items.txt", "shop\n")
    with pytest.raises(
        DataError, match="Y.trn.npz: has 3 columns, but there are 1 nam"
    ):
        read(path)
    write("X.trn.txt", "a\nb\n")
    with pytest.raises(DataError, match="X.trn.txt, line 2: the file ends here"):
        read(path, names=write("names.txt", as_lines(NAMES)))
    half = (tmp_path / "Y.trn.npz").read_bytes()[:200]
    for rubbish in (b"rubbish", half, b""):
        write("Y.trn.npz", rubbish)
        with pytest.raises(DataError, match="Y.trn.npz: is not a SciPy matrix"):
            read(path)
    with pytest.raises(FileNotFoundError, match="gone.npz does not exist"):
        read(path, labels="gone.npz")


@pytest.mark.parametrize("column", [7, -1, 2**30])
def test_a_matrix_with_columns_that_it_does_not_have(write, tmp_path, column):
    matrix = scipy.sparse.csr_matrix([[1.0, 0.0]])
    matrix.indices[0] = column
    scipy.sparse.save_npz(tmp_path / "Y.trn.npz", matrix)
    with pytest.raises(DataError, match="Y.trn.npz: is not a SciPy matrix"):
        read(write("X.trn.txt", "a text\n"))


def test_every_ending_of_the_format_is_read(write, tmp_path):
    scipy.sparse.save_npz(tmp_path / "Y.trn.npz", scipy.sparse.csr_matrix([[1]]))
    scipy.sparse.save_npz(tmp_path / "Y.tst.npz", scipy.sparse.csr_matrix([[1]]))
    write("a_labels.txt", "0\n")
    for ending in FORMATS["xmc"].endings:
        name = ending.replace("x.", "X.", 1) if ending[0] == "x" else ending
        row = '{"title": "hat", "target_ind": [0]}' if "json" in name else "hat"
        data = read(write("a" * (name[0] == "_") + name, row + "\n"))
        assert list(data) == [Example("hat", labels=["0"], id=None)]


def test_a_folder_is_read_by_its_parts(write, write_json, tmp_path):
    write("train_texts.txt", "tokens\n")
    write("train_raw_texts.txt.gz", "Raw text\n")
    write("train_labels.txt", "x\n")
    write_json("tst.json.gz")
    assert read(tmp_path, format="xmc").texts == ["Raw text"]
    assert read(tmp_path, "test", format="xmc").texts == DOCUMENTS
    assert xmc_file(tmp_path, "train").name == "train_raw_texts.txt.gz"
    with pytest.raises(
        FileNotFoundError, match="no documents of the part 'valid'.*valid_texts.txt"
    ):
        read(tmp_path, "valid", format="xmc")
    with pytest.raises(ValueError, match="`split` must be one of 'train', 'valid'"):
        read(tmp_path, "tst", format="xmc")
    with pytest.raises(
        IsADirectoryError, match=r'read\(folder, "train", format="xmc"\)'
    ):
        next(iter_xmc(Source(tmp_path)))
    with pytest.raises(ValueError, match="`split` must be None for a file"):
        read(tmp_path / "tst.json.gz", "test")


def test_documents_are_read_one_by_one(write):
    path = write("train_texts.txt", "a\n" * 3)
    write("train_labels.txt", "x\n")
    documents = iter_xmc(Source(path))
    assert next(documents).text == "a"  # before the end, and its error, are in sight
    with pytest.raises(DataError, match="line 1: the file ends here"):
        next(documents)


def test_wrong_options_are_sentences(write):
    path = write("train_texts.txt", "a\n")
    with pytest.raises(
        TypeError, match="option 'joiner'. Its options are: labels, nam"
    ):
        read(path, joiner="")
    with pytest.raises(ValueError, match="`on_error` must be one of 'raise', 'skip'"):
        read(path, on_error="ignore")
    with pytest.raises(ValueError, match="`labels` must be None for JSON"):
        read(write("trn.json", '{"target_ind": []}'), labels="y.txt")


@pytest.mark.fault(
    "matrix of labels (.npz) that unpacks to gigabytes, or says so",
    '"… unpacks to more than … MB, which is all that is taken from a file of …"',
)
def test_a_matrix_that_is_a_bomb_is_a_sentence(write, tmp_path, sees):
    path = write("X.trn.txt", "a\n")
    zeros = np.zeros(6_000_000, "int64")
    np.savez_compressed(
        tmp_path / "Y.trn.npz",
        **{"indices": zeros, "indptr": np.array([0, 1]), "data": zeros},
        **{"shape": np.array([1, 2]), "format": np.array("csr")},
    )
    with pytest.raises(DataError) as found:
        read(path, max_unpacked_mb=20)
    sees(str(found.value))
    rows = scipy.sparse.csc_matrix((2**40, 2))
    scipy.sparse.save_npz(tmp_path / "Y.trn.npz", rows)
    with pytest.raises(DataError, match="it says that it has 1,099,511,627,776 rows"):
        read(path)
