import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tiny

import bat_tf
from bat_tf.serving import ServedTagger, ops_beyond_core
from bat_tf.serving.export import check_export


@pytest.fixture(scope="module")
def model():
    model = tiny.tagger(max_length=64, overlap=16)
    model.fit(tiny.dataset(), epochs=2, verbose=0)
    return model


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    return model.export(tmp_path_factory.mktemp("models") / "pages" / "1")


def test_signature_is_fixed(folder):
    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
    (name, spec), *rest = signature.structured_input_signature[1].items()
    assert (name, spec.dtype, spec.shape.as_list(), rest) == (
        "text",
        tf.string,
        [None],
        [],
    )
    outputs = {
        name: (spec.dtype, spec.shape.rank)
        for name, spec in signature.structured_outputs.items()
    }
    assert outputs == {
        "tags": (tf.string, 2),
        "starts": (tf.int32, 2),
        "ends": (tf.int32, 2),
        "scores": (tf.float32, 2),
        "num_tags": (tf.int32, 1),
    }


def test_saved_model_answers_as_the_model(model, folder):
    texts = [*tiny.dataset(10, "test").texts, "", "long " * 300 + "lamp by Veloria"]
    served = ServedTagger(folder).tag(texts)
    for ours, theirs in zip(model.tag(texts), served, strict=True):
        assert [tag[:3] for tag in ours] == [tag[:3] for tag in theirs]
        np.testing.assert_allclose(
            [tag.score for tag in ours], [tag.score for tag in theirs], atol=1e-5
        )


def test_words_need_core_tensorflow_only(folder):
    assert ops_beyond_core(folder) == []
    about = json.loads((folder / "assets.extra" / "bat_tf.json").read_text())
    assert about["ops_beyond_core"] == []
    assert about["labels"] == ["brand", "product"]


def test_vocabulary_and_labels_are_assets(model, folder):
    assets = {path.name: path.read_text() for path in (folder / "assets").iterdir()}
    assert assets["labels.txt"].split() == ["brand", "product"]
    assert json.loads(assets["vocabulary.json"]) == model.tokenizer.vocabulary


def test_wordpiece_names_its_ops(tmp_path):
    model = tiny.tagger(
        tokenizer=bat_tf.TextTokenizer("wordpiece", vocabulary_size=300)
    )
    folder = model.export(tmp_path / "1")
    assert "FastWordpieceTokenizeWithOffsets" in ops_beyond_core(folder)


def test_loads_where_bat_tf_was_never_imported(folder):
    code = (
        "import sys, tensorflow as tf\n"
        "model = tf.saved_model.load(sys.argv[1])\n"
        "found = model.signatures['serving_default'](text=tf.constant(['a lamp']))\n"
        "print(sorted(found), 'bat_tf' in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, folder], capture_output=True, text=True
    )
    expected = "['ends', 'num_tags', 'scores', 'starts', 'tags'] False"
    assert process.stdout.splitlines()[-1] == expected


def test_a_relative_folder_will_do(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model.export("shop/1")
    assert (tmp_path / "shop" / "1" / "saved_model.pb").exists()


def test_check_finds_a_model_that_answers_otherwise(model, folder):
    other = tiny.tagger(max_length=64, overlap=16)
    other.get_layer("tag_logits").bias.assign([-9.0, 9.0, 0, 0, 0])
    with pytest.raises(RuntimeError, match="answers otherwise"):
        check_export(other, folder)


def test_an_earlier_export_is_replaced_but_nothing_else(model, folder, tmp_path):
    model.export(folder, check=False)
    assert (folder / "saved_model.pb").exists()
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to_keep.txt").write_text("dear")
    with pytest.raises(FileExistsError, match="something else than a SavedModel"):
        model.export(tmp_path / "letters")
    assert (tmp_path / "letters" / "to_keep.txt").read_text() == "dear"


def test_a_failed_export_leaves_the_old_one(model, folder, monkeypatch):
    before = (folder / "saved_model.pb").read_bytes()

    def full_disk(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", full_disk)
    with pytest.raises(OSError, match="No space left.*Nothing was changed"):
        model.export(folder)
    assert (folder / "saved_model.pb").read_bytes() == before
    assert [path.name for path in folder.parent.iterdir()] == ["1"]


def test_incomplete_folders_and_files_are_named(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="saved_model.pb, variables missing"):
        (tmp_path / "empty").mkdir()
        bat_tf.load(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="no model at"):
        bat_tf.load(tmp_path / "nowhere.keras")
    (tmp_path / "cut.keras").write_bytes(b"PK\x03\x04 half a file")
    with pytest.raises(OSError, match=r"cut.keras could not be read as a Keras model"):
        bat_tf.load(tmp_path / "cut.keras")
