"""Many workers: the same `fit`, with every batch shared out among replicas.

    strategy = bat_tf.distributed.strategy("cluster.yaml", worker=0)
    with strategy.scope():
        model = bat_tf.LabelClassifier.for_data(train)
        model.compile("adam", loss="zlpr", metrics=["micro_f1"])
    model.fit(train, validation_data=valid, batch_size=64, epochs=5)

`batch_size` is that of all replicas together, and losses, weights and metrics are those
of one process with the same batches:

| what                        | on several replicas                                    |
|-----------------------------|--------------------------------------------------------|
| token, document, expert     | the mean or, for DL2, the ratio of the whole batch:    |
| losses; R-Drop, VAT         | sums are added up before they are divided (`_replicas`)|
| metrics, validation         | counts are added up before they are read               |
| clipping by Adam and AdamW  | of the gradient of the whole batch; not by global norm |
| Admin's first batch         | the whole one, measured by the chief                   |
| dropout, VAT's first step   | drawn by each replica, so equal in distribution alone  |
| Switch, `candidates` of     | refused: they choose among a whole batch               |
| experts                     |                                                        |
| losses and clipping of      | refused: they would be means and norms of parts        |
| Keras, `jit_compile=True`   |                                                        |

The models of this library go through `fit` here: Keras' own loop, callbacks included,
without its parts that fail on several workers, and on masks on several devices. Worker
0, the chief, alone writes and restores files; the others get weights and epoch from it.
"""

import contextlib
import re

import keras
import numpy as np
import tensorflow as tf

from bat_tf._internal.keras_private import build_from_batch, start_at
from bat_tf._internal.replicas import needs_whole_batch
from bat_tf.data.pipeline import Share
from bat_tf.losses import CRF, DocumentLoss, ExpertLoss, TagLoss
from bat_tf.training import Backup, History, SaveBest
from bat_tf.training.cluster import Cluster

# These write files, which is the chief's to do.
WRITERS = (
    keras.callbacks.BackupAndRestore,
    keras.callbacks.CSVLogger,
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.TensorBoard,
    Backup,
    History,
    SaveBest,
)
# What a step ends with when another worker is gone.
LOST = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
)


def strategy(cluster=None, worker=None):
    """The strategy that the surroundings ask for; make the model in its `scope()`.

    Call it before anything else of TensorFlow runs.

    Args:
        cluster: a file with the workers, see `bat_tf.training.cluster`; `"local"` for
            all GPUs of this host; None for what `TF_CONFIG` says, and one process
            without it.
        worker: the place of this process in the file's list, from 0.

    Returns:
        A `MultiWorkerMirroredStrategy`, once all workers are there; a
        `MirroredStrategy`; or TensorFlow's default, which splits nothing.

    Example:
        >>> strategy().num_replicas_in_sync
        1
    """
    if cluster == "local":
        devices = tf.config.list_logical_devices("GPU")
        devices = [one.name for one in devices or tf.config.list_logical_devices("CPU")]
        return _local(devices)
    if cluster is None:
        cluster = Cluster.from_environment()
    else:
        cluster = Cluster.load(cluster, worker)
    if cluster is None or len(cluster.workers) == 1:
        return tf.distribute.get_strategy()
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": cluster.workers}),
        task_type="worker",
        task_id=cluster.index,
        rpc_layer="grpc",
    )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    except RuntimeError as error:
        raise RuntimeError(
            f"The workers could not be connected: {error} Make the strategy before "
            "anything else of TensorFlow runs, and only once."
        ) from error


def _local(devices):
    if len(devices) < 2:
        return tf.distribute.get_strategy()
    return tf.distribute.MirroredStrategy(devices)


