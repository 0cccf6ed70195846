import json
import shutil
import subprocess
import sys
from pathlib import Path

import deaths
import faults
import numpy as np
import pytest
import served
import tensorflow as tf
import tiny

import bat_tf
from bat_tf._internal import files
from bat_tf._internal.files import settled
from bat_tf.models import ServedTagger, export, ops_beyond_core
from bat_tf.models.export import check_export, fitting_tf_serving
from bat_tf.serving.versions import find_versions, read_signature_defs


@pytest.fixture(scope="module")
def model():
    model = tiny.tagger(max_length=64, overlap=16)
    model.fit(tiny.dataset(), epochs=2, verbose=0)
    return model


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    return model.export(tmp_path_factory.mktemp("models") / "pages" / "1")


@pytest.fixture(scope="module")
def other():
    """A model that answers otherwise."""
    model = tiny.tagger(max_length=64, overlap=16)
    model.heads[0].scores.bias.assign([-9.0, 9.0, 0, 0, 0])
    return model


@pytest.fixture(scope="module")
def other_folder(other, tmp_path_factory):
    return other.export(tmp_path_factory.mktemp("others") / "pages" / "1", check=False)


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
    assert {"MatMul", "StringLower"} <= set(about["ops"])
    assert about["tf_serving"]["oldest"] == "2.12"
    assert about["labels"] == ["brand", "product"]


def test_vocabulary_and_labels_are_assets(model, folder):
    assets = {path.name: path.read_text() for path in (folder / "assets").iterdir()}
    assert json.loads(assets["labels.json"]) == ["brand", "product"]
    assert json.loads(assets["vocabulary.json"]) == model.tokenizer.vocabulary


@pytest.mark.slow
def test_wordpiece_names_its_ops():
    folder = served.folder("pieces")
    check_export(served.model("pieces"), folder)
    ops = ops_beyond_core(folder)
    assert ops == ["FastWordpieceTokenizeWithOffsets", "NormalizeUTF8"]
    about = json.loads((folder / "assets.extra" / "bat_tf.json").read_text())
    assert "NormalizeUTF8 is linked since 2.11" in about["tf_serving"]["why"]


def test_nobody_is_promised_for_unknown_ops():
    found = fitting_tf_serving(["NormalizeUTF8", "MyOp"])
    assert found["oldest"] is None and "link MyOp" in found["why"]


@pytest.fixture(scope="module")
def loader(tmp_path_factory):
    """The C program that loads SavedModels without Python."""
    home = Path(tf.__file__).parent
    libraries = [
        *home.glob("libtensorflow_cc.so.2"),
        *home.glob("libtensorflow_framework.so.2"),
    ]
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler or len(libraries) < 2:
        pytest.skip("needs a C compiler and TensorFlow's C++ libraries")
    program = tmp_path_factory.mktemp("loader") / "savedmodel_loader"
    source = Path(__file__).parents[1] / "savedmodel_loader.c"
    options = ["-Wall", "-Werror", f"-I{home / 'include'}", f"-Wl,-rpath,{home}"]
    command = [compiler, source, "-o", program, *options, *libraries]
    subprocess.run(command, check=True)
    return program


@pytest.mark.parametrize(
    "name",
    ["pages", *(pytest.param(n, marks=pytest.mark.slow) for n in ("pieces", "news"))],
)
def test_loads_where_there_is_no_python(loader, name):
    folder, texts = served.folder(name), served.TEXTS
    libraries = []
    if ops_beyond_core(folder):
        import tensorflow_text

        home = Path(tensorflow_text.__file__).parent
        libraries = sorted((home / "python" / "ops").glob("*.so"))
    definition = read_signature_defs(folder)["serving_default"]
    names = sorted(definition.outputs)
    outputs = ",".join(definition.outputs[name].name for name in names)
    more = [definition.inputs["text"].name, outputs, *texts]
    process = subprocess.run(
        [loader, folder, ":".join(map(str, libraries)), *more],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    expected = served.model(name).serving_function()(tf.constant(texts))
    for key, line in zip(names, process.stdout.splitlines(), strict=True):
        dims, values = (part.split() for part in line.split(":"))
        ours = expected[key].numpy()
        assert [int(size) for size in dims] == list(ours.shape)
        if expected[key].dtype == tf.string:
            assert values == ["x" + text.hex() for text in ours.ravel()]
        else:
            np.testing.assert_allclose(np.float64(values), ours.ravel(), atol=1e-5)


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


@pytest.mark.slow
def test_a_relative_folder_will_do(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model.export("shop/1")
    assert (tmp_path / "shop" / "1" / "saved_model.pb").exists()


def test_check_finds_a_model_that_answers_otherwise(other, folder):
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


@pytest.mark.fault(
    "full disk while exporting",
    '"The SavedModel could not be written to …: … Nothing was changed there. Free some '
    'space or choose another folder."; the export that was there still serves',
)
@pytest.mark.parametrize(
    "leave",
    [30_000, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 200_000))],
)
def test_a_failed_export_leaves_the_old_one(model, folder, tmp_path, sees, leave):
    with faults.small_disk(tmp_path / "disk") as disk:
        target = disk.folder / "shop" / "1"
        shutil.copytree(folder, target)
        disk.fill(leave)
        with pytest.raises(OSError) as caught:
            model.export(target, check=False)
        sees(str(caught.value))
        assert [path.name for path in target.parent.iterdir()] == ["1"]
        assert bat_tf.load(target).tag("a lamp") == bat_tf.load(folder).tag("a lamp")


