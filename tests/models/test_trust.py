"""Models of strangers: refused before anything of them runs, unless trusted."""

import io
import json
import stat
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
import served
import tensorflow as tf
import tiny
from faults import run_command

import bat_tf
from bat_tf.models.operations import ALLOWED
from bat_tf.models.trust import UntrustedError, check_saved_model
from bat_tf.serving.engine import Engine

TEXT = tf.TensorSpec([None], tf.string, name="text")
SECRET = "secret.txt"


def nested(function):
    """A function deep inside of others: in a loop, in a branch, in a call."""
    inner = tf.function(function)

    def body(number, text):
        changed = tf.cond(number > 0, lambda: inner(text), lambda: inner(text))
        return number + 1, tf.reshape(changed, tf.shape(text))

    return lambda text: tf.while_loop(
        lambda number, _: number < 2, body, (0, text), shape_invariants=None
    )[1]


def write_file(text):
    with tf.control_dependencies([tf.io.write_file(SECRET, "written")]):
        return tf.identity(text)


def print_file(text):
    with tf.control_dependencies([tf.print(text, output_stream=f"file://{SECRET}")]):
        return tf.identity(text)


def restore_file(text):
    with tf.control_dependencies(
        [
            tf.raw_ops.RestoreV2(
                prefix=SECRET,
                tensor_names=["x"],
                shape_and_slices=[""],
                dtypes=[tf.string],
            )[0]
        ]
    ):
        return tf.identity(text)


def save_file(text):
    with tf.control_dependencies(
        [
            tf.raw_ops.SaveV2(
                prefix=SECRET, tensor_names=["x"], shape_and_slices=[""], tensors=[text]
            )
        ]
    ):
        return tf.identity(text)


HOSTILE = {
    "ReadFile": lambda text: tf.map_fn(lambda _: tf.io.read_file(SECRET), text),
    "WriteFile": write_file,
    "MatchingFiles": lambda text: tf.io.matching_files("/*")[: tf.size(text)],
    "PyFunc": lambda text: tf.numpy_function(lambda x: x, [text], tf.string),
    "EagerPyFunc": lambda text: tf.py_function(lambda x: x, [text], tf.string),
    "PrintV2": print_file,
    "RestoreV2": restore_file,
    "SaveV2": save_file,
    "TextLineDataset": lambda text: tf.map_fn(
        lambda _: next(iter(tf.data.TextLineDataset(SECRET))), text
    ),
    "DecodeProtoV2": lambda text: tf.raw_ops.DecodeProtoV2(
        bytes=text,
        message_type="x",
        field_names=["y"],
        output_types=[tf.string],
        descriptor_source=SECRET,
    ).values[0][:, 0],
}


def write_model(folder, function):
    """A SavedModel that looks like one of ours, and does what `function` does."""

    @tf.function(input_signature=[TEXT])
    def serve(text):
        found = tf.reshape(function(text), [-1, 1])
        return {
            "labels": found,
            "scores": tf.ones_like(found, tf.float32),
            "num_labels": tf.ones_like(found[:, 0], tf.int32),
        }

    module = tf.Module()
    module.serve = serve
    module.weight = tf.Variable([1.0, 2.0])
    tf.saved_model.save(module, str(folder), signatures={"serving_default": serve})
    (folder / "assets.extra").mkdir()
    (folder / "assets.extra" / "bat_tf.json").write_text('{"task": "labels"}')
    return folder


