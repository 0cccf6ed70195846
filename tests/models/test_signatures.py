import numpy as np
import pytest
import served
import tensorflow as tf
from served import TEXTS, call

import bat_tf
from bat_tf.cli.terminal import model_path
from bat_tf.models.warmup import read_warmup
from bat_tf.serving.versions import read_signature_defs

TAGS = {
    "tags": ("DT_STRING", 2),
    "starts": ("DT_INT32", 2),
    "ends": ("DT_INT32", 2),
    "scores": ("DT_FLOAT", 2),
    "num_tags": ("DT_INT32", 1),
}
TOKEN_TAGS = {name: TAGS[name] for name in ("tags", "scores", "num_tags")}
LABELS = {
    "labels": ("DT_STRING", 2),
    "scores": ("DT_FLOAT", 2),
    "num_labels": ("DT_INT32", 1),
}
METADATA = {
    "task": ("DT_STRING", 1),
    "tokenizer": ("DT_STRING", 1),
    "bat_tf": ("DT_STRING", 1),
    "tensorflow": ("DT_STRING", 1),
    "max_length": ("DT_INT32", 1),
    "labels": ("DT_STRING", 2),
    "thresholds": ("DT_FLOAT", 2),
}
TEXT = {"text": ("DT_STRING", 1)}
OPTIONS = {"top_k": ("DT_INT32", 1), "threshold": ("DT_FLOAT", 1)}
TOKENS = {"token_ids": ("DT_INT32", 2), "padding_mask": ("DT_BOOL", 2)}


def tokens(name, texts, signature_inputs=("token_ids", "padding_mask")):
    packed = served.model(name).tokenizer(texts)
    return {key: packed[key] for key in signature_inputs}


@pytest.mark.parametrize(
    ("name", "more", "answers", "token_answers"),
    [
        ("pages", {}, TAGS, TOKEN_TAGS),
        ("pieces", {"case": ("DT_INT32", 2)}, TAGS, TOKEN_TAGS),
        ("news", {}, LABELS, LABELS),
        ("experts", {}, LABELS, LABELS),
    ],
)
def test_the_names_are_pinned(name, more, answers, token_answers):
    def listed(tensors):
        kinds = tf.dtypes.DType
        found = {}
        for key, info in tensors.items():
            dtype = f"DT_{kinds(info.dtype).name.upper()}"
            dtype = dtype.replace("FLOAT32", "FLOAT")
            found[key] = (dtype, len(info.tensor_shape.dim))
            assert info.tensor_shape.dim[0].size == -1
        return found

    found = {
        key: (listed(definition.inputs), listed(definition.outputs))
        for key, definition in read_signature_defs(served.folder(name)).items()
        if not key.startswith("__")
    }
    options = {"serve_options": ({**TEXT, **OPTIONS}, answers)}
    assert found == {
        "serving_default": (TEXT, answers),
        "serve_tokens": ({**TOKENS, **more}, token_answers),
        "metadata": (TEXT, METADATA),
        **(options if answers is LABELS else {}),
    }


@pytest.mark.parametrize(
    ("name", "count"), [("pages", "num_tags"), ("news", "num_labels")]
)
def test_unequal_texts_are_answered_as_one_by_one(name, count):
    together = call(name, "serving_default", text=TEXTS)
    assert together[count].sum() > 3 and len(set(together[count])) > 1
    for row, text in enumerate(TEXTS):
        alone = call(name, "serving_default", text=[text])
        assert alone[count][0] == together[count][row]
        for key in set(alone) - {count}:
            ours, theirs = alone[key][0], together[key][row, : alone[count][0]]
            if key == "scores":
                np.testing.assert_allclose(ours, theirs, atol=1e-5)
            else:
                assert ours.tolist() == theirs.tolist()


def test_tokens_get_the_tags_of_their_text():
    texts = [TEXTS[0], "a lamp"]
    packed = served.model("pages").tokenizer(texts)
    found = call("pages", "serve_tokens", **tokens("pages", texts))
    assert found["num_tags"].tolist() == packed["padding_mask"].numpy().sum(1).tolist()
    spans = call("pages", "serving_default", text=texts)
    for row in range(2):
        length = found["num_tags"][row]
        assert set(found["tags"][row, length:]) <= {b""}
        starts = packed["starts"].numpy()[row, :length].tolist()
        opened = [
            (start, tag[2:])
            for start, tag in zip(starts, found["tags"][row], strict=False)
            if tag.startswith(b"B-")
        ]
        count = spans["num_tags"][row]
        columns = (spans["starts"][row, :count].tolist(), spans["tags"][row, :count])
        assert opened == list(zip(*columns, strict=True))


def test_special_tokens_and_later_pieces_have_no_tag():
    inputs = tokens("pieces", ["unthinkable lampshades"], [*TOKENS, "case"])
    found = call("pieces", "serve_tokens", **inputs)
    vocabulary = served.model("pieces").tokenizer.vocabulary
    for token, tag in zip(
        inputs["token_ids"].numpy()[0], found["tags"][0], strict=True
    ):
        piece = vocabulary[token]
        silent = piece in ("[CLS]", "[SEP]") or piece.startswith("##")
        assert (tag == b"") == silent


@pytest.mark.parametrize("name", ["news", "experts"])
def test_tokens_get_the_labels_of_their_text(name):
    texts = [text for text, _ in served.NEWS]
    ours = call(name, "serve_tokens", **tokens(name, texts))
    theirs = call(name, "serving_default", text=texts)
    assert ours["labels"].tolist() == theirs["labels"].tolist()
    np.testing.assert_allclose(ours["scores"], theirs["scores"], atol=1e-5)


@pytest.mark.parametrize(
    ("ids", "mask", "reason"),
    [
        (np.ones([1, 65]), np.ones([1, 65]), "1 to 64 columns"),
        (np.full([1, 3], 10**6), np.ones([1, 3]), "between 0 and"),
        (np.full([1, 3], -1), np.ones([1, 3]), "between 0 and"),
        (np.ones([2, 3]), np.ones([1, 3]), "one shape"),
    ],
)
def test_tokens_that_make_no_sense_are_refused(ids, mask, reason):
    with pytest.raises(tf.errors.InvalidArgumentError, match=reason):
        call(
            "pages",
            "serve_tokens",
            token_ids=ids.astype("int32"),
            padding_mask=mask > 0,
        )


def test_metadata_says_what_the_model_is():
    found = call("pages", "metadata", text=["", ""])
    assert found["labels"].tolist() == [[b"brand", b"product"]] * 2
    assert found["thresholds"].shape == (2, 0)
    assert found["bat_tf"].tolist() == [bat_tf.__version__.encode()] * 2
    found = call("news", "metadata", text=[""])
    assert found["labels"][0].tolist() == [b"energy", b"markets", b"weather"]
    assert found["thresholds"].tolist() == [[0.0, 0.0, 0.0]]
    assert (found["task"][0], found["max_length"][0]) == (b"labels", 256)


@pytest.mark.parametrize(
    ("name", "answers"), [("product_pages", TAGS), ("reuters_topics", LABELS)]
)
def test_models_that_come_along_keep_the_contract(name, answers):
    folder = model_path(name)
    found = read_signature_defs(folder)
    assert {"serving_default", "serve_tokens", "metadata"} <= set(found)
    assert set(found["serving_default"].outputs) == set(answers)
    assert list(read_warmup(folder))