def num_workers(strategy):
    """How many processes train together under a strategy."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 1
    jobs = strategy.cluster_resolver.cluster_spec().as_dict()
    return max(1, sum(len(jobs.get(job, ())) for job in ("chief", "worker")))


def is_chief(strategy):
    """Whether this process is the one that writes files."""
    if num_workers(strategy) == 1:
        return True
    resolver = strategy.cluster_resolver
    chiefs = resolver.cluster_spec().as_dict().get("chief")
    return resolver.task_id == 0 and resolver.task_type == (
        "chief" if chiefs else "worker"
    )


def check_compiled(loss, optimizer, jit_compile):
    """Raises if the strategy in scope splits batches and a part cannot do with it."""
    if not isinstance(loss, (CRF, DocumentLoss, ExpertLoss, TagLoss)):
        needs_whole_batch(
            f"A model with the loss {loss!r}",
            "its mean is that of each replica's rows and not that of the batch",
            "Use a loss of bat_tf.losses.",
        )
    clips = ("clipnorm", "clipvalue", "global_clipnorm")
    if any(getattr(optimizer, name, None) for name in clips):
        needs_whole_batch(
            f"A model with a clipping {type(optimizer).__name__} of Keras",
            "it clips the gradients of each replica and not those of the batch",
            "Use bat_tf.optimizers.Adam or AdamW.",
        )
    if jit_compile is True:
        needs_whole_batch(
            "A model with `jit_compile=True`",
            "what replicas add up cannot be compiled by XLA",
            "Leave `jit_compile` out.",
        )


def fit(
    model,
    batches,
    *,
    epochs=1,
    initial_epoch=0,
    validation_batches=None,
    validation_freq=1,
    callbacks=(),
    verbose=2,
):
    """Trains on several workers, as Keras' `fit` does on one.

    Every worker calls it with the same arguments. `fit` of the models of this library
    ends here by itself; call it for a Keras model of your own.

    Callbacks that write files work on the chief alone, and only the chief prints. A
    callback of your own runs everywhere: the values of an epoch are the same on all
    workers, those of a step are of this worker's rows; let it write if `is_chief` says
    so. With `BackupAndRestore`, the same call continues after a kill, and only the
    chief needs the files.

    Args:
        model: a compiled Keras model, made in the strategy's scope.
        batches: function from a `bat_tf.data.pipeline.Share` to a `tf.data.Dataset`
            of known length with those rows of every batch.
        epochs: as in Keras.
        initial_epoch: as in Keras.
        validation_batches: like `batches`, to evaluate on.
        validation_freq: validate every so many epochs.
        callbacks: as in Keras.
        verbose: as in Keras.

    Returns:
        Keras' `History`; it is the same on all workers.

    Raises:
        RuntimeError: if another worker is gone.
    """
    strategy = model.distribute_strategy
    if not is_chief(strategy):
        callbacks = [one for one in callbacks if not isinstance(one, WRITERS)]
        verbose = 0
    with lost_workers_named(strategy):
        train = _Pass(model, model.train_step, batches)
        valid = None
        if validation_batches is not None:
            valid = _Pass(model, model.test_step, validation_batches)
        callbacks = keras.callbacks.CallbackList(
            callbacks,
            add_history=True,
            add_progbar=verbose != 0,
            verbose=verbose,
            epochs=epochs,
            steps=train.steps,
            model=model,
        )
        model.stop_training = False
        callbacks.on_train_begin()
        # A backup may have named another one.
        first = _start_together(model, start_at(model) or initial_epoch, train)
        train.build()
        anybody, logs = _vote(strategy), {}
        for epoch in range(first, epochs):
            callbacks.on_epoch_begin(epoch)
            logs = train.train(callbacks)
            if valid and (epoch + 1) % validation_freq == 0:
                found = valid.test(callbacks)
                logs |= {f"val_{name}": value for name, value in found.items()}
            callbacks.on_epoch_end(epoch, logs)
            if anybody(model.stop_training):
                break
        model.optimizer.finalize_variable_values(model.trainable_variables)
        callbacks.on_train_end(logs)
    return model.history


def evaluate(model, batches):
    """Evaluates on several workers: a dict of the loss and the metrics.

    Args:
        model: as in `fit`.
        batches: as in `fit`.
    """
    with lost_workers_named(model.distribute_strategy):
        data = _Pass(model, model.test_step, batches)
        data.build()
        return data.test(keras.callbacks.CallbackList(model=model))


class _Pass:
    """One way of going through data: a step of the model on each batch."""

    def __init__(self, model, step, batches):
        self.model, strategy = model, model.distribute_strategy

        def own(context):
            local = context.num_replicas_in_sync // context.num_input_pipelines
            first = context.input_pipeline_id * local
            data = batches(Share(first, local, context.num_replicas_in_sync))
            self.steps, self.batch = int(data.cardinality()) // local, data.element_spec
            return data

        with _equally_many_batches(strategy):
            self.data = strategy.distribute_datasets_from_function(own)

        @tf.function(reduce_retracing=True)
        def run(iterator):
            logs = strategy.run(step, args=(next(iterator),))
            return keras.tree.map_structure(
                lambda value: strategy.experimental_local_results(value)[0], logs
            )

        self.step = run

    def build(self):
        """Lets metrics make their variables, which they cannot in a step."""
        build_from_batch(self.model, self.batch)

    def run(self, begin, end):
        """Goes through all data; returns the metrics, added up over all workers.

        `begin` and `end` are what callbacks do around a step; `end` may say False.
        """
        self.model.reset_metrics()
        iterator, logs = iter(self.data), {}
        for number in range(self.steps):
            begin(number)
            logs = self.step(iterator)
            if end(number, logs) is False:
                break
        # A step may have left some metrics out.
        results = self.model.get_metrics_result()
        return {name: np.asarray(results[name]).tolist() for name in logs}

    def train(self, callbacks):
        """Runs to the end of the data, or until a callback has had enough."""

        def end(number, logs):
            callbacks.on_train_batch_end(number, logs)
            return not self.model.stop_training

        return self.run(callbacks.on_train_batch_begin, end)

    def test(self, callbacks):
        """Runs, with what callbacks hear of an evaluation."""
        callbacks.on_test_begin()
        logs = self.run(callbacks.on_test_batch_begin, callbacks.on_test_batch_end)
        callbacks.on_test_end(logs)
        return logs


@contextlib.contextmanager
def _equally_many_batches(strategy):
    """Data made here is not asked at every step whether other workers have more."""
    name = "experimental_enable_get_next_as_optional"
    before = getattr(strategy.extended, name)
    setattr(strategy.extended, name, False)
    try:
        yield
    finally:
        setattr(strategy.extended, name, before)


def _vote(strategy):
    """The function that says on all workers whether any of them was told True.

    The chief alone knows how patient a resumed run has been; if it stopped by itself,
    the others would wait for it.
    """

    @tf.function
    def total(word):
        def add(word):
            context = tf.distribute.get_replica_context()
            return context.all_reduce("SUM", tf.identity(word))

        return strategy.experimental_local_results(strategy.run(add, args=(word,)))[0]

    return lambda word: float(total(tf.constant(float(word)))) > 0


def _start_together(model, epoch, data):
    """Gives all workers the chief's weights and epoch, which it returns.

    The chief may have restored a backup, or measured where weights begin.
    """
    strategy = model.distribute_strategy
    variables = [*model.weights, *model.optimizer.variables]

    @tf.function
    def of_chief(values, counts):
        def add(values, counts):
            context = tf.distribute.get_replica_context()
            chief = tf.equal(context.replica_id_in_sync_group, 0)
            mine = [tf.where(chief, value, tf.zeros_like(value)) for value in values]
            return context.all_reduce("SUM", [*mine, tf.identity(counts)])

        results = strategy.run(add, args=(values, counts))
        return [strategy.experimental_local_results(one)[0] for one in results]

    # Of one dtype, as an all-reduce has it; float64 holds every value of the others.
    values = [tf.cast(one.value, tf.float64) for one in variables]
    counts = tf.constant([data.steps, data.steps**2], tf.float64)
    *values, total = of_chief([*values, tf.constant(epoch, tf.float64)], counts)
    if any(total != strategy.num_replicas_in_sync * counts):
        raise ValueError(
            f"All workers must read the same data; here it has {data.steps} batches, "
            "elsewhere another number. Give every worker the same files and settings."
        )
    for variable, value in zip(variables, values, strict=False):
        variable.assign(value)
    return int(values[-1])


@contextlib.contextmanager
def lost_workers_named(strategy):
    """Says in a sentence that another worker is gone, and what to do."""
    try:
        yield
    except LOST as error:
        if num_workers(strategy) == 1:
            raise
        own = str(strategy.cluster_resolver.task_id)
        gone = sorted(set(re.findall(r"/task:(\d+)", error.message)) - {own})
        raise RuntimeError(
            f"Worker {' and '.join(gone) or 'unknown'} is gone, and the others cannot "
            "go on without it. Start the same command again on every worker: with "
            "`BackupAndRestore` it continues after the last whole epoch."
        ) from error
