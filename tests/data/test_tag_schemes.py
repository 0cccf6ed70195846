import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bat_tf.data.dataset import Span
from bat_tf.data.readers.tag_schemes import (
    find_fault,
    find_scheme,
    parse_tag,
    tags_to_spans,
)


def write_tags(length, spans, scheme):
    """Writes tags the plain way, as an oracle."""
    tags = ["O"] * length
    for span in spans:
        before = tags[span.start - 1] if span.start else "O"
        for index in range(span.start, span.end):
            first, last = index == span.start, index == span.end - 1
            letter = {
                "IOB1": "B" if first and before[2:] == span.kind else "I",
                "IOB2": "B" if first else "I",
                "BIOES": "S"
                if first and last
                else "B"
                if first
                else "E"
                if last
                else "I",
            }[scheme]
            tags[index] = f"{letter}-{span.kind}"
    return tags


@st.composite
def sentences(draw):
    spans, place = [], 0
    for gap, length, kind in draw(
        st.lists(
            st.tuples(
                st.integers(0, 2), st.integers(1, 3), st.sampled_from(["PER", "LOC"])
            )
        )
    ):
        spans.append(Span(place + gap, place + gap + length, kind))
        place += gap + length
    return place + draw(st.integers(1, 2)), spans


schemes = st.sampled_from(["IOB1", "IOB2", "BIOES"])


@settings(deadline=None)
@given(sentences(), schemes)
def test_tags_give_back_the_spans_in_every_scheme(sentence, scheme):
    length, spans = sentence
    tags = [parse_tag(tag, scheme) for tag in write_tags(length, spans, scheme)]
    assert find_fault(tags, scheme) is None
    assert tags_to_spans(tags) == spans


@settings(deadline=None)
@given(st.lists(sentences(), min_size=1), schemes)
def test_the_scheme_found_reads_the_file_right(corpus, scheme):
    # A few sentences may fit two schemes; what counts is that the spans come out right.
    rows = [tuple(write_tags(length, spans, scheme)) for length, spans in corpus]
    found = find_scheme(rows)
    for tags, (_, spans) in zip(rows, corpus, strict=True):
        pairs = [parse_tag(tag, found) for tag in tags]
        assert tags_to_spans(pairs) == spans
        assert find_fault(pairs, found) is None


def test_schemes_are_told_apart():
    assert find_scheme([("I-A", "B-A", "O", "I-B")]) == "IOB1"
    assert find_scheme([("B-A", "I-A", "O"), ("B-B", "O", "O")]) == "IOB2"
    assert find_scheme([("B-A", "E-A", "S-B")]) == "BIOES"
    assert find_scheme([("B_loc", "M_loc", "E_loc", "O")]) == "BIOES"
    assert find_scheme([("B-A", "L-A", "U-B")]) == "BIOES"
    assert find_scheme([("PER", "PER", "O")]) == "IO"
    assert find_scheme([]) == "IO"


def test_one_mistake_does_not_change_the_scheme():
    good = ("O", "B-A", "I-A", "O")
    assert find_scheme([good] * 3 + [("O", "I-A", "O")]) == "IOB2"
    assert find_scheme([good] * 3 + [("B-A", "E-A")]) == "IOB2"
    assert find_scheme([("B-A", "E-A")] * 3 + [("E-A", "O")]) == "BIOES"
    assert find_scheme([good] * 3 + [("X-A",)]) == "IOB2"


@pytest.mark.parametrize(
    "tags, scheme, fault",
    [
        ("O I-A", "IOB2", (1, "I-A continues nothing.")),
        ("B-A I-B", "IOB2", (1, "I-B continues nothing.")),
        ("B-A E-A", "IOB2", (1, "E-A is no tag of the scheme IOB2.")),
        ("I-A S-A", "IOB1", (1, "S-A is no tag of the scheme IOB1.")),
        ("O E-A", "BIOES", (1, "E-A continues nothing.")),
        ("S-A I-A", "BIOES", (1, "I-A continues nothing.")),
        ("B-A O", "BIOES", (0, "B-A is not closed by E-A.")),
        ("O B-A I-A", "BIOES", (2, "I-A is not closed by E-A.")),
        ("B-A B-A E-A", "BIOES", (0, "B-A is not closed by E-A.")),
        # A B that is not needed does no harm in IOB1; CoNLL-2003 has one.
        ("O B-A", "IOB1", None),
    ],
)
def test_faults_are_found_where_they_are(tags, scheme, fault):
    assert find_fault([parse_tag(tag, scheme) for tag in tags.split()], scheme) == fault


def test_tags_without_a_kind_mark_keywords():
    tags = [parse_tag(tag, "IOB2") for tag in ("B", "I", "O")]
    assert tags_to_spans(tags) == [Span(0, 2, "keyword")]


def test_neighbours_of_one_kind_are_one_span_in_plain_tags():
    tags = [parse_tag(tag, "IO") for tag in ("PER", "PER", "O", "LOC", "PER")]
    assert tags_to_spans(tags) == [
        Span(0, 2, "PER"),
        Span(3, 4, "LOC"),
        Span(4, 5, "PER"),
    ]


@pytest.mark.parametrize("tag", ["X-PER", "PER", "B-", "", "B PER"])
def test_an_unknown_tag_is_a_sentence(tag):
    with pytest.raises(
        ValueError, match="neither O nor a letter and a kind like B-PER"
    ):
        parse_tag(tag, "IOB2")
