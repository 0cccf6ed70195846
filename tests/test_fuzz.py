"""Whatever comes in: no crash, no hang, and offsets inside the text.

`tests/fuzzing.py` says how many inputs there are. Hypothesis draws files and requests;
of texts, which come many at a time, it draws the seeds, since in such lists it repeats
itself. Schemathesis wants an OpenAPI schema, which TF Serving's API does not have;
atheris wants clang and finds its way through instrumented Python, while what could
crash here are TensorFlow's operations.
"""

import asyncio
import bz2
import contextlib
import functools
import gzip
import io
import itertools
import json
import lzma
import socket
from random import Random

import numpy as np
import pytest
import scipy.sparse
import served
import tensorflow as tf
from fuzzing import BATCH, PLAN, doses, fuzz
from hypothesis import strategies as st

import bat_tf
from bat_tf._internal.files import Source
from bat_tf._internal.validation import DataError
from bat_tf.data.readers.reuters import iter_reuters
from bat_tf.serving import rows
from bat_tf.serving.engine import Engine, Limits
from bat_tf.serving.server import Server, make_app
from bat_tf.text import TextTokenizer, decode_tags, encode_spans
from bat_tf.text.windows import merge, split


def test_the_slow_run_has_two_hundred_thousand_inputs():
    assert sum(many for _, many in PLAN.values()) >= 200_000


# === Texts ===

