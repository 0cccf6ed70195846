"""Writes SavedModels for TF Serving, and proves that they work before it says so."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

from bat_tf._internal import files
from bat_tf._internal.files import atomic_folder, settled
from bat_tf._internal.version import VERSION
from bat_tf.models.signatures import signatures
from bat_tf.models.warmup import write_warmup
from bat_tf.training.finite import check_finite

# The first TF Serving that links each tensorflow-text operation a model may need, and
# the oldest TensorFlow, with the tensorflow-text of its time, that exports ran in.
LINKED_SINCE = {
    "RegexSplitWithOffsets": "2.11",
    "NormalizeUTF8": "2.11",
    "FastWordpieceTokenizeWithOffsets": "2.11",
}
OLDEST_TRIED = "2.12"

PROBE_TEXTS = ["", "Café 東京 👍🏽 and a plain word", "二つの単語", "x " * 40]

_PROBE = """
import json, sys
import tensorflow as tf
if sys.argv[2] == "text":
    import tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
found = serve(text=tf.constant(json.loads(sys.argv[3])))
assert "bat_tf" not in sys.modules
answer = {name: value.numpy().tolist() for name, value in found.items()}
for name, value in found.items():
    if value.dtype == tf.string:
        answer[name] = [[word.decode() for word in row] for row in answer[name]]
