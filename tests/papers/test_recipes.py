"""ME-XML's recipes: the settings of its tables, on files of the release's shape."""

import json
from pathlib import Path

import numpy as np
import pytest
from label_cases import documents
from safetensors.numpy import save_file

from bat_tf.data import read
from bat_tf.runs.build import build
from bat_tf.runs.recipes import settings_for
from bat_tf.runs.run import run
from examples.papers.tables.table import PRINTED

RECIPES = Path(__file__).parents[2] / "examples" / "recipes"
# Recipe → column of Tables 5 and 6.
COLUMNS = {"eurlex": "EUR-LEX", "wiki10": "Wiki", "amazoncat": "Amazon"}
LAYERS, WIDTH = 12, 8


def printed(id, column):
    """A column of a printed table, by row."""
    place = PRINTED[id]["columns"].index(column)
    return {row["name"]: row["values"][place] for row in PRINTED[id]["rows"]}


@pytest.mark.parametrize("name", COLUMNS)
def test_settings_are_those_of_the_paper(name):
    settings = settings_for(RECIPES / f"me_xml_{name}.yaml", data="-")
    lengths = printed("s3-table6", COLUMNS[name])
    assert settings.budget.batch_size == lengths["Batch size"]
    assert settings.budget.epochs == lengths["Epochs"]
    assert settings.text.max_length == lengths["T"]
    own, rates = settings.optimizer, printed("s3-table5", COLUMNS[name])
    assert own.learning_rate == rates["Output MLP"]
    words = own.learning_rate * own.module_rates["attention/label_kernel"]
    assert words == pytest.approx(rates["Word-label"])
    backbone = own.learning_rate * own.module_rates["encoder"]
    assert backbone == pytest.approx(rates["Transformer"])
    assert settings.loss.name == "bce"
    assert settings.heads.settings["experts"] == ["A-1", "D-12"]
    assert settings.heads.settings["diversity"] == 0.01


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    """A BERT of twelve layers with random weights and the words of `documents`."""
    folder, rng = tmp_path_factory.mktemp("bert"), np.random.default_rng(0)
    words = sorted({word for text in documents(64).texts for word in text.split()})
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", "utf-8")
    shapes = {
        "embeddings.word_embeddings": (len(words), WIDTH),
        "embeddings.position_embeddings": (512, WIDTH),
        "embeddings.token_type_embeddings": (2, WIDTH),
        "embeddings.LayerNorm": (WIDTH,),
    }
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes[f"{layer}.attention.{part}"] = (WIDTH, WIDTH)
        shapes[f"{layer}.attention.output.LayerNorm"] = (WIDTH,)
        shapes[f"{layer}.intermediate.dense"] = (16, WIDTH)
        shapes[f"{layer}.output.dense"] = (WIDTH, 16)
        shapes[f"{layer}.output.LayerNorm"] = (WIDTH,)
    tensors = {}
    for name, shape in shapes.items():
        tensors[f"{name}.weight"] = 0.1 * rng.normal(size=shape).astype("f4")
        if "_embeddings" not in name:
            tensors[f"{name}.bias"] = np.zeros(shape[0], "f4")
    save_file(tensors, folder / "model.safetensors")
    config = {
        "model_type": "bert",
        "vocab_size": len(words),
        "hidden_size": WIDTH,
        "intermediate_size": 16,
        "num_attention_heads": 2,
        "num_hidden_layers": LAYERS,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture
def release(tmp_path):
    """Small files of the shape of the LightXML release: a text, its labels a line."""
    for part, data in {"train": documents(24), "test": documents(12, seed=1)}.items():
        texts = "".join(f"{text}\n" for text in data.texts)
        labels = "".join(" ".join(names) + "\n" for names in data.labels)
        (tmp_path / f"{part}_raw_texts.txt").write_text(texts, "utf-8")
        (tmp_path / f"{part}_labels.txt").write_text(labels, "utf-8")
    return tmp_path


def settings_of(name, backbone, release):
    return settings_for(
        RECIPES / f"me_xml_{name}.yaml",
        **{
            "data.train": str(release / "train_raw_texts.txt"),
            "data.test": str(release / "test_raw_texts.txt"),
            "encoder.backbone": str(backbone),
            "budget.epochs": 1,
            "output": str(release / "run"),
        },
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "eurlex",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("wiki10", "amazoncat")),
    ],
)
def test_a_recipe_runs_on_the_files_of_the_release(name, backbone, release):
    settings = settings_of(name, backbone, release)
    settings.text.max_length = 16
    _, report = run(settings, verbose=0)
    assert 0 <= report["test"]["values"]["precision_at_1"] <= 1


def test_each_module_learns_at_the_rate_of_table_5(backbone, release):
    settings = settings_of("amazoncat", backbone, release)
    model = build(settings, read(release / "train_raw_texts.txt"))
    model.optimizer.build(model.trainable_variables)
    factors = dict(
        zip(
            [variable.path for variable in model.trainable_variables],
            model.optimizer._factors,
            strict=True,
        )
    )
    words = {f for path, f in factors.items() if "attention/label_kernel" in path}
    backbones = {f for path, f in factors.items() if "/encoder/" in f"/{path}"}
    rest = {
        f
        for path, f in factors.items()
        if "attention/label_kernel" not in path and "/encoder/" not in f"/{path}"
    }
    assert (words, backbones, rest) == ({0.25}, {0.025}, {1.0})
