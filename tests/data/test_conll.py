import gzip

import pytest

from bat_tf._internal.files import Source
from bat_tf._internal.validation import DataError
from bat_tf.data import read
from bat_tf.data.readers.conll import iter_conll


@pytest.fixture
def write(tmp_path):
    def write(content, name="file.conll"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def marked(example):
    return [(example.text[s.start : s.end], s.kind) for s in example.spans]


def test_sentences_become_texts_with_character_spans(write):
    path = write("EU NNP B-ORG\nrejects VBZ O\n\n\nNew NNP B-LOC\nYork NNP I-LOC\n")
    data = read(path)
    assert data.texts == ["EU rejects", "New York"]
    assert [marked(example) for example in data] == [
        [("EU", "ORG")],
        [("New York", "LOC")],
    ]
    assert [example.id for example in data] == ["sentence 1", "sentence 2"]


def test_any_column_holds_token_or_tag(write):
    path = write("1\tEU\tB-ORG\tx\n2\tsays\tO\ty\n")
    data = read(path, token_column=1, tag_column=2)
    assert data.texts == ["EU says"] and marked(data[0]) == [("EU", "ORG")]
    with pytest.raises(
        ValueError, match="`tag_column` must be an integer >= -4 and <= 3"
    ):
        read(path, tag_column=4)


def test_tabs_and_any_number_of_blanks_divide_columns(write):
    assert read(write("EU\tB-ORG\nsays\tO")).texts == ["EU says"]
    assert read(write("EU   B-ORG  \nsays     O")).texts == ["EU says"]


def test_windows_ends_byte_order_mark_and_compression(tmp_path):
    path = tmp_path / "file.bio.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfEU B-ORG\r\nsays O\r\n\r\nyes O\r\n"))
    assert read(path).texts == ["EU says", "yes"]


@pytest.mark.parametrize(
    "content, scheme_name",
    [
        ("New I-LOC\nYork I-LOC\nRome B-LOC\n\nsays O\n", "IOB1"),
        ("New B-LOC\nYork I-LOC\nRome B-LOC\n\nsays O\n", "IOB2"),
        ("New B-LOC\nYork E-LOC\nRome S-LOC\n\nsays O\n", "BIEOS"),
        ("New B-LOC\nYork E-LOC\nRome S-LOC\n\nsays O\n", "BMES"),
    ],
)
@pytest.mark.parametrize("named", [False, True])
def test_schemes_are_found_out_or_named(write, content, scheme_name, named):
    data = read(write(content), scheme=scheme_name if named else None)
    assert marked(data[0]) == [("New York", "LOC"), ("Rome", "LOC")]


def test_plain_tags_are_kinds(write):
    data = read(write("New LOC\nYork LOC\nsays O\nAnn PER\n"))
    assert marked(data[0]) == [("New York", "LOC"), ("Ann", "PER")]


def test_single_characters_are_joined_without_blanks(write):
    content = "日\tO\n本\tO\n \tO\no\tB-HP\nt\tE-HP\n"
    data = read(write(content), kinds={"HP": "brand"})
    assert data.texts == ["日本 ot"] and marked(data[0]) == [("ot", "brand")]
    assert read(write(content), joiner=" ").texts == ["日 本 \ufffd o t"]


def test_a_blank_token_keeps_its_place_whatever_divides_the_columns(write):
    content = "日 O\n\u3000 O\n  O\n本 B-HP\n"
    data = read(write(content))
    assert data.texts == ["日\u3000 本"] and marked(data[0]) == [("本", "HP")]


def test_a_blank_word_stays_one_word(write):
    data = read(write("New B-LOC\n\u00a0 I-LOC\nYork I-LOC\n  O\nsays O\n"))
    assert data.texts == ["New \ufffd York \ufffd says"]
    assert len(data.texts[0].split()) == 5
    assert marked(data[0]) == [("New \ufffd York", "LOC")]


DOCUMENTS = """-DOCSTART- -X- O

Ann B-PER
came O

Bob B-PER
left O
soon O

-DOCSTART- -X- O

Rome B-LOC
"""