ODD = [
    *("\0", "\ud800", "\udfff", "\ud83d\ude00", "\ufeff", "\u200b", "\u200d", "\u00ad"),
    *(
        "\u0301",
        "e\u0301\u0323",
        "👩\u200d👩\u200d👧",
        "👍🏽",
        "🇯🇵🇫",
        "\ufe0f",
        "\U000e0041",
    ),
    *("\u202eabc\u202c", "שָׁלוֹם", "اَلْعَرَبِيَّة", "नमस्ते", "ภาษา", "한국어", "ｶﾞ", "Ａｂ"),
    *("İ", "ß", "ﬁ", "Ⅷ", "ǅ", "\u2028", "\r\n", "\x85", "\x1c", "\u3000", "  "),
    *("[CLS]", "[PAD]", "##a", "\ufffd", "\U0010ffff", "\ue000", "x" * 120, "é" * 101),
]
RAW = [b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xe2\x82", b"\xff", b"\x80"]
# Code points: ASCII, accents, right to left, vowel signs, marks, kana, Han, Hangul,
# halves of surrogate pairs, forms, emoji, tags, anything.
RANGES = [(0x20, 0x7F), (0, 0x250), (0x300, 0x370), (0x590, 0x700), (0x900, 0xE80)]
RANGES += [(0x2000, 0x2100), (0x3040, 0x3100), (0x4E00, 0xA000), (0xAC00, 0xD7A4)]
RANGES += [(0xD800, 0xE000), (0xFB00, 0x10000), (0x1F1E6, 0x1FA00), (0xE0000, 0xE0200)]
RANGES += [(0, 0x110000)]


def draw_part(random):
    way = random.randrange(5)
    if way < 2:
        return random.choice(ODD)
    if way < 4:
        low, high = random.choice(RANGES)
        size = random.randrange(1, 6)
        return "".join(chr(random.randrange(low, high)) for _ in range(size))
    return random.choice([" ", "Café ", "shipping", "東京", "18V", "नमस्ते"])


def draw_text(random):
    return "".join(draw_part(random) for _ in range(random.randrange(9)))


def draw_bytes(random):
    """A text as bytes, some of which are no UTF-8."""
    text = draw_text(random).encode("utf-8", "surrogatepass")
    for _ in range(random.randrange(4)):
        place = random.randrange(len(text) + 1)
        other = random.choice([*RAW, random.randbytes(3)])
        text = text[:place] + other + text[place + random.randrange(2) :]
    return text


def many(draw, size=BATCH):
    """A strategy for lists of what `draw` makes of a `Random`."""

    def make(seed):
        random = Random(seed)
        return [draw(random) for _ in range(size)]

    return st.integers(0, 2**64).map(make)


TEXT = st.integers(0, 2**64).map(lambda seed: draw_text(Random(seed)))
TEXTS = many(lambda random: random.choice([draw_text, draw_text, draw_bytes])(random))
LINES = ["Free shipping: 18V drill!", "新品 東京タワー Café straße", "한국어 नमस्ते 👍🏽"]
KINDS = ["characters", "words", "wordpiece"]


def as_python(text):
    """The characters that offsets count."""
    if isinstance(text, str):
        text = text.encode("utf-8", "replace")
    return text.decode("utf-8", "replace")


def as_tensor(texts):
    return tf.constant(
        [x.encode("utf-8", "replace") if isinstance(x, str) else x for x in texts]
    )


@functools.cache
def tokenizer_of(kind, split="unicode"):
    names = ("case", "prefix1", "suffix4")
    made = TextTokenizer(kind, vocabulary_size=200, split=split, features=names)
    made.adapt(LINES)
    return made


def traced(tokenizer):
    spec = [tf.TensorSpec([None], tf.string)]
    return tf.function(tokenizer.tokenize, input_signature=spec, autograph=False)


def check_tokens(tokenizer, tokens, texts):
    """Everything that holds for the tokens of any texts."""
    splits = tokens["starts"].row_splits.numpy()
    flat = {name: ragged.values.numpy() for name, ragged in tokens.items()}
    lengths = np.repeat([len(as_python(text)) for text in texts], np.diff(splits))
    starts, ends, words = flat["starts"], flat["ends"], flat["word_ids"]
    assert len(splits) == len(texts) + 1
    assert (0 <= starts).all() and (starts < ends).all() and (ends <= lengths).all()
    same_text = np.ones(len(starts), bool)
    same_text[splits[:-1][splits[:-1] < len(starts)]] = False
    for values in (starts, ends, words):
        assert (np.diff(values)[same_text[1:]] >= 0).all()
    assert (words >= 0).all() and (words[~same_text] == 0).all()
    assert (np.diff(words)[same_text[1:]] <= 1).all()
    ids = flat["token_ids"]
    assert (0 <= ids).all() and (ids < len(tokenizer.vocabulary)).all()
    for name, size in tokenizer.feature_sizes.items():
        assert (0 < flat[name]).all() and (flat[name] < size).all()


@doses("tokens", [*KINDS, *(f"{kind}, whitespace" for kind in KINDS)], ["wordpiece"])
def test_tokens_lie_inside_any_text(way, count):
    kind, _, split_at = way.partition(", ")
    tokenizer = tokenizer_of(kind, split_at or "unicode")
    tokenize = traced(tokenizer)

    def check(texts):
        check_tokens(tokenizer, tokenize(as_tensor(texts)), texts)

    fuzz(TEXTS, check, count, list)


# === Spans and windows ===


def draw_marked(random):
    """A text and spans of its characters, in order."""
    text = as_python(draw_text(random))
    places = range(len(text) + 1)
    edges = sorted(random.sample(places, min(len(places), random.randrange(7))))
    spans = [
        (start, end, random.randrange(3))
        for start, end in itertools.pairwise(edges)
        if random.random() < 0.6
    ]
    return text, spans


@functools.cache
def round_trip(kind):
    tokenizer, row = tokenizer_of(kind), tf.RaggedTensorSpec([None, None], tf.int32, 1)

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string), row, row, row],
        autograph=False,
    )
    def there_and_back(texts, starts, ends, kinds):
        tokens = tokenizer.tokenize(texts)
        spans = {"starts": starts, "ends": ends, "kinds": kinds}
        tags = encode_spans(tokens, spans)
        packed = tokenizer.pack({**tokens, "tags": tags})
        tags = packed.pop("tags")
        return tokens, decode_tags(tags, tf.ones_like(tags), packed)

    return there_and_back


@doses("spans", KINDS, ["words"])
def test_spans_come_back_with_whole_words(way, count):
    there_and_back = round_trip(way)

    def check(examples):
        texts, spans = zip(*examples, strict=True)
        columns = (
            tf.ragged.constant(
                [[span[n] for span in row] for row in spans], tf.int32, 1
            )
            for n in range(3)
        )
        tokens, found = there_and_back(as_tensor(texts), *columns)
        rows = zip(
            texts,
            spans,
            *(tokens[name].to_list() for name in ("starts", "ends", "word_ids")),
            *(found[name].to_list() for name in ("starts", "ends", "kinds")),
            strict=True,
        )
        for text, given_spans, starts, ends, words, firsts, lasts, kinds in rows:
            back = list(zip(firsts, lasts, kinds, strict=True))
            assert back == whole_words(given_spans, starts, ends, words)
            assert all(0 <= start < end <= len(text) for start, end, _ in back)

    fuzz(many(draw_marked), check, count, list)