@pytest.mark.fault(
    "export that is killed at any of its writes, flushes, renames and removals",
    "the earlier export or the new one is there, whole; loading, serving or the next "
    "export finishes what was begun",
)
@pytest.mark.parametrize(
    "exchanges", [True, pytest.param(False, marks=pytest.mark.slow)]
)
def test_an_export_that_dies_leaves_the_old_or_the_new_model(
    other, folder, other_folder, tmp_path, monkeypatch, exchanges
):
    new = other_folder

    def graph(_, unfinished, scratch):
        """What TensorFlow wrote, which a forked process cannot ask again."""
        for name in ("labels.txt", "vocabulary.json"):
            files.disk.write(scratch / name, "")
        shutil.copytree(new, unfinished, dirs_exist_ok=True)
        shutil.rmtree(unfinished / "assets.extra")

    monkeypatch.setattr(export, "_write_graph", graph)
    monkeypatch.setattr(export, "check_finite", lambda _: None)
    monkeypatch.setattr(export, "check_export", lambda *_: None)
    warmup = deaths.contents(new / "assets.extra")
    warmup.pop("bat_tf.json")
    count = json.loads((new / "assets.extra" / "bat_tf.json").read_text())

    def write_warmup(_, unfinished, __):
        for name, content in warmup.items():
            (unfinished / "assets.extra" / name).write_bytes(content)
        return count["warmup_requests"]

    monkeypatch.setattr(export, "write_warmup", write_warmup)
    whole = [deaths.contents(one) for one in (folder, new)]
    assert whole[0] != whole[1]
    target, seen = tmp_path / "shop" / "pages" / "1", []

    def write():
        other.export(target)

    for step in range(99):
        shutil.rmtree(target.parent, ignore_errors=True)
        shutil.copytree(folder, target)
        died = deaths.dies(write, step, exchanges=exchanges)
        seen.append(whole.index(deaths.contents(settled(target))))
        if not died:
            break
        write()
        assert whole[1] == deaths.contents(target)
        assert [path.name for path in target.parent.iterdir()] == ["1"]
    # Old until the swap, new from there on; both have many steps.
    assert seen == sorted(seen) and seen.count(0) > 10 and seen.count(1) > 10
    assert bat_tf.load(target).tag("a lamp") == other.tag("a lamp")


@pytest.mark.parametrize(
    "open_it",
    [bat_tf.load, find_versions, lambda path: find_versions(path.parent)],
    ids=["load", "serve a version", "serve the newest"],
)
def test_loading_and_serving_finish_a_swap(folder, tmp_path, open_it):
    shutil.copytree(folder, tmp_path / "pages" / ".1.old")
    found = open_it(tmp_path / "pages" / "1")
    assert [path.name for path in (tmp_path / "pages").iterdir()] == ["1"]
    if isinstance(found, tuple):
        assert found == ("pages", [(1, tmp_path / "pages" / "1")])


def test_incomplete_folders_and_files_are_named(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="saved_model.pb, variables missing"):
        (tmp_path / "empty").mkdir()
        bat_tf.load(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="no model at"):
        bat_tf.load(tmp_path / "nowhere.keras")
    (tmp_path / "cut.keras").write_bytes(b"PK\x03\x04 half a file")
    with pytest.raises(OSError, match=r"cut.keras could not be read as a Keras model"):
        bat_tf.load(tmp_path / "cut.keras")
