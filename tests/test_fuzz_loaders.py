"""Models, label spaces and targets from anywhere: loaded, or refused with a sentence.

What a sentence is: one of the errors that these doors promise, with words in it.
"""

import contextlib
import functools
import io
import json
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np
import served
import tensorflow as tf
from fuzzing import doses, fuzz
from hypothesis import strategies as st
from test_fuzz import contents, mutated

import bat_tf
from bat_tf.data import LabelSpace
from bat_tf.data.preprocessors import LabelPreprocessor, Preprocessor, TagPreprocessor
from bat_tf.data.texts import as_texts, holds_texts
from bat_tf.encoders.folder import open_tensors
from bat_tf.models.trust import check_keras_file, check_saved_model
from bat_tf.text import TextTokenizer


@contextlib.contextmanager
def sentence(*kinds):
    """Takes one of the promised errors, if it says something."""
    try:
        yield
    except kinds as error:
        assert len(str(error)) > 10 and "Traceback" not in str(error)


NUMBERS = st.sampled_from([0, 1, -1, 2**31, 2**63, 10**30, 1e400, -0.5, True, None])
VALUES = st.recursive(
    NUMBERS | st.sampled_from(["", "a", "\ud800", "\0", "x" * 300]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "names", "config"]), inner, max_size=2)
    ),
    max_leaves=6,
)


def with_other_values(whole):
    """JSON of the same form, in which a value somewhere is another one."""

    def places(value, path=()):
        yield path
        listed = enumerate(value) if isinstance(value, list) else ()
        for key, inner in value.items() if isinstance(value, dict) else listed:
            yield from places(inner, (*path, key))

    def change(drawn):
        path, other = drawn
        copy = [json.loads(json.dumps(whole))]
        spot = copy
        for key in (0, *path)[:-1]:
            spot = spot[key]
        spot[(0, *path)[-1]] = other
        return json.dumps(copy[0]).encode()

    return st.tuples(st.sampled_from(list(places(whole))), VALUES).map(change)


def json_like(whole):
    source = json.dumps(whole).encode()
    return with_other_values(whole) | contents(source)


SPACE = LabelSpace(["a", "b"], [1, 2], 3, {"a": "of a"}).get_config()


@doses("label spaces")
def test_a_label_space_is_read_or_refused(way, count, tmp_path):
    path = tmp_path / "labels.json"

    def check(content):
        path.write_bytes(content)
        with sentence(ValueError):
            space = LabelSpace.load(path)
            assert all(name.encode() for name in space.names)

    fuzz(json_like(SPACE), check, count)


def saved_preprocessor():
    tokenizer = TextTokenizer("words", ["a", "b"])
    return keras.saving.serialize_keras_object(LabelPreprocessor(tokenizer, ["x", "y"]))


@doses("preprocessors", ["config", "vocabulary"])
def test_a_preprocessor_is_read_or_refused(way, count, tmp_path):
    LabelPreprocessor(TextTokenizer("words", ["a", "b"]), ["x", "y"]).save(tmp_path)
    name = {"config": "preprocessor.json", "vocabulary": "vocabulary.json"}[way]
    whole = json.loads((tmp_path / name).read_text())

    def check(content):
        (tmp_path / name).write_bytes(content)
        with sentence(OSError):
            Preprocessor.load(tmp_path)

    fuzz(json_like(whole), check, count)


HEADER = {
    "__metadata__": {"format": "pt"},
    "a": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]},
    "b": {"dtype": "I8", "shape": [3], "data_offsets": [8, 11]},
}


@doses("safetensors")
def test_a_header_of_tensors_is_read_or_refused(way, count, tmp_path):
    path = tmp_path / "model.safetensors"

    def with_length(source):
        return len(source).to_bytes(8, "little") + source + b"\0" * 11

    whole = with_length(json.dumps(HEADER).encode())

    def check(content):
        path.write_bytes(content)
        with sentence(OSError):
            file = open_tensors(path)
            for shape in (file.get_slice(name).get_shape() for name in file.keys()):
                assert all(size >= 0 for size in shape) and np.prod(shape) <= 88

    fuzz(with_other_values(HEADER).map(with_length) | contents(whole), check, count)


@functools.cache
def preprocessors():
    tokenizer = TextTokenizer("words", ["a", "b"])
    return LabelPreprocessor(tokenizer, ["x", "y"]), TagPreprocessor(tokenizer, ["k"])


