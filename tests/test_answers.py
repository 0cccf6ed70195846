"""One way to an answer: every door gives the same, whatever is asked."""

import json

import numpy as np
import pytest
import served
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import bat_tf
from bat_tf import cli
from bat_tf.answers import check_options, label_answers, option_inputs
from bat_tf.serving import Client, tag_corpus
from bat_tf.serving.engine import Engine
from bat_tf.serving.server import Server

WORDS = [
    "oil",
    "gas",
    "rain",
    "shares",
    "may",
    "lamp",
    "Veloria",
    "東京",
    "é",
    "👍🏽",
    "\n",
]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=90), min_size=1, max_size=4)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "top_k": st.integers(1, 5),
        "threshold": st.sampled_from([0.0, 0.25, 0.5, 0.73, 0.99]),
    },
)
LABELLERS = ["news", "experts"]


def loaded(name):
    return bat_tf.load(served.folder(name))


def same(one, other):
    """The same names in the same places, scores within 1e-5; ties aside."""
    assert len(one) == len(other)
    for ours, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(
            sorted(row[-1] if len(row) == 2 else row.score for row in ours),
            sorted(row[-1] if len(row) == 2 else row.score for row in theirs),
            atol=1e-5,
        )
        strip = [tuple(row[:3]) if len(row) > 2 else row[0] for row in ours]
        others = [tuple(row[:3]) if len(row) > 2 else row[0] for row in theirs]
        if len({round(row[-1], 5) for row in ours if len(row) == 2}) == len(ours):
            assert strip == others
        else:
            assert sorted(strip) == sorted(others)


@pytest.mark.slow
@settings(max_examples=25)
@given(name=st.sampled_from(LABELLERS), texts=TEXTS, options=OPTIONS)
def test_labels_are_the_same_at_every_door_inside_a_process(name, texts, options):
    texts = [" ".join(words) for words in texts]
    model, exported = served.model(name), loaded(name)
    expected = model.label(texts, **options)
    same(exported.label(texts, **options), expected)
    same(model.answer(texts, 2, **options), expected)
    same([model.label(text, **options) for text in texts], expected)
    signature = exported._signatures["serve_options"]
    found = signature(
        text=tf.constant(texts),
        **{k: tf.constant(v) for k, v in option_inputs(len(texts), **options).items()},
    )
    assert found["num_labels"].numpy().tolist() == [len(row) for row in expected]


@settings(max_examples=15)
@given(name=st.sampled_from(["pages", "pieces"]), texts=TEXTS)
def test_tags_are_the_same_at_every_door_inside_a_process(name, texts):
    texts = [" ".join(words) for words in texts]
    model = served.model(name)
    expected = model.tag(texts)
    same(loaded(name).tag(texts), expected)
    same(model.answer(texts, 1), expected)
    for text, tags in zip(texts, expected, strict=True):
        assert all(text[tag.start : tag.end] == tag.text for tag in tags)


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"top_k": 2}, marks=pytest.mark.slow),
        pytest.param({"threshold": 0.6}, marks=pytest.mark.slow),
        pytest.param({"top_k": 1, "threshold": 0.2}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", LABELLERS)
def test_client_bulk_and_command_line_answer_alike(name, options, tmp_path):
    texts = [text for text, _ in served.NEWS]
    expected = served.model(name).label(texts, **options)
    with Server(Engine(served.folder(name)), port=0) as server:
        same(Client(server.url, name).label(texts, **options), expected)
    rows = tmp_path / "texts.jsonl"
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    tag_corpus(rows, tmp_path / "out", served.folder(name), workers=1, **options)
    parts = sorted((tmp_path / "out").glob("part-*.jsonl"))
    found = [json.loads(line) for part in parts for line in part.open()]
    assert [row["labels"] for row in found] == [[n for n, _ in row] for row in expected]
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
    command = ["tag", *texts, "-m", str(served.folder(name)), *flags]
    result = CliRunner().invoke(cli.app, [*command, "-o", str(tmp_path / "cli.jsonl")])
    assert result.exit_code == 0, result.exception
    lines = [json.loads(line) for line in (tmp_path / "cli.jsonl").open()]
    assert [row["labels"] for row in lines] == [[n for n, _ in row] for row in expected]


def test_a_tagger_has_no_options():
    for model in (served.model("pages"), loaded("pages")):
        with pytest.raises(ValueError, match="`top_k` must be None.*keywords"):
            model.answer(["a lamp"], top_k=2)
    with pytest.raises(ValueError, match="`threshold` must be a finite number"):
        check_options("labels", threshold=float("nan"))
    with pytest.raises(ValueError, match="`top_k` must be an integer >= 1"):
        served.model("news").label("oil", top_k=0)


def test_every_model_says_what_it_is():
    for name, task in (("pages", "spans"), ("news", "labels")):
        model, exported = served.model(name), loaded(name)
        assert (model.task, exported.task) == (task, task)
        assert model.names == exported.names
        assert (model.exported, exported.exported) == (False, True)


def test_fitted_thresholds_and_no_limit_are_the_wire_s_defaults():
    logits = tf.constant([[1.0, -1.0, 0.5], [-2.0, -3.0, -1.0]])
    cut, meaning = [0.0, -2.0, 0.7], (2.0, 0.0)

    def ask(top_k, threshold):
        found = label_answers(
            logits,
            ["a", "b", "c"],
            cut,
            *meaning,
            tf.constant([top_k] * 2),
            tf.constant([threshold] * 2),
        )
        counts = found["num_labels"].numpy()
        rows = zip(found["labels"].numpy().tolist(), counts, strict=True)
        return [[name.decode() for name in row[:count]] for row, count in rows]

    assert ask(0, np.nan) == [["a", "b"], []]
    assert ask(1, np.nan) == [["a"], []]
    assert ask(2, -np.inf) == [["a", "c"], ["c", "a"]]
    assert ask(0, 0.5) == [["a", "c"], []]