@pytest.mark.fault(
    "a SavedModel of a stranger that reads or writes files, runs Python or reaches the "
    "network, however deep inside of its functions",
    '"… is not loaded: it holds operations that may read or write files, run code or '
    "reach the network, or that are not known to be harmless: … If you trust whoever "
    'made it, pass trust=True, or --trust on the command line."',
)
@pytest.mark.parametrize("name", HOSTILE)
def test_operations_that_reach_outside_are_refused(name, tmp_path, sees, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inside = name not in ("TextLineDataset", "DecodeProtoV2")
    function = nested(HOSTILE[name]) if inside else HOSTILE[name]
    folder = write_model(tmp_path / "model" / "1", function)
    for load in (bat_tf.load, Engine):
        with pytest.raises(UntrustedError, match=name) as found:
            load(folder)
        sees(str(found.value))
    assert not Path(SECRET).exists()


def test_a_trusted_model_is_loaded(tmp_path, monkeypatch, capsys):
    folder = write_model(tmp_path / "model" / "1", HOSTILE["EagerPyFunc"])
    assert bat_tf.load(folder, trust=True).label(["a"]) == [[("a", 1.0)]]
    monkeypatch.setenv("BAT_TF_TRUST", "1")
    assert bat_tf.load(folder).label(["a"]) == [[("a", 1.0)]]
    with pytest.raises(UntrustedError):
        bat_tf.load(folder, trust=False)
    monkeypatch.delenv("BAT_TF_TRUST")
    code, shown = run_command(capsys, monkeypatch, "tag", "a", "-m", folder)
    assert code == 2 and "is not loaded: it holds operations" in shown
    code, shown = run_command(capsys, monkeypatch, "tag", "a", "-m", folder, "--trust")
    assert code == 0 and shown.startswith("a\t")


def test_all_exports_and_bundled_models_pass():
    for name in ("pages", "pieces", "news", "experts"):
        check_saved_model(served.folder(name))
    for bundled in Path(bat_tf.__file__).parent.glob("saved_models/*/[0-9]*"):
        check_saved_model(bundled)
    assert not {"ReadFile", "PyFunc", "SaveV2", "RestoreV2", "PrintV2"} & ALLOWED


def change(folder, edit):
    """Edits the protobuf of a SavedModel."""
    from tensorflow.core.protobuf import saved_model_pb2

    path = folder / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    edit(saved.meta_graphs[0])
    path.write_bytes(saved.SerializeToString())
    return folder


def saver_as_signature(meta):
    name = meta.saver_def.save_tensor_name
    meta.signature_def["serving_default"].outputs["labels"].name = name


def saver_before_the_answer(meta):
    node = next(n for n in meta.graph_def.node if n.op == "NoOp")
    node.input.append("^" + meta.saver_def.restore_op_name)


def saver_that_writes(meta):
    meta.saver_def.restore_op_name = meta.saver_def.save_tensor_name.partition(":")[0]


def saver_when_loading(meta):
    saver = next(
        f.signature.name
        for f in meta.graph_def.library.function
        if any(node.op == "SaveV2" for node in f.node_def)
    )
    meta.object_graph_def.concrete_functions[saver].SetInParent()


def function_called_like_an_operation(meta):
    function = meta.graph_def.library.function.add()
    function.signature.name = "ReadFile"
    meta.graph_def.node.add(name="x", op="ReadFile")


@pytest.mark.parametrize(
    "edit",
    [
        saver_as_signature,
        saver_before_the_answer,
        saver_that_writes,
        saver_when_loading,
        function_called_like_an_operation,
    ],
)
def test_what_saves_variables_serves_nothing_else(edit, tmp_path):
    folder = write_model(tmp_path / "1", tf.identity)
    check_saved_model(folder)
    with pytest.raises(UntrustedError, match="it holds operations that may"):
        check_saved_model(change(folder, edit))


@pytest.mark.fault(
    "a SavedModel of TensorFlow 1",
    '"… is not loaded: it is a model of TensorFlow 1, which runs what it likes when '
    'loaded. If you trust whoever made it, …"',
)
def test_a_model_of_tensorflow_1_is_refused(tmp_path, sees):
    """It names an operation that runs when it is loaded; here, what saves variables."""
    folder = write_model(tmp_path / "1", tf.identity)

    def saver_while_loading(meta):
        meta.ClearField("object_graph_def")
        del meta.signature_def["__saved_model_init_op"]
        saver = meta.saver_def.save_tensor_name.partition(":")[0]
        del meta.collection_def["saved_model_main_op"]
        meta.collection_def["saved_model_main_op"].node_list.value.append(saver)
        place = meta.graph_def.node.add(name="place", op="Const")
        place.attr["dtype"].type = tf.string.as_datatype_enum
        place.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(f"{tmp_path}/x"))
        node = next(n for n in meta.graph_def.node if n.name == saver)
        node.input[0] = "place"

    with pytest.raises(UntrustedError) as found:
        bat_tf.load(change(folder, saver_while_loading))
    sees(str(found.value))
    assert not list(tmp_path.glob("x*"))
    bat_tf.load(folder, trust=True)  # that it is needed
    assert list(tmp_path.glob("x*"))


