import sys

import numpy as np
import pytest

from bat_tf._internal.validation import DataError
from bat_tf.data import Example, TextDataset, build_tfds, read

tfds = pytest.importorskip("tensorflow_datasets")
features = tfds.features


def shop(count=30):
    return TextDataset(
        Example(
            f"{n} 紅鞋 shoes",
            spans=[(len(str(n)) + 1, len(str(n)) + 3, "product")],
            id=f"№{n}",
        )
        for n in range(count)
    )


def store(name, data_dir, feature_dict, rows):
    """Writes a set as any user of TFDS might have it."""
    return tfds.dataset_builders.store_as_tfds_dataset(
        name,
        "1.0.0",
        features.FeaturesDict(feature_dict),
        {"train": list(enumerate(rows))},
        data_dir=data_dir,
        disable_shuffling=True,
    )


def test_files_and_data_sets_with_spans_come_back_as_they_were(tmp_path):
    train, valid = shop(), TextDataset([Example("", spans=[]), Example("x", spans=[])])
    valid.save(tmp_path / "valid.jsonl.gz")
    splits = {"train": train, "validation": read(tmp_path / "valid.jsonl.gz")}
    builder = build_tfds("own_spans", splits, tmp_path / "sets", description="Shoes.")
    assert isinstance(builder, tfds.core.GeneratorBasedBuilder)
    assert builder.info.description == "Shoes."
    data = read("tfds:own_spans", data_dir=tmp_path / "sets")
    assert list(data) == list(train) and data.name == "tfds:own_spans/train"
    for split in ("valid", "validation"):
        assert list(read("tfds:own_spans", split, data_dir=tmp_path / "sets")) == list(
            valid
        )
    part = read("tfds:own_spans", "train[:20%]", data_dir=tmp_path / "sets")
    assert list(part) == list(train[:6])
    assert "apache_beam" not in sys.modules


def test_labels_come_back_and_an_existing_set_is_not_overwritten(tmp_path, capsys):
    data = TextDataset(
        [Example("A goal", labels=["sport", "ünews"]), Example("", labels=[])]
    )
    build_tfds("own_labels", {"train": data}, tmp_path)
    assert capsys.readouterr().out == ""
    assert list(read("tfds:own_labels", data_dir=tmp_path)) == list(data)
    with pytest.raises(FileExistsError, match="Raise `version`, or delete that folder"):
        build_tfds("own_labels", {"train": data[:1]}, tmp_path)
    build_tfds("own_labels", {"train": data[:1]}, tmp_path, version="1.0.1")
    assert len(read("tfds:own_labels", data_dir=tmp_path)) == 1


def test_one_truth_value_per_label(tmp_path):
    forms = {"comment_text": features.Text(), "joy": np.bool_, "fear": np.bool_}
    rows = [
        {"comment_text": "ha", "joy": True, "fear": False},
        {"comment_text": "boo", "joy": True, "fear": True},
        {"comment_text": "so", "joy": False, "fear": False},
    ]
    store("feelings", tmp_path, forms, rows)
    labels = read("tfds:feelings", data_dir=tmp_path).labels
    assert labels == [("joy",), ("fear", "joy"), ()]
    assert read("tfds:feelings", data_dir=tmp_path, labels=["fear"]).labels == [
        (),
        ("fear",),
        (),
    ]


def test_tokens_with_tags_become_spans(tmp_path):
    tag = features.ClassLabel(names=["O", "B-LOC", "I-LOC", "B-PER", "I-PER"])
    forms = {
        "tokens": features.Sequence(features.Text()),
        "pos": features.Sequence(features.ClassLabel(names=["NN", "VB"])),
        "ner": features.Sequence(tag),
    }
    rows = [
        {
            "tokens": ["Zoë", "saw", "New", "York"],
            "pos": ["NN"] * 4,
            "ner": ["B-PER", "O", "B-LOC", "I-LOC"],
        },
        {"tokens": ["no"], "pos": ["VB"], "ner": ["O"]},
    ]
    store("tagged", tmp_path, forms, rows)
    data = read("tfds:tagged", data_dir=tmp_path)
    assert data.texts == ["Zoë saw New York", "no"]
    assert data.spans == [((0, 3, "PER"), (8, 16, "LOC")), ()]