def whole_words(spans, starts, ends, words):
    """Spans grown to the words they share a character with; the first one wins."""
    edges = {}
    for start, end, word in zip(starts, ends, words, strict=True):
        edges[word] = (edges.get(word, (start,))[0], end)
    owner = {}
    for number, (start, end, _) in enumerate(spans):
        for word, (first, last) in edges.items():
            if start < last and first < end:
                owner.setdefault(word, number)
    found = {}
    for word, number in sorted(owner.items()):
        first, last = edges[word]
        found[number] = (found.get(number, (first,))[0], last, spans[number][2])
    return list(found.values())


@functools.cache
def windows_of(kind, size, overlap):
    tokenizer = tokenizer_of(kind)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def there_and_back(texts):
        tokens = tokenizer.tokenize(texts)
        parts, places = split(tokens, size, overlap)
        packed = tokenizer.pack(parts)
        merged = merge(packed["starts"], places, tokenizer.num_special)
        return tokens["starts"], parts["starts"].row_lengths(), merged

    return there_and_back


@doses("windows", ["words", "wordpiece"], ["words"])
def test_windows_give_back_what_they_cut(way, count):
    def check(drawn):
        texts, (size, overlap) = drawn
        texts = [text * 3 for text in texts]
        whole, lengths, merged = windows_of(way, size, overlap)(as_tensor(texts))
        assert merged.to_list() == whole.to_list()
        assert lengths.numpy().max() <= size

    sizes = st.sampled_from([(1, 0), (3, 1), (8, 4)])
    fuzz(st.tuples(TEXTS, sizes), check, count, lambda drawn: drawn[0])


# === Files ===