def huge_constant(meta):
    node = meta.graph_def.node.add(name="huge", op="Const")
    tensor = node.attr["value"].tensor
    tensor.dtype, tensor.float_val[:] = tf.float32.as_datatype_enum, [1.0]
    tensor.tensor_shape.dim.add(size=2**40)


def huge_variable(meta):
    node = next(n for n in meta.object_graph_def.nodes if n.HasField("variable"))
    node.variable.shape.dim[0].size = 2**40


@pytest.mark.parametrize("edit", [huge_constant, huge_variable])
def test_tensors_larger_than_their_files_are_refused(edit, tmp_path):
    folder = write_model(tmp_path / "1", tf.identity)
    with pytest.raises(UntrustedError, match="takes 4,398,0.. MB, while its files"):
        check_saved_model(change(folder, edit))


def test_an_asset_outside_of_the_folder_is_refused(tmp_path):
    folder = write_model(tmp_path / "1", tf.identity)

    def edit(meta):
        meta.asset_file_def.add(filename="../../secret.txt")

    with pytest.raises(UntrustedError, match="names a file outside of itself"):
        check_saved_model(change(folder, edit))


# === .keras files ===


@pytest.fixture(scope="module")
def keras_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "model.keras"
    served.model("news").save(path)
    return path


def rewritten(source, target, **members):
    """A copy of a `.keras` file with other members; a pair is (name, content)."""
    with (
        zipfile.ZipFile(source) as old,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, members.pop(name, old.read(name)))
        for name, content in members.items():
            new.writestr(name, content)
    return target


def weights(edit):
    file = io.BytesIO()
    with h5py.File(file, "w") as group:
        edit(group)
    return file.getvalue()


def shape_bomb(group):
    group.create_dataset("w", (2**34,), "float32", chunks=(2**20,), compression="gzip")


def packed_bomb(group):
    group.create_dataset("w", data=np.zeros(2 * 10**8, "int8"), compression="gzip")
    group.create_dataset("v", data=np.zeros(3 * 10**8, "int8"), compression="gzip")


def outside(group):
    group.create_dataset("w", (4,), "float32", external=[("/etc/passwd", 0, 16)])


def link(group):
    group["w"] = h5py.ExternalLink("/etc/passwd", "/x")


@pytest.mark.fault(
    "a small `.keras` file that unpacks to gigabytes, or declares arrays of them",
    '"… is not loaded: what is in it takes … MB, while its files have … MB; …"',
)
@pytest.mark.parametrize("bomb", [shape_bomb, packed_bomb])
def test_a_keras_file_that_unpacks_to_gigabytes(bomb, keras_file, tmp_path, sees):
    path = rewritten(
        keras_file, tmp_path / "b.keras", **{"model.weights.h5": weights(bomb)}
    )
    assert path.stat().st_size < 5e6
    with pytest.raises(UntrustedError) as found:
        bat_tf.load(path)
    sees(str(found.value))


def test_a_zip_bomb_is_refused_before_it_is_read(keras_file, tmp_path):
    path = rewritten(
        keras_file, tmp_path / "b.keras", **{"assets/more.txt": b"0" * 450_000_000}
    )
    with pytest.raises(UntrustedError, match="takes 45. MB, while its files have 0"):
        bat_tf.load(path)