ARRAYS = st.sampled_from(
    [
        *(np.zeros(shape) for shape in ((2,), (2, 2), (2, 0), (0,), (2, 2, 2), ())),
        *(np.array(x, object) for x in (["x", "y"], [None, 3], [["x"], ["y"]])),
        *(np.eye(2), np.eye(2) * np.nan, np.eye(2, dtype=int) * 9, np.eye(2) > 0),
        *(
            np.array(["x", "y"]),
            np.array([b"x", b"\xff"]),
            np.ones((2, 2), "complex64"),
        ),
        tf.constant(["x", "y"]),
        tf.constant([[1.0, 0.0], [0.0, 1.0]]),
        tf.ragged.constant([["x"], []]),
        tf.ragged.constant([[1], [0, 1]]),
    ]
)
SINGLE = NUMBERS | st.sampled_from(["x", "y", "k", "", "\ud800", b"x", b"\xff", 3j, {}])
SPAN = st.lists(NUMBERS | st.sampled_from([0, 1, "k", "no"]), max_size=4)
ROW = (
    SINGLE | st.lists(SINGLE, max_size=3) | st.lists(SPAN, max_size=2) | st.just({"x"})
)
TARGETS = ARRAYS | ROW | st.lists(ROW, max_size=3) | st.tuples(ROW, ROW)
TEXTS = TARGETS | st.lists(st.sampled_from(["a", "a b", "", b"\xff"]), max_size=3)


@doses("targets")
def test_texts_and_targets_of_any_form_are_taken_or_refused(way, count):
    def check(drawn):
        x, y, weights = drawn
        if not holds_texts(x):
            return
        for preprocessor in preprocessors():
            with sentence(ValueError, TypeError):
                preprocessor.encode(as_texts(x, y, weights), training=True)

    fuzz(st.tuples(TEXTS, TARGETS, st.none() | TARGETS), check, count)


# === Models ===


@functools.cache
def keras_members():
    """Name → content of a small `.keras` file."""
    path = served.shelf() / "fuzzed.keras"
    served.model("news").save(path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


@functools.cache
def small_archive():
    weights = io.BytesIO()
    with h5py.File(weights, "w") as file:
        file["layers/dense/vars/0"] = np.ones((2, 3), "float32")
    return packed({"config.json": b"{}", "model.weights.h5": weights.getvalue()})


@doses("archives")
def test_an_archive_is_looked_at_or_refused(way, count, tmp_path):
    path = tmp_path / "model.keras"

    def check(content):
        path.write_bytes(content)
        # What is no zip, or no HDF5, Keras says so; `bat_tf.load` makes it a sentence.
        with contextlib.suppress(Exception):
            assert check_keras_file(path) > 0

    fuzz(contents(small_archive()), check, count)


@functools.cache
def small_graph():
    module = tf.Module()
    module.weight = tf.Variable([1.0])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(text):
        return {"labels": text[:, None], "scores": module.weight * tf.ones([1, 1])}

    module.serve = serve
    folder = served.shelf() / "graph" / "1"
    tf.saved_model.save(module, str(folder), signatures={"serving_default": serve})
    return folder, (folder / "saved_model.pb").read_bytes()


@doses("graphs")
def test_a_graph_is_looked_at_or_refused(way, count):
    folder, whole = small_graph()

    def check(content):
        (folder / "saved_model.pb").write_bytes(content)
        with sentence(Exception):
            check_saved_model(folder)

    fuzz(contents(whole), check, count)


MODELS = ["config.json", "metadata.json", "model.weights.h5", "whole"]


@doses("models", [*MODELS, "SavedModel"], ["config.json", "SavedModel"])
def test_a_model_is_loaded_or_a_sentence_names_it(way, count, tmp_path):
    if way == "SavedModel":
        folder, whole = small_graph()
        path, strategy = folder, contents(whole)
        place = folder / "saved_model.pb"
    else:
        members = keras_members()
        path = place = tmp_path / "model.keras"
        if way == "whole":
            strategy = contents(packed(members))
        else:
            content = members[way]
            strategy = mutated(content)
            if way == "config.json":
                strategy |= with_other_values(json.loads(content))
            strategy = strategy.map(lambda content: packed({**members, way: content}))

    def check(content):
        Path(place).write_bytes(content)
        with sentence(OSError, ValueError):
            model = bat_tf.load(path)
            model.label(["oil"])

    fuzz(strategy, check, count)