def test_documents_are_counted(write):
    data = read(write(DOCUMENTS))
    assert [example.id for example in data] == [
        "doc 1, sentence 1",
        "doc 1, sentence 2",
        "doc 2, sentence 1",
    ]


def test_neighbouring_sentences_are_joined_inside_their_document(write):
    data = read(write(DOCUMENTS), documents="joined")
    assert data.texts == ["Ann came\nBob left soon", "Rome"]
    assert marked(data[0]) == [("Ann", "PER"), ("Bob", "PER")]
    assert data[0].id == "doc 1, sentences 1-2" and data[1].id == "doc 2, sentence 1"


@pytest.mark.parametrize("max_words, count", [(5, 2), (4, 3), (1, 3)])
def test_joined_texts_are_bounded_but_sentences_stay_whole(write, max_words, count):
    data = read(write(DOCUMENTS), documents="joined", max_words=max_words)
    assert len(data) == count and sum(len(spans) for spans in data.spans) == 3


def test_joining_needs_documents(write):
    with pytest.raises(ValueError, match="no -DOCSTART- line says where"):
        read(write("Ann B-PER\n"), documents="joined")


@pytest.mark.parametrize(
    "bad, line, reason",
    [
        (b"Ann E-PER\n", 4, "E-PER is no tag of the scheme IOB2. .* strict=False"),
        (b"Ann I-PER\n", 4, "I-PER continues nothing. The tags are read as IOB2"),
        (b"so O\nAnn X-PER\n", 5, "'X-PER' is neither O nor a letter and a kind"),
        (b"so O\nAnn\n", 5, "expected 2 columns, as in most lines. Received: .*Ann"),
        (b"so O\nAnn\xff O\n", 5, "not UTF-8 text"),
        ("so O\n\u3000\n".encode(), 5, "expected 2 columns"),
    ],
)
def test_a_bad_sentence_is_an_error_or_skipped_and_counted(write, bad, line, reason):
    good = b"New B-LOC\nYork I-LOC\n\n"
    path = write(good + bad + b"\n" + good)
    with pytest.raises(DataError, match=f"file.conll, line {line}: .*{reason}"):
        read(path, strict=True)
    data = read(path, on_error="skip", strict=True)
    assert data.texts == ["New York"] * 2
    assert [(error.line, error.path) for error in data.skipped] == [(line, str(path))]


def test_tags_are_taken_as_they_are_if_not_strict(write):
    path = write("a B-A\nb B-A\nc E-A\n\nd B-A\ne E-A\n\nf I-A\ng O\n")
    spans = [marked(example) for example in read(path, strict=False)]
    assert spans == [[("a", "A"), ("bc", "A")], [("de", "A")], [("f", "A")]]


def test_a_named_scheme_that_does_not_fit_is_an_error(write):
    path = write("New I-LOC\nYork I-LOC\n")
    with pytest.raises(DataError, match="line 1: I-LOC continues nothing"):
        read(path, scheme="BIO", strict=True)
    with pytest.raises(ValueError, match="`scheme` must be one of 'IO', 'IOB'"):
        read(path, scheme="BOI")


def test_a_file_of_running_text_is_a_sentence(write):
    with pytest.raises(
        DataError, match=r"line 1: expected a token and its tag. .*'Hello'"
    ):
        read(write("Hello\nworld\n"))
    with pytest.raises(
        DataError, match=r"line 1: .*It is gzip data under another name"
    ):
        read(write(gzip.compress(b"")))


def test_an_empty_file_is_a_sentence(write):
    for content in ("", "\n\n", "-DOCSTART- -X- O\n"):
        with pytest.raises(DataError, match="holds no examples"):
            read(write(content))


def test_sentences_stream(write):
    sentences = iter_conll(Source(write("Ann B-PER\n\nBob\n\nAnn B-PER\n")))
    assert next(sentences).text == "Ann"
    with pytest.raises(DataError, match="line 3"):
        next(sentences)