SAMPLES = {
    "rows.jsonl": b'{"text": "A goal", "labels": ["sport"], "id": 7}\n'
    b'{"text": "Zorv lamp", "label": "shop"}\n',
    "spans.jsonl": b'{"text": "Zorv lamp", "spans": [[0, 4, "brand"], [5, 9, "x"]]}\n',
    "rows.json": b'[{"text": "A goal", "labels": ["sport"]},\n {"text": "b"}]',
    "rows.csv": b'id,title,text,labels\n1,Final,"A ""goal""",a|b\n2,,b,"[\'a\']"\n',
    "flags.tsv": b"text\tsport\tshop\nA goal\t1\t0\nlamp\t0\t1.0\n",
    "tags.conll": b"-DOCSTART- O\n\nto O\nNew B-LOC\nYork I-LOC\n\nEU S-ORG\n",
    "tokens.jsonl": b'{"tokens": ["EU", "says"], "ner_tags": ["B-ORG", "O"]}\n' * 2,
    "studio.json": b'[{"data": {"text": "EU says"}, "annotations": [{"result": '
    b'[{"value": {"start": 0, "end": 2, "labels": ["ORG"]}}]}]},'
    b' ["EU", {"entities": [[0, 2, "x"]]}]]',
    "words.csv": b"Sentence #,Word,Tag\n1,EU,B-ORG\n1,says,O\n2,so,O\n",
    "any.txt": b"1;EU says;a,b\n2;so is it;a\n3;and it was;b\n",
    "labels.ft": b"__label__a __label__b A goal\n__label__a A play\n",
    "wide.csv": "text,label\nA goal,a b\nA play,b\n".encode("utf-16"),
    "train_texts.txt": b"red shoes\na goal\n",
    "trn.json": b'{"uid": "1", "title": "t", "content": "c", "target_ind": [0, 1]}\n',
    "X.trn.txt": b"red shoes\na goal\n",
    "rows.jsonl.gz": gzip.compress(b'{"text": "A goal", "labels": []}\n' * 9, mtime=0),
    "rows.csv.xz": lzma.compress(b"text,label\nA goal,sport\n"),
    "tags.bio.bz2": bz2.compress(b"New B-LOC\nYork I-LOC\n\nEU B-ORG\n"),
}
STRAY = [b"\0", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\r", b"\n", b"\t", b'"', b"'"]
STRAY += [b"{", b"}", b"[", b"]", b"[" * 2000, b'{"x":' * 300, b"9" * 5000, b"1e999"]
STRAY += [b"[" * depth + b"]" * depth for depth in (100, 300, 850, 900, 930, 960)]
STRAY += [b"-1", b"NaN", b"null", b"true", b",", b":", b"|", b"[{[]:1}]", b"B-", b"I-"]
STRAY += [b"\xe2\x80\xa8", b"\xc2\x85", b"\x1c", b"\xef\xbb\xbf", b"-DOCSTART-", b" "]


@st.composite
def mutated(draw, sample):
    """A file that was whole once: pieces of it cut, doubled, or replaced."""
    content = bytearray(sample)
    for _ in range(draw(st.integers(1, 4))):
        first = draw(st.integers(0, len(content)))
        last = min(len(content), first + draw(st.sampled_from([0, 1, 2, 5, 20])))
        way = draw(st.sampled_from(["stray", "random", "cut", "double"]))
        if way == "stray":
            content[first:last] = draw(st.sampled_from(STRAY))
        elif way == "random":
            content[first:last] = draw(st.binary(max_size=4))
        elif way == "cut":
            del content[first:last]
        else:
            content[first:first] = content[first:last]
    return bytes(content)


def contents(sample):
    return mutated(sample) | mutated(sample) | st.binary(max_size=40)


def check_reading(read, place):
    """Either examples whose spans are inside their texts, or a sentence and a place."""
    try:
        examples = list(read())
    except DataError as error:
        assert str(error).startswith(str(place)) and len(str(error)) < 2000
        return
    for example in examples:
        example.text.encode("utf-8")
        for names in (example.labels, [kind for *_, kind in example.spans or ()]):
            assert all(name.encode("utf-8") for name in names or ())
        for start, end, _ in example.spans or ():
            assert 0 <= start < end <= len(example.text)


@doses("files", list(SAMPLES))
def test_a_file_is_read_or_a_sentence_names_it(way, count, tmp_path):
    path = tmp_path / way
    (tmp_path / "train_labels.txt").write_text("shop fashion\nsport\n")
    matrix = scipy.sparse.csr_matrix([[1.0, 0.0], [0.0, 1.0]])
    scipy.sparse.save_npz(tmp_path / "Y.trn.npz", matrix)

    def check(content):
        path.write_bytes(content)
        check_reading(lambda: bat_tf.data.read(path), tmp_path)
        with contextlib.suppress(DataError):  # of a file without a good row
            bat_tf.data.read(path, on_error="skip")

    fuzz(contents(SAMPLES[way]), check, count)


@functools.cache
def matrix_file():
    file = io.BytesIO()
    scipy.sparse.save_npz(file, scipy.sparse.csr_matrix(np.eye(2)), compressed=False)
    return file.getvalue()


@doses("matrix")
def test_a_matrix_of_labels_is_read_or_a_sentence_names_it(way, count, tmp_path):
    (tmp_path / "X.trn.txt").write_text("red shoes\na goal\n")

    def check(content):
        (tmp_path / "Y.trn.npz").write_bytes(content)
        read = functools.partial(bat_tf.data.read, tmp_path / "X.trn.txt")
        check_reading(read, tmp_path)

    fuzz(contents(matrix_file()), check, count)


NEWS = (
    b'<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" NEWID="1">\n<TOPICS><D>tea</D></TOPICS>'
    b"<TEXT>\n<TITLE>TEA &lt;X></TITLE><BODY>Up.\n  Down.&#3;</BODY></TEXT></REUTERS>"
)
NEWS += NEWS.replace(b"TRAIN", b"TEST")


@doses("sgml")
def test_sgml_is_read_or_a_sentence_names_it(way, count):
    def check(content):
        files = [("reut2-000.sgm", NEWS), ("reut2-001.sgm", content)]
        check_reading(
            lambda: iter_reuters(Source("news"), files, "train"), "reut2-001.sgm"
        )

    fuzz(contents(NEWS), check, count)


@doses("rows")
def test_a_row_of_a_bulk_job_is_read_or_a_reason_is_given(way, count):
    def check(line):
        for json_rows in (False, True):
            try:
                row = rows.read_row(7, line, json_rows)
            except ValueError as error:
                assert str(error)
            else:
                json.dumps(row, ensure_ascii=False).encode("utf-8")

    fuzz(contents(b'{"id": "p1", "text": "a lamp"}'), check, count)


# === The server ===

PREDICT = "/v1/models/pages:predict"
LIMITS = Limits(body_bytes=20_000, text_characters=500, rows=4)
STATUSES = {200, 400, 404, 405, 413}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "b64", "x"]), inner, max_size=2)
    ),
    max_leaves=8,
)
GOOD = TEXT.map(as_python)
ROWS = st.lists(GOOD, min_size=1, max_size=4)
BODY = st.builds(
    lambda key, rows: json.dumps({key: rows}).encode(),
    st.sampled_from(["instances", "instances", "inputs"]),
    ROWS | ROWS | ROWS | JSON,
)
BODY = BODY | BODY.flatmap(mutated)
TOKENS = b'{"signature_name": "serve_tokens", "instances": [{"token_ids": [2, 3], '
TOKENS += b'"padding_mask": [true, true]}]}'
PATHS = st.sampled_from(
    [PREDICT, PREDICT, PREDICT, "/v1/models/pages/versions/1:predict"]
)
ODD_PATHS = st.sampled_from(
    [
        "/",
        "/v1/models/pages",
        "/v1/models/pages/metadata",
        "/v1/models/\ud800",
        "/v1/models/pages/versions/" + "9" * 5000,
        "/v1/models/pages/versions/" + "9" * 5000 + ":predict",
        "/v1/models/pages/versions/٣",
        "//",
    ]
) | st.text(max_size=12).map(lambda text: f"/v1/models/{text}")
REQUESTS = st.tuples(
    st.sampled_from([PATHS] * 5 + [ODD_PATHS]).flatmap(lambda paths: paths),
    BODY | BODY | BODY | mutated(TOKENS) | st.binary(max_size=20),
    st.sampled_from(["POST"] * 9 + ["GET", "PUT", "HEAD"]),
)


