import pytest

from bat_tf._internal.files import Source
from bat_tf._internal.validation import DataError
from bat_tf.data import LabelSpace, label_texts, read
from bat_tf.data.readers.reuters import iter_reuters, topic_texts


def document(
    topics, split="TRAIN", text="<BODY>Up.</BODY>", used="YES", number="7", extra=""
):
    names = "".join(f"<D>{topic}</D>" for topic in topics.split())
    return (
        f'<REUTERS TOPICS="{used}" LEWISSPLIT="{split}"{extra} NEWID="{number}">\n'
        f"<DATE>1987</DATE>\n<TOPICS>{names}</TOPICS>\n<PLACES><D>usa</D></PLACES>\n"
        f"<TEXT>&#2;\n{text}&#3;\n</TEXT>\n</REUTERS>\n"
    )


def examples(split, *documents, source=None):
    content = "<!DOCTYPE lewis>\n" + "".join(documents)
    files = [("reut2-000.sgm", content.encode("latin-1")), ("README.txt", b"<REUTERS>")]
    return list(iter_reuters(source or Source("news"), files, split))


def text(source):
    (example,) = examples("test", document("tea"), document("tea", "TEST", source))
    return example.text


def test_topics_of_both_parts_count():
    documents = [
        document("tea rye", number="1"),
        document("rye", number="2"),
        document("tea", number="3", used="NO"),
        document("tea", number="4", used="BYPASS"),
        document("tea", "NOT-USED", number="5"),
        document("tea tea oat", "TEST", number="6"),
        document("oat", "TEST", number="7"),
        document("", "TEST", number="8"),
    ]
    train, test = (examples(split, *documents) for split in ("train", "test"))
    assert [(row.id, row.labels) for row in train] == [("1", ("tea",))]
    assert [(row.id, row.labels) for row in test] == [("6", ("tea",))]


def test_the_text_is_title_and_body_a_paragraph_a_line():
    source = (
        "<TITLE>TEA &amp; RYE\nRISE</TITLE>\n<DATELINE>ROME, March 3 - </DATELINE>"
        "<BODY>Tea &lt;TEA.L> of\nthe  East,\n    said\tM\xfcller.\n Reuter\n&#3;"
        "</BODY>"
    )
    assert (
        text(source) == "TEA & RYE RISE\nTea <TEA.L> of the East,\nsaid Müller.\nReuter"
    )


def test_without_a_body_the_text_is_all_there_is():
    assert text("<TITLE>TEA UP</TITLE>Blah blah.\n") == "TEA UP\nBlah blah."
    assert text("Tea &lt;rose>\nagain\n  and again\n") == "Tea <rose> again\nand again"


@pytest.mark.parametrize(
    "bad, reason",
    [
        (document("tea").replace("</REUTERS>", ""), "does not end: </REUTERS> is"),
        (document("tea").replace("NEWID", "ID"), "NEWID is missing in the document's"),
        (document("tea").replace("TEXT>", "TXT>"), "<TEXT> … </TEXT> is missing in"),
        (document("tea").replace("</TOPICS>", ""), "<TOPICS> … </TOPICS> is missing"),
    ],
)
def test_a_bad_document_is_an_error_or_skipped_and_counted(bad, reason):
    documents = [document("tea"), bad, document("tea", "TEST")]
    with pytest.raises(DataError, match=f"reut2-000.sgm, line 10: .*{reason}"):
        examples("test", *documents)
    source = Source("news", on_error="skip")
    assert len(examples("train", *documents, source=source)) == 1
    assert [error.line for error in source.skipped] == [10]


def test_wrong_arguments_are_sentences():
    with pytest.raises(ValueError, match="`split` must be one of 'train', 'test'"):
        examples("valid")


def test_the_corpus_has_the_published_parts(data_folder):
    train, test = read("reuters21578"), read("reuters21578", "test")
    assert (len(train), len(test)) == (7769, 3019)
    assert len(train.counts()) == 90 and train.counts().keys() == test.counts().keys()
    # The sums that NLTK's copy has, too.
    both = train.counts() + test.counts()
    assert both.most_common(7) == [
        ("earn", 3964),
        ("acq", 2369),
        ("money-fx", 717),
        ("grain", 582),
        ("crude", 578),
        ("trade", 485),
        ("interest", 478),
    ]
    assert not train.skipped and not {e.id for e in train} & {e.id for e in test}
    start = "ASIAN EXPORTERS FEAR DAMAGE FROM U.S.-JAPAN RIFT\nMounting trade friction"
    assert test[0].text.startswith(start) and test[0].id == "14826"
    for example in (*train, *test):
        assert example.text.strip() == example.text != ""
        assert "&lt;" not in example.text and "\x03" not in example.text
        assert "  " not in example.text and "\n\n" not in example.text


def test_what_topics_mean(data_folder):
    texts = label_texts("reuters21578")
    assert len(texts) == 57 and "volcker" not in texts
    assert texts["bop"] == "Balance of Payments (BOP)"
    labels = LabelSpace.fit(read("reuters21578", split="train").labels, texts=texts)
    meanings = dict(zip(labels.names, labels.texts, strict=True))
    assert meanings["nat-gas"] == "Natural Gas (NAT-GAS)" and meanings["tea"] == "tea"


def test_topics_without_their_list_are_a_sentence():
    with pytest.raises(FileNotFoundError, match="cat-descriptions_120396.txt is not"):
        topic_texts([("reut2-000.sgm", b"")])
    with pytest.raises(ValueError, match="The labels of others are called what they"):
        label_texts("goemotions")
