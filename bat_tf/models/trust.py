"""Whether a model's file may be loaded: what it would do, and what it would cost.

A model is a program. What comes from somebody else is looked at before anything of it
runs, unless it is trusted: `bat_tf.load(path, trust=True)`, `--trust`, or
BAT_TF_TRUST=1 for everything that a process loads.
"""

import contextlib
import io
import math
import os
import stat
import zipfile
from pathlib import Path, PurePosixPath

import tensorflow as tf

from bat_tf._internal.files import Limits
from bat_tf._internal.validation import DataError
from bat_tf.models.operations import ALLOWED, CALLS, CHECKPOINT

REMEDY = (
    "If you trust whoever made it, pass trust=True, or --trust on the command line."
)
LAYER = 50_000  # bytes of a layer, its weights apart


class UntrustedError(OSError):
    """A model's file is refused, although it may be whole."""


def is_trusted(trust):
    """Whether files are loaded unseen: as given, or as BAT_TF_TRUST says for None."""
    if trust is None:
        return os.environ.get("BAT_TF_TRUST", "").lower() in ("1", "true", "yes")
    return bool(trust)


def _refuse(path, reason):
    return UntrustedError(f"{path} is not loaded: {reason}. {REMEDY}")


# === SavedModels ===


def check_saved_model(folder):
    """Raises unless a SavedModel only computes, and costs what its files do.

    Args:
        folder: of the SavedModel.

    Raises:
        UntrustedError: it holds operations that reach outside, or declares tensors
            that are far larger than its files.
    """
    from tensorflow.core.protobuf import saved_model_pb2

    folder = Path(folder)
    content = (folder / "saved_model.pb").read_bytes()
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString(content)
    if [meta.HasField("object_graph_def") for meta in saved.meta_graphs] != [True]:
        reason = "it is a model of TensorFlow 1, which runs what it likes when loaded"
        raise _refuse(folder, reason)
    variables = [x.stat().st_size for x in folder.glob("variables/*") if x.is_file()]
    size = len(content) + sum(variables)
    (meta,) = saved.meta_graphs
    _check_operations(folder, meta)
    for asset in meta.asset_file_def:
        _check_member(folder, asset.filename)
    cost = 0
    for tensor in _constants(meta.graph_def):
        cost += _bytes(tensor.tensor_shape, tensor.dtype)
    for node in meta.object_graph_def.nodes:
        if node.HasField("variable"):
            cost += _bytes(node.variable.shape, node.variable.dtype)
    _check_cost(folder, cost, size)


def _check_operations(folder, meta):
    """Raises for what of a graph is not allowed, its functions and theirs included."""
    functions = {f.signature.name: f.node_def for f in meta.graph_def.library.function}
    places = [(None, meta.graph_def.node), *functions.items()]
    known = ALLOWED | (functions.keys() - set(dir(tf.raw_ops)))
    # Files of variables are written and read by two functions, which the two nodes of
    # the saver call and nothing else: neither what answers nor what loading runs.
    savers = {
        name: ops
        for name, nodes in functions.items()
        if (ops := {node.op for node in nodes} & CHECKPOINT)
    }
    restore = meta.saver_def.restore_op_name
    own = {meta.saver_def.save_tensor_name.partition(":")[0], restore} - {""}
    used = {
        tensor.name.partition(":")[0]
        for signature in meta.signature_def.values()
        for tensor in signature.outputs.values()
    }
    found = set()
    for name in meta.object_graph_def.concrete_functions:
        found |= savers.get(name, set())
    for name, nodes in places:
        for node in nodes:
            inside = name in savers and node.op in CHECKPOINT
            if node.op not in known and not inside:
                found.add(node.op)
            called = {op for f in _called(node) for op in savers.get(f, ())}
            if called and (name is not None or node.name not in own):
                found |= called
            if node.name == restore:
                found |= called - {"RestoreV2"}
            if name is None:
                used |= {x.strip("^").partition(":")[0] for x in node.input}
    if used & own:
        found |= CHECKPOINT
    if found:
        names = ", ".join(sorted(found)[:8])
        raise _refuse(
            folder,
            "it holds operations that may read or write files, run code or reach the "
            f"network, or that are not known to be harmless: {names}",
        )


def _called(node):
    """The functions that a node calls."""
    names = {node.op}
    if node.op not in CALLS:
        return names
    for value in node.attr.values():
        names |= {value.func.name, *(f.name for f in value.list.func)}
    return names


def _constants(graph):
    """The tensors that a graph and its functions hold."""
    for nodes in (graph.node, *(f.node_def for f in graph.library.function)):
        yield from (node.attr["value"].tensor for node in nodes if node.op == "Const")