print("ANSWER" + json.dumps(answer))
"""


def export_model(model, folder, check=True, verbose=False):
    """Writes `<folder>` with a `serving_default` that takes raw strings.

    `bat_tf.models.signatures` has the other signatures. The folder is put in place
    only when it is whole, on the disk and, with `check`, when a fresh process without
    bat_tf has loaded it and answered as the model does. Whenever the process dies, the
    earlier export or the new one is there.

    Args:
        model: a `BATTagger`, a `LabelClassifier` or an `ExpertClassifier`.
        folder: where it goes; TF Serving wants `<name>/<number>`. An earlier export
            there is replaced; anything else is refused.
        check: reload it in a fresh process and compare.
        verbose: print what was written.

    Returns:
        The folder's path.
    """
    folder = settled(folder)
    if folder.exists() and any(folder.iterdir()) and not _is_saved_model(folder):
        raise FileExistsError(
            f"{folder} holds something else than a SavedModel; it is left alone. "
            "Choose an empty or new folder."
        )
    check_finite(model)
    try:
        with atomic_folder(folder) as unfinished:
            _write(model, unfinished, folder.resolve().parent.name)
            if check:
                check_export(model, unfinished)
    # TensorFlow has errors of its own for a disk that is full.
    except (OSError, tf.errors.OpError) as error:
        reason = getattr(error, "message", None) or error
        raise OSError(
            f"The SavedModel could not be written to {folder}: {reason}. Nothing was "
            "changed there. Free some space or choose another folder."
        ) from error
    if verbose:
        print(f"SavedModel written to {folder}")
    return folder


def _is_saved_model(folder):
    return (folder / "saved_model.pb").exists()


def _write(model, folder, name):
    """The SavedModel itself and a description."""
    with tempfile.TemporaryDirectory() as scratch:
        _write_graph(model, folder, Path(scratch))
    (folder / "assets.extra").mkdir()
    description = {
        "bat_tf": VERSION,
        "tensorflow": tf.__version__,
        "task": model.task,
        "labels": model.names,
        "tokenizer": model.tokenizer.kind,
        "max_length": model.max_length,
        **model.describe(),
        "ops": ops_of(folder),
        "ops_beyond_core": ops_beyond_core(folder),
        "tf_serving": fitting_tf_serving(ops_beyond_core(folder)),
        "warmup_requests": write_warmup(model, folder, name),
    }
    text = json.dumps(description, ensure_ascii=False, indent=2)
    files.disk.write(folder / "assets.extra" / "bat_tf.json", text + "\n")


def _write_graph(model, folder, scratch):
    """What TensorFlow writes; vocabulary and labels are its assets."""
    # As JSON: a name or a token may hold anything, line ends too.
    labels, vocabulary = scratch / "labels.json", scratch / "vocabulary.json"
    files.disk.write(labels, json.dumps(list(model.names), ensure_ascii=False))
    words = json.dumps(model.tokenizer.vocabulary, ensure_ascii=False)
    files.disk.write(vocabulary, words)
    module = tf.Module()
    module.variables_of_model = [variable.value for variable in model.variables]
    module.tokenizer = model.tokenizer  # owns the lookup table
    module.labels = tf.saved_model.Asset(str(labels))
    module.vocabulary = tf.saved_model.Asset(str(vocabulary))
    tf.saved_model.save(module, str(folder), signatures=signatures(model))


def fitting_tf_serving(ops):
    """Which TF Serving has the operations of a SavedModel.

    Args:
        ops: what `ops_beyond_core` returns.

    Returns:
        dict: `"oldest"`, a version or None where none is known, and `"why"`.

    >>> fitting_tf_serving(["NormalizeUTF8"])
    {'oldest': '2.12',
     'why': 'NormalizeUTF8 is linked since 2.11; 2.12 is the oldest tried.'}
    """
    unknown = [op for op in ops if op not in LINKED_SINCE]
    if unknown:
        why = f"No TF Serving is known to link {', '.join(unknown)}."
        return {"oldest": None, "why": why}
    linked = "; ".join(f"{op} is linked since {LINKED_SINCE[op]}" for op in ops)
    why = f"{linked or 'Core operations alone'}; {OLDEST_TRIED} is the oldest tried."
    versions = [OLDEST_TRIED, *(LINKED_SINCE[op] for op in ops)]
    oldest = max(versions, key=lambda version: [int(n) for n in version.split(".")])
    return {"oldest": oldest, "why": why}


def ops_of(folder):
    """Names of all operations in a SavedModel, without its own functions."""
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((Path(folder) / "saved_model.pb").read_bytes())
    ops, own = set(), set()
    for graph in (meta.graph_def for meta in saved.meta_graphs):
        ops |= {node.op for node in graph.node}
        for function in graph.library.function:
            own.add(function.signature.name)
            ops |= {node.op for node in function.node_def}
    return sorted(ops - own)


def ops_beyond_core(folder):
    """Names of the operations a SavedModel needs that are not TensorFlow's own.

    None for `characters` and `words`; `wordpiece` needs some of tensorflow_text, which
    TF Serving links.
    """
    return [op for op in ops_of(folder) if not _is_core(op)]


def _is_core(op):
    # tensorflow_text registers its operations in this process too, so the registry
    # does not tell them apart; the generated modules of TensorFlow do.
    return hasattr(tf.raw_ops, op)


def check_export(model, folder):
    """Loads a SavedModel in a process without bat_tf and compares its answers.

    Raises:
        RuntimeError: it does not load there, or it does not answer as the model does.
    """
    needs_text = "text" if ops_beyond_core(folder) else "core"
    command = [sys.executable, "-c", _PROBE, str(Path(folder).resolve()), needs_text]
    # The probe must not find bat_tf by accident of where it is started.
    process = subprocess.run(
        [*command, json.dumps(PROBE_TEXTS)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
    )
    answers = [x for x in process.stdout.splitlines() if x.startswith("ANSWER")]
    if process.returncode or not answers:
        raise RuntimeError(
            f"The SavedModel does not load in a fresh process: {process.stderr[-2000:]}"
        )
    expected = model.serving_function()(tf.constant(PROBE_TEXTS))
    for name, value in json.loads(answers[-1][len("ANSWER") :]).items():
        ours = expected[name].numpy()
        if expected[name].dtype == tf.string:
            same = [[tag.decode() for tag in row] for row in ours] == value
        else:
            theirs = np.asarray(value, ours.dtype)
            same = theirs.size == ours.size and np.allclose(
                theirs.reshape(ours.shape), ours, atol=1e-5
            )
        if not same:
            raise RuntimeError(
                f"The reloaded SavedModel answers otherwise in `{name}`: {value} "
                f"instead of {ours.tolist()}."
            )
