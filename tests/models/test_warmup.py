import sys

import pytest
import served
import tensorflow as tf

from bat_tf.models.warmup import FILE, read_warmup, write_warmup


def test_every_request_is_one_that_the_model_answers():
    folder = served.folder("pieces")
    _, signatures = served.signatures("pieces")
    requests = list(read_warmup(folder))
    assert {r.model_spec.signature_name for r in requests} == set(signatures)
    assert {r.model_spec.name for r in requests} == {"pieces"}
    for request in requests:
        inputs = {
            k: tf.io.parse_tensor(v.SerializeToString(), v.dtype)
            for k, v in request.inputs.items()
        }
        found = signatures[request.model_spec.signature_name](**inputs)
        assert {len(value) for value in found.values()} == {
            len(value) for value in inputs.values()
        }


def test_without_the_stubs_it_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_serving.apis", None)
    with pytest.warns(UserWarning, match=r"no warm-up requests.*bat-tf\[serve\]"):
        assert write_warmup(served.model("pages"), tmp_path, "pages") == 0
    assert not (tmp_path / FILE).exists()


def test_a_model_without_requests_has_none(tmp_path):
    assert list(read_warmup(tmp_path)) == []
