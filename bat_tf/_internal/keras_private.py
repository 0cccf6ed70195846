"""The private names of Keras and TensorFlow that are used here, and why.

`tests/internal/test_keras_private.py` fails when a new version changes one of them.
"""

import tensorflow as tf
from tensorflow.python.ops import control_flow_util


def keras_mask(x):
    """The mask that Keras keeps on a tensor, or None.

    Losses and metrics are no layers: Keras hands them no mask, and its own read it from
    the tensor, too.
    """
    return getattr(x, "_keras_mask", None)


def with_keras_mask(x, mask):
    """A tensor that Keras' own losses and metrics see with a mask."""
    x = tf.identity(x)
    x._keras_mask = mask
    return x


def layers_inside(layer):
    """A layer and every one that it is made of, however deep.

    `quantize` changes these one by one. Keras' guide to `DTypePolicyMap` finds them by
    this name, too; only models have a public list of their layers.
    """
    return layer._flatten_layers()


def set_direction(metric, direction):
    """Tells callbacks whether a metric gets better `"up"` or `"down"`.

    `EarlyStopping` and `ModelCheckpoint` with `mode="auto"` ask for it. The public way,
    a `mode` for each callback, would leave it to the user to know.
    """
    metric._direction = direction


def in_xla():
    """Whether the graph that is being traced is for XLA.

    TensorFlow itself asks this way where an operation needs another form there.
    """
    graph = tf.compat.v1.get_default_graph()
    return control_flow_util.GraphOrParentsInXlaContext(graph)


# What Keras' step takes a batch with: one of them, or one of several.
_NEXT_BATCH = ("IteratorGetNext", "OptionalGetValue")


def outside_xla(x):
    """What stands for a tensor of `fit`'s step outside of the part that XLA compiles.

    XLA leaves assertions out, so targets have to be looked at before. Keras' step takes
    its batch from an iterator in one graph and hands it to another, which XLA compiles;
    no public name leads from an argument of the inner graph to the outer one.

    Returns:
        A tensor of the outer graph, or None where no step of Keras is traced.
    """
    graph, source = x.graph, x
    while source.op.type in ("Identity", "Reshape", "Cast"):
        source = source.op.inputs[0]
    places = [i for i, one in enumerate(graph.inputs) if one is source]
    outer = getattr(graph, "outer_graph", None)
    operations = outer.get_operations() if places and outer is not None else []
    batches = [op.outputs for op in operations if op.type in _NEXT_BATCH]
    if not batches or places[0] >= len(batches[-1]):
        return None
    found = batches[-1][places[0]]
    same = found.dtype == source.dtype and found.shape.rank == source.shape.rank
    return found if same else None


def variable_index(optimizer, variable):
    """The place of a variable among those that an optimizer was built with.

    `update_step` gets a TensorFlow variable, under a strategy a part of one; no public
    name leads back from it to the variable that the slots were made for.
    """
    return optimizer._get_variable_index(variable)


def start_at(model, epoch=None):
    """The epoch that `fit` starts from; set it where it is given.

    `BackupAndRestore` tells `fit` through this attribute where to go on; `fit` takes
    its argument `initial_epoch` before callbacks can say anything.
    """
    if epoch is not None:
        model._initial_epoch = epoch
    return model._initial_epoch or 0


def build_from_batch(model, batch):
    """Builds a model and its metrics from the specification of a batch.

    `fit` does so before its first step; metrics cannot make variables inside a step
    that several replicas run.
    """
    model._maybe_symbolic_build(data_batch=batch)
