import numpy as np
import pytest
import tensorflow as tf
import tiny

from bat_tf.data import Example, Span, TextDataset, pipeline
from bat_tf.data.pipeline import TARGETS
from bat_tf.data.preprocessors import LabelPreprocessor, TagPreprocessor
from bat_tf.text import TextTokenizer


@pytest.fixture(scope="module")
def tokenizer():
    tokenizer = TextTokenizer("words")
    tokenizer.adapt(tiny.dataset().texts)
    return tokenizer


@pytest.fixture(scope="module")
def tagging(tokenizer):
    return TagPreprocessor(tokenizer, tiny.dataset().kinds)


@pytest.fixture(scope="module")
def examples(tagging):
    return tagging.encode(tiny.dataset())


def rows_of(batches):
    return [
        tuple(ids[mask].tolist())
        for inputs, _ in batches
        for ids, mask in zip(
            inputs["token_ids"].numpy(), inputs["padding_mask"].numpy(), strict=True
        )
        if mask.any()
    ]


def test_tags_stand_on_the_words_that_are_marked():
    data = TextDataset([Example("buy the Zorv lamp now", (Span(8, 12, "brand"),))])
    tokenizer = TextTokenizer("words")
    tokenizer.adapt(data.texts)
    tagging = TagPreprocessor(tokenizer, ["brand"])
    examples = tagging.encode(data)
    assert examples[TARGETS].to_list() == [[0, 0, 1, 0, 0]]
    assert tagging.class_counts(examples) == [4, 1, 0]


def test_every_example_comes_once_an_epoch(examples, tagging):
    ordered = rows_of(tagging.batches(examples, batch_size=5))
    shuffled = rows_of(tagging.batches(examples, batch_size=5, seed=3))
    assert sorted(ordered) == sorted(shuffled)
    assert len(ordered) == examples[TARGETS].nrows()
    assert ordered != shuffled


def test_order_is_a_function_of_seed_and_epoch(examples, tagging):
    epoch = tf.Variable(0, dtype=tf.int64)
    batches = tagging.batches(examples, seed=3, epoch=epoch)
    first = rows_of(batches)
    epoch.assign(1)
    second = rows_of(batches)
    # A resumed run starts with a fresh pipeline at a later epoch.
    again = tagging.batches(examples, seed=3, epoch=epoch)
    assert rows_of(again) == second
    assert first != second
    epoch.assign(0)
    assert rows_of(batches) == first


def test_an_order_can_be_kept(examples, tagging):
    kept = [
        rows_of(tagging.batches(examples, batch_size=1, seed=seed, shuffle=False))
        for seed in (3, 4)
    ]
    given = [tuple(row) for row in examples["token_ids"].to_list()]
    assert kept == [given, given]


def test_cardinality_is_known_for_the_progress_bar(examples, tagging):
    batches = tagging.batches(examples, batch_size=7, seed=0)
    assert batches.cardinality().numpy() == sum(1 for _ in batches)


def test_no_epoch_ends_with_a_wait_for_a_tuner(examples, tagging):
    batches = tagging.batches(examples, batch_size=7, seed=0)
    assert batches.options().autotune.enabled is False


def test_fixed_shapes_are_few_and_hold_the_same_examples(examples, tagging):
    loose = tagging.batches(examples, batch_size=7)
    fixed = tagging.batches(examples, batch_size=7, fixed_shapes=True)
    shapes = {tuple(tags.shape) for _, tags in fixed}
    assert len(shapes) <= 5
    assert all(rows == 7 for rows, _ in shapes)
    assert sorted(rows_of(fixed)) == sorted(rows_of(loose))
    count = sum(int(np.sum(tags.numpy() >= 0)) for _, tags in fixed)
    assert count == examples[TARGETS].flat_values.shape[0]


def test_long_texts_are_cut_not_lost(tokenizer):
    text = " ".join(f"word{number}" for number in range(100))
    data = TextDataset([Example(text, ())])
    examples = TagPreprocessor(tokenizer, ["brand"], max_length=32, overlap=0)
    examples = examples.encode(data)
    assert max(examples[TARGETS].row_lengths().numpy()) <= 32
    assert sum(examples[TARGETS].row_lengths().numpy()) == 100


def test_special_tokens_have_no_tag():
    data = tiny.dataset(8)
    tokenizer = TextTokenizer("wordpiece", vocabulary_size=300)
    tokenizer.adapt(data.texts)
    tagging = TagPreprocessor(tokenizer, data.kinds)
    for inputs, tags in tagging.batches(tagging.encode(data), batch_size=4):
        assert inputs["token_ids"].shape == tags.shape
        assert np.all(tags.numpy()[:, 0] == -1)
        assert np.all(tags.numpy()[~inputs["padding_mask"].numpy()] == -1)


@pytest.mark.parametrize("limits", [(2, 2**22), (4096, 12), (4096, 1)])
def test_how_many_texts_are_tokenised_at_a_time_changes_nothing(
    tokenizer, monkeypatch, limits
):
    texts = ["", "red lamp", "a very long line about a lamp", "", "hat", "red hat"]
    expected = pipeline.text_examples(texts, tokenizer, 64)
    monkeypatch.setattr(pipeline, "MAX_TEXTS", limits[0])
    monkeypatch.setattr(pipeline, "MAX_CHARACTERS", limits[1])
    found = pipeline.text_examples(texts, tokenizer, 64)
    assert len(list(pipeline.chunks(texts))) > 1
    for name, values in expected.items():
        assert found[name].to_list() == values.to_list()
    assert pipeline.text_examples([], tokenizer, 64)["token_ids"].nrows() == 0


def test_thousands_of_labels_stay_ids_in_batches(tokenizer):
    names = [f"label {number}" for number in range(20_000)]
    rows = [["label 3", "label 19999"], [], ["label 7"]]
    data = TextDataset(Example("red lamp", labels=row) for row in rows)
    labelling = LabelPreprocessor(tokenizer, names)
    examples = labelling.encode(data)
    assert examples[TARGETS].flat_values.shape == [3]
    ((_, ids),) = labelling.batches(examples, batch_size=3)
    found = {tuple(names[i] for i in row if i >= 0) for row in ids.numpy()}
    # A column of -1 is always there: no shape takes ids for a multi-hot.
    assert ids.dtype == tf.int32 and ids.shape == [3, 3]
    assert found == set(map(tuple, rows))


def test_states_of_documents_are_padded_in_rows_alone(tokenizer):
    data = TextDataset([Example("a lamp", labels=["x"]), Example("a", labels=[])])
    labelling = LabelPreprocessor(tokenizer, ["x"], max_length=16)
    rows = labelling.encode(data)
    rows[pipeline.DOCUMENT_STATES] = tf.constant([[1.0, 2.0], [3.0, 4.0]], tf.float16)
    fixed = {"batch_size": 4, "seed": 0, "fixed_shapes": True}
    ((inputs, _),) = labelling.batches(rows, **fixed)
    states = inputs[pipeline.DOCUMENT_STATES]
    assert states.shape == (4, 2) and states.dtype == tf.float32
    for ids, state in zip(inputs["token_ids"].numpy(), states.numpy(), strict=True):
        assert state.tolist() == ([1.0, 2.0] if (ids > 0).sum() == 2 else [3.0, 4.0])
    none = {name: values[:0] for name, values in inputs.items()}
    one = pipeline.one_row_at_least(none)
    assert one[pipeline.DOCUMENT_STATES].numpy().tolist() == [[0.0, 0.0]]