@pytest.fixture(scope="module")
def engine():
    engine = Engine(served.folder("pages"), limits=LIMITS)
    yield engine
    engine.close()


async def call(app, path, body, method):
    """One request to an ASGI application: (status, body)."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    answers = []

    async def receive():
        # The client stays until it is answered.
        return messages.pop() if messages else await asyncio.Future()

    async def send(message):
        answers.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode("utf-8", "replace"),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    await app(scope, receive, send)
    return answers[0]["status"], b"".join(a.get("body", b"") for a in answers)


def check_answer(status, text, body):
    assert status in STATUSES
    if status != 200:
        assert text == b"" or isinstance(json.loads(text)["error"], str)
        return
    answer, asked = json.loads(text), json.loads(body)
    if "instances" in asked:
        for row, given_text in zip(
            answer["predictions"], asked["instances"], strict=True
        ):
            if isinstance(given_text, str) and "starts" in row:
                for start, end in zip(row["starts"], row["ends"], strict=True):
                    assert 0 <= start <= end <= len(given_text)


@doses("rest")
def test_any_request_is_answered_or_refused(way, count, engine):
    app, loop = make_app(engine), asyncio.new_event_loop()

    def check(request):
        path, body, method = request
        status, text = loop.run_until_complete(call(app, path, body, method))
        if method == "POST" and path == PREDICT:
            check_answer(status, text, body)
        assert status in STATUSES

    try:
        fuzz(REQUESTS, check, count)
    finally:
        loop.close()
    assert engine.held == 0


REQUEST = (
    f"POST {PREDICT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    'Content-Length: 25\r\n\r\n{"instances": ["a lamp"]}'
).encode()


@doses("socket")
def test_any_bytes_on_a_connection_leave_the_server_up(way, count):
    engine = Engine(served.folder("pages"), limits=LIMITS)
    with Server(engine, port=0) as server:

        def send(content):
            address = (server.host, server.port)
            with socket.create_connection(address, timeout=8) as client:
                # The server may close before it has read all.
                with contextlib.suppress(ConnectionError):
                    client.sendall(content)
                    client.shutdown(socket.SHUT_WR)
                    return client.recv(65536)

        def check(content):
            answer = send(content)
            assert not answer or answer.startswith(b"HTTP/1.1 ")
            assert not answer or b" 500 " not in answer.splitlines()[0]

        fuzz(contents(REQUEST), check, count)
        with socket.create_connection((server.host, server.port), timeout=8) as client:
            client.sendall(REQUEST)
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