def _bytes(shape, dtype):
    """What a tensor of a declared shape takes in memory."""
    try:
        size = max(1, tf.as_dtype(dtype).size)
    except TypeError:
        size = 1
    return size * math.prod(max(1, dim.size) for dim in shape.dim)


def _check_cost(path, cost, size):
    limits = Limits.of()
    if cost > limits.unpacked(size):
        raise _refuse(
            path,
            f"what is in it takes {cost / 1e6:,.0f} MB, while its files have "
            f"{size / 1e6:,.1f} MB; {limits.unpacked(size) / 1e6:,.0f} MB is all that "
            "BAT_TF_MAX_UNPACKED_MB allows",
        )


def _check_member(path, name, mode=0):
    """Raises unless a file that belongs to another stays in its folder."""
    place = PurePosixPath(name.replace("\\", "/"))
    if place.is_absolute() or ".." in place.parts or ":" in name or stat.S_ISLNK(mode):
        raise _refuse(path, f"it names a file outside of itself, {name!r}")


# === .keras files ===


def check_keras_file(path):
    """Raises unless a file is a `.keras` that unpacks to what its size lets expect.

    Args:
        path: the file.

    Returns:
        How many bytes of weights it may have.

    Raises:
        UntrustedError: it is built to fill memory or disk, or has links in it.
    """
    if Path(path).suffix != ".keras":  # Keras would read others in other ways
        raise _refuse(path, "its name does not end in .keras")
    limits, size = Limits.of(), os.path.getsize(path)
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        for member in members:
            _check_member(path, member.filename, member.external_attr >> 16)
        _check_cost(path, sum(member.file_size for member in members), size)
        for member in members:
            if member.filename.endswith((".h5", ".hdf5")):
                check_h5(path, io.BytesIO(archive.read(member)), size)
            elif zipfile.is_zipfile(inner := io.BytesIO(archive.read(member))):
                # Arrays of NumPy, which Keras takes, too.
                with zipfile.ZipFile(inner) as within:
                    cost = sum(one.file_size for one in within.infolist())
                _check_cost(path, cost, size)
    return limits.unpacked(size)


def check_h5(path, file, size):
    """Raises unless the arrays of an HDF5 file stand in it, at their declared size.

    Args:
        path: what to call it.
        file: the file, opened to read bytes.
        size: of the file that people see, in bytes.
    """
    import h5py

    cost = 0

    def visit(name, item):
        nonlocal cost
        if isinstance(item, h5py.Dataset):
            if item.external or item.is_virtual:
                raise _refuse(path, f"its array {name!r} lies in another file")
            cost += math.prod(item.shape or ()) * item.dtype.itemsize

    with h5py.File(file, "r") as opened:
        opened.visititems(visit)
        _check_links(path, opened)
    _check_cost(path, cost, size)


def _check_links(path, group):
    import h5py

    for name in group:
        link = group.get(name, getlink=True)
        if not isinstance(link, h5py.HardLink):
            raise _refuse(path, f"{name!r} in it is a link to somewhere else")
        if isinstance(group[name], h5py.Group):
            _check_links(path, group[name])


@contextlib.contextmanager
def bounded_weights(path, most):
    """Ends the loading of a model whose config asks for more than it may have.

    A config of a hundred bytes can ask for an embedding of terabytes, or for a billion
    layers, and gets it before the first array of the file is looked at.

    Args:
        path: what to call it.
        most: bytes of weights and layers, together.
    """
    import keras

    kind, total = keras.layers.Layer, 0
    new, add_weight = kind.__new__, kind.add_weight

    def count(size):
        nonlocal total
        total += size
        if total > most:
            raise _refuse(
                path,
                f"its layers ask for weights of {total / 1e6:,.0f} MB or more, and it "
                f"may have {most / 1e6:,.0f} MB",
            )

    def counted(cls, *args, **kwargs):
        count(LAYER)
        return new(cls, *args, **kwargs)

    def counted_weight(layer, shape=None, *args, **kwargs):
        dims = shape if isinstance(shape, (tuple, list)) else (shape,)
        count(4 * math.prod(dim or 1 for dim in dims))
        return add_weight(layer, shape, *args, **kwargs)

    kind.__new__, kind.add_weight = staticmethod(counted), counted_weight
    try:
        yield
    finally:
        kind.__new__, kind.add_weight = staticmethod(new), add_weight


def readable(error):
    """The error that says why a file is refused, in the chain of another; or None."""
    while error is not None:
        if isinstance(error, (UntrustedError, DataError)):
            return error
        error = error.__cause__ or error.__context__
    return None
