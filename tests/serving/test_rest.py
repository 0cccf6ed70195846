import base64
import json

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from bat_tf.serving.rest import read_request, to_array, write_answer

TEXT = {"text": tf.TensorSpec([None], tf.string)}
TOKENS = {
    "token_ids": tf.TensorSpec([None, None], tf.int32),
    "padding_mask": tf.TensorSpec([None, None], tf.bool),
}
SPECS = {"serving_default": TEXT, "serve_tokens": TOKENS}


def read(value):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return read_request(body, SPECS.__getitem__)


@pytest.mark.parametrize(
    "request_body",
    [
        {"instances": ["東京", "b"]},
        {"instances": [{"text": "東京"}, {"text": "b"}]},
        {"instances": [{"b64": base64.b64encode("東京".encode()).decode()}, "b"]},
        {"inputs": ["東京", "b"]},
        {"inputs": {"text": ["東京", "b"]}, "signature_name": "serving_default"},
    ],
)
def test_every_form_of_texts(request_body):
    signature, inputs, rows = read(request_body)
    assert signature == "serving_default"
    assert inputs["text"].tolist() == ["東京".encode(), b"b"]
    assert rows == ("instances" in request_body)


def test_several_inputs():
    row = {"token_ids": [1, 2], "padding_mask": [True, False]}
    name = {"signature_name": "serve_tokens"}
    _, by_row, _ = read({**name, "instances": [row, row]})
    columns = {key: [value, value] for key, value in row.items()}
    _, by_column, _ = read({**name, "inputs": columns})
    for inputs in (by_row, by_column):
        assert inputs["token_ids"].tolist() == [[1, 2], [1, 2]]
        assert inputs["token_ids"].dtype == np.int32
        assert inputs["padding_mask"].dtype == bool


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON"),
        (b'{"instances": [', r"not JSON: .*\(char 15\)"),
        (b'{"instances": ["\xff"]}', "not JSON: .* byte 0xff in position 16"),
        (b"[" * 100_000, "not JSON: "),
        (b'{"instances": [' + b"9" * 5000 + b"]}", "not JSON: Exceeds the limit"),
        ([], "instances.* in rows or .*inputs.* in columns"),
        ({}, "instances.* in rows or .*inputs.* in columns"),
        ({"inputs": [], "instances": []}, "one of the two"),
        ({"instances": "a"}, "`text` must be strings of shape .* Received: 'a'"),
        ({"instances": [1]}, r"`text` must be strings.* Received: \[1\]"),
        ({"instances": [None]}, "must be strings"),
        ({"instances": [["a"]]}, "must be strings of shape"),
        ({"instances": [["a"], "b"]}, "must be strings"),
        ({"instances": [{"txt": "a"}]}, "must be `text`. Received: {'txt': 'a'}"),
        ({"instances": [{"text": "a"}, {}]}, "must be `text`. Received: {}"),
        ({"instances": ["a", {"text": "a"}]}, "must be strings"),
        ({"instances": [{"b64": "?"}]}, "not JSON"),
        ({"instances": [{"b64": 1}]}, "not JSON"),
        ({"instances": ["\ud800"]}, "must be strings"),
        ({"inputs": {"txt": ["a"]}}, "must be `text`. Received: {'txt'"),
        ({"inputs": "a"}, "must be strings"),
        ({"instances": ["a"], "signature_name": 1}, "`signature_name` must be"),
        ({"instances": [1], "signature_name": "serve_tokens"}, "`token_ids`. Rec"),
        ({"inputs": [1], "signature_name": "serve_tokens"}, "`padding_mask`, `tok"),
    ],
)
def test_what_is_wrong_is_said(body, reason):
    with pytest.raises(HTTPException, match=reason) as caught:
        read(body)
    assert caught.value.status_code == 400 and len(caught.value.detail) < 400


@pytest.mark.parametrize("value", [[2**40], [1.5], [True], ["1"], [None], [10**400]])
def test_only_integers_are_integers(value):
    with pytest.raises(HTTPException):
        to_array("ids", value, tf.TensorSpec([None], tf.int32))


def test_a_number_for_each_row():
    specs = {
        "top_k": tf.TensorSpec([None], tf.int32),
        "threshold": tf.TensorSpec([None], tf.float32),
    }
    body = b'{"inputs": {"top_k": [0, 3], "threshold": [NaN, 1]}}'
    _, inputs, _ = read_request(body, lambda name: specs)
    assert inputs["top_k"].tolist() == [0, 3] and inputs["threshold"][1] == 1
    assert np.isnan(inputs["threshold"][0])


def test_answers_in_rows_and_columns():
    found = {
        "tags": np.array([[b"a", "東".encode()], [b"", b""]], object),
        "scores": np.float32([[0.1, 0.25], [0, 0]]),
        "num_tags": np.int32([2, 0]),
    }
    rows = json.loads(write_answer(found, True))["predictions"]
    assert rows[0] == {"tags": ["a", "東"], "scores": [0.1, 0.25], "num_tags": 2}
    columns = json.loads(write_answer(found, False))["outputs"]
    assert columns["num_tags"] == [2, 0] and columns["scores"][0] == [0.1, 0.25]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "b64", "x"]), inner, max_size=2)
    ),
    max_leaves=8,
)


@given(st.sampled_from(["instances", "inputs"]), st.sampled_from(list(SPECS)), JSON)
def test_any_json_is_read_or_refused(key, signature, value):
    try:
        _, inputs, _ = read({key: value, "signature_name": signature})
    except HTTPException:
        return
    assert set(inputs) == set(SPECS[signature])


@pytest.mark.parametrize("depth", range(880, 1000, 4))
def test_a_depth_that_is_just_read_can_be_refused_too(depth):
    for body in (b"[" * depth + b"]" * depth, b'{"x":' * depth + b"1" + b"}" * depth):
        with pytest.raises(HTTPException):
            read(b'{"instances": [' + body + b"]}")
        with pytest.raises(HTTPException):
            read(body)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(body):
    with pytest.raises(HTTPException):
        read(body)