def test_arrays_of_numpy_are_no_way_round(keras_file, tmp_path):
    arrays, path = io.BytesIO(), tmp_path / "b.keras"
    np.savez_compressed(arrays, w=np.zeros(450_000_000, "int8"))
    rewritten(keras_file, path, **{"model.weights.npz": arrays.getvalue()})
    with pytest.raises(UntrustedError, match="takes 45. MB, while its files have"):
        bat_tf.load(path)


@pytest.mark.parametrize("edit", [outside, link])
def test_arrays_that_lie_elsewhere_are_refused(edit, keras_file, tmp_path):
    path = rewritten(
        keras_file, tmp_path / "b.keras", **{"model.weights.h5": weights(edit)}
    )
    with pytest.raises(UntrustedError, match="lies in another file|is a link to some"):
        bat_tf.load(path)


@pytest.mark.parametrize("name", ["../outside.txt", "/outside.txt", "assets/../../x"])
def test_members_that_leave_the_archive_are_refused(name, keras_file, tmp_path):
    path = rewritten(keras_file, tmp_path / "b.keras", **{name: b"x"})
    with pytest.raises(UntrustedError, match="names a file outside of itself"):
        bat_tf.load(path)


def test_links_in_the_archive_are_refused(keras_file, tmp_path):
    path = rewritten(keras_file, tmp_path / "b.keras")
    with zipfile.ZipFile(path, "a") as archive:
        member = zipfile.ZipInfo("assets/link")
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(member, "/etc/passwd")
    with pytest.raises(UntrustedError, match="names a file outside of itself"):
        bat_tf.load(path)


@pytest.mark.fault(
    "a `.keras` file of a kilobyte whose config asks for terabytes of weights, or for "
    "a billion layers",
    '"… is not loaded: its layers ask for weights of … MB or more, and it may have …"',
)
def test_a_config_that_asks_for_terabytes(keras_file, tmp_path, sees):
    with zipfile.ZipFile(keras_file) as archive:
        config = archive.read("config.json").decode()
    size = json.loads(config)["config"]["encoder"]["config"]["vocabulary_size"]
    config = config.replace(
        f'"vocabulary_size": {size}', '"vocabulary_size": 50000000000'
    )
    path = rewritten(keras_file, tmp_path / "b.keras", **{"config.json": config})
    with pytest.raises(UntrustedError) as found:
        bat_tf.load(path)
    sees(str(found.value))
    add_weight = keras.layers.Layer.add_weight
    assert add_weight.__qualname__ == "Layer.add_weight"
    assert bat_tf.load(keras_file).label(["oil"])


def test_a_config_that_asks_for_a_billion_layers(keras_file, tmp_path, monkeypatch):
    monkeypatch.setenv("BAT_TF_MAX_UNPACKED_MB", "10")
    with zipfile.ZipFile(keras_file) as archive:
        config = archive.read("config.json").decode()
    config = config.replace('"num_layers": 1,', '"num_layers": 1000000000,')
    path = rewritten(keras_file, tmp_path / "b.keras", **{"config.json": config})
    with pytest.raises(UntrustedError, match="layers ask for weights of 10 MB or more"):
        bat_tf.load(path)
    assert bat_tf.load(keras_file).label(["oil"])


def test_a_file_that_is_two_kinds_at_once_is_refused(tmp_path):
    """Keras reads HDF5 by its name, whatever stands behind it."""
    path = tmp_path / "model.h5"
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)]).save(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("small.txt", "")
    with pytest.raises(UntrustedError, match=r"does not end in \.keras"):
        bat_tf.load(path)


def test_our_own_files_are_loaded(keras_file, tmp_path):
    tagger = tiny.tagger(tiny.dataset(8))
    tagger.save(tmp_path / "tagger.keras")
    assert bat_tf.load(tmp_path / "tagger.keras").kinds == tagger.kinds