def test_classes_strings_and_named_features(tmp_path):
    forms = {
        "title": features.Text(),
        "body": features.Text(),
        "class": features.ClassLabel(names=["bad", "good"]),
        "topics": features.Sequence(features.ClassLabel(names=["a", "b"])),
        "place": features.Text(),
        "heat": np.float32,
    }
    rows = [
        {
            "title": "T",
            "body": "B",
            "class": "good",
            "topics": ["b", "a"],
            "place": "Rome",
            "heat": 0.7,
        },
        {
            "title": "t",
            "body": "b",
            "class": -1,
            "topics": [],
            "place": "",
            "heat": 0.2,
        },
    ]
    store("many", tmp_path, forms, rows)

    def labels(**options):
        return read("tfds:many", text="body", data_dir=tmp_path, **options).labels

    assert labels() == [("b", "a"), ()]
    assert labels(labels="class") == [("good",), ()]
    assert labels(labels="place") == [("Rome",), ()]
    assert labels(labels=["heat"]) == [("heat",), ()]
    with pytest.raises(ValueError, match="`text` must be the name.*body, class, heat"):
        read("tfds:many", data_dir=tmp_path)
    with pytest.raises(ValueError, match="`labels` must be the name .*'nothing'"):
        labels(labels="nothing")
    with pytest.raises(ValueError, match="`labels` must be the name .*'cold'"):
        labels(labels=["heat", "cold"])


@pytest.mark.parametrize(
    "name", ["goemotions", "imdb_reviews", "ag_news_subset", "glue/cola"]
)
def test_the_features_of_public_sets_are_found(tmp_path, name):
    # TFDS's mock makes random rows with the set's own features; no network is needed.
    with tfds.testing.mock_data(num_examples=3):
        data = read(f"tfds:{name}", data_dir=tmp_path)
    assert len(data) == 3 and data.task == "labels"


def test_public_sets_with_tags_become_spans(tmp_path):
    forms = dict(tfds.builder("conll2003", data_dir=tmp_path).info.features.items())
    rows = [
        {
            "tokens": ["Rome", "fell"],
            "pos": ["NNP", "VBD"],
            "chunks": ["B-NP", "B-VP"],
            "ner": ["B-LOC", "O"],
        },
        {"tokens": ["so"], "pos": ["RB"], "chunks": ["O"], "ner": ["O", "O"]},
    ]
    store("conll_like", tmp_path, forms, rows)
    with pytest.raises(DataError, match="line 2: 1 tokens, but 2 tags"):
        read("tfds:conll_like", data_dir=tmp_path)
    data = read("tfds:conll_like", data_dir=tmp_path, on_error="skip")
    assert data.spans == [((0, 4, "LOC"),)]


def test_goemotions_has_its_28_labels(tmp_path):
    with tfds.testing.mock_data(num_examples=40):
        data = read("tfds:goemotions", data_dir=tmp_path)
    assert len(data.counts()) == 28 and data.counts()["grief"] > 0


def test_a_row_that_is_not_text_is_an_error_or_skipped(tmp_path):
    forms = {"text": features.Text(), "label": features.ClassLabel(names=["a"])}
    rows = [{"text": b"caf\xe9", "label": "a"}, {"text": "tea", "label": "a"}]
    store("latin", tmp_path, forms, rows)
    with pytest.raises(DataError, match="tfds:latin, train, line 1: .*utf-8"):
        read("tfds:latin", data_dir=tmp_path)
    data = read("tfds:latin", data_dir=tmp_path, on_error="skip")
    assert data.texts == ["tea"] and len(data.skipped) == 1


def test_wrong_names_are_sentences(tmp_path):
    with pytest.raises(
        ValueError, match="There is no set 'nonsense' in tensorflow-data"
    ):
        read("tfds:nonsense", data_dir=tmp_path)
    with pytest.raises(FileNotFoundError, match="'goemotions' is not prepared in"):
        read("tfds:goemotions", data_dir=tmp_path, download=False)
    with pytest.raises(TypeError, match="Its options are: text, labels, data_dir"):
        read("tfds:goemotions", overlaps="longest")
    build_tfds("small", {"train": shop(2)}, tmp_path)
    with pytest.raises(ValueError, match="`split` must be a split of small: train"):
        read("tfds:small", "test", data_dir=tmp_path)


def test_a_download_that_fails_is_a_sentence(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", fail)
    with pytest.raises(
        OSError, match="could not prepare 'goemotions' .*no route to host"
    ):
        read("tfds:goemotions", data_dir=tmp_path)


def test_what_cannot_be_built_is_a_sentence(tmp_path):
    with pytest.raises(ValueError, match="`name` must be .*small letters"):
        build_tfds("My Set", {"train": shop(2)}, tmp_path)
    labels = TextDataset([Example("x", labels=["a"])])
    for splits in (
        {},
        {"train": TextDataset([])},
        {"train": "train.jsonl"},
        {"train": shop(2), "test": labels},
    ):
        with pytest.raises(ValueError, match="`splits` must hold data sets"):
            build_tfds("mixed", splits, tmp_path)


def test_without_tensorflow_datasets_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(ImportError, match=r'pip install "bat-tf\[tfds\]"'):
        read("tfds:goemotions")
