"""What the models share: a preprocessor, an encoder and heads that learn from texts."""

import keras
import numpy as np
import tensorflow as tf

from bat_tf import losses
from bat_tf._internal.registry import FromArguments
from bat_tf._internal.replicas import num_replicas
from bat_tf._internal.validation import sentence
from bat_tf._internal.version import VERSION, warn_if_newer
from bat_tf.data import pipeline
from bat_tf.data.dataset import TextDataset
from bat_tf.data.pipeline import DOCUMENT_STATES, TOKEN_STATES
from bat_tf.data.texts import Texts, as_texts, holds_texts
from bat_tf.heads.head import STATES_MASK, Head
from bat_tf.models.export import export_model
from bat_tf.models.parts import check_data
from bat_tf.training import backbone_cache, distributed, optimizers
from bat_tf.training.callbacks import Backup, EpochCounter, verbosity
from bat_tf.training.finite import Finite


class TextModel(keras.Model):
    """A Keras model of encoded texts that also takes the texts themselves.

    `fit`, `evaluate`, `predict` and their `*_on_batch` take a `TextDataset`, a list or
    array of strings with its targets, a `tf.data.Dataset` of (string, target), or what
    the preprocessor makes of them: a dict of `token_ids`, `padding_mask` and features
    [B, T].

    Args:
        encoder: a Keras layer from `bat_tf.encoders`: dict of inputs → list of states.
        preprocessor: a `Preprocessor` of the model's task.
        heads: layers from `bat_tf.heads`: states and inputs → logits.
        **kwargs: of `keras.Model`.
    """

    task = None  # what the examples have: "spans" or "labels"
    exported = False
    default_loss = None
    nested = ("encoder", "preprocessor", "heads")  # parts of the config

    def __init__(self, encoder, preprocessor, heads, **kwargs):
        super().__init__(**kwargs)
        if getattr(preprocessor, "task", None) != self.task:
            expected = f"a Preprocessor of texts with {self.task}"
            raise TypeError(sentence("preprocessor", expected, preprocessor))
        heads = list(heads)
        if not heads or not all(isinstance(head, Head) for head in heads):
            raise TypeError(sentence("heads", "layers of bat_tf.heads", heads))
        check_ids(encoder, preprocessor.tokenizer)
        self.encoder = encoder
        self.heads = heads
        # Not a layer: strings would keep XLA from compiling the rest.
        self.preprocessor = preprocessor
        self.train_metrics = True
        self._forget_compiled()

    @property
    def tokenizer(self):
        """The preprocessor's tokenizer; Keras saves its vocabulary with the model."""
        return self.preprocessor.tokenizer

    @property
    def max_length(self):
        """Tokens that the encoder reads at once."""
        return self.preprocessor.max_length

    def build(self, input_shape=None):
        """Builds the encoder and every head from what they were made with.

        A subclass calls it when it has all its parts: Keras takes no more then.
        """
        if self.built:
            return
        if not self.encoder.built:
            self.encoder.build(None)
        for head in self.heads:
            head.build_on(self.encoder)
        self.built = True

    # === Inputs → logits ===

    def call(self, inputs, training=None):
        """The logits.

        Args:
            inputs: dict of `token_ids`, `padding_mask` and features [B, T]. It may also
                have `backbone_states` or `document_states`, which take the place of
                what does not learn, and `perturbation` [B, T, D], a step from the
                embeddings.
            training: as in Keras.
        """
        if num_replicas() == 1:
            return self._logits(inputs, training)
        # Of a small batch a replica may have no row, and not all kernels of TensorFlow
        # take that: it scores a row of padding then, and drops it.
        rows = tf.shape(inputs["token_ids"])[0]
        return self._logits(pipeline.one_row_at_least(inputs), training)[:rows]

    def _logits(self, inputs, training):
        states, inputs = self.states(inputs, training)
        heads = [head for head in self.heads if head.trains or not training]
        return self.stack([h(states, inputs, training=training) for h in heads])

    def stack(self, logits):
        """What the model puts out, of the logits of its heads."""
        (logits,) = logits
        return logits

    def states(self, inputs, training=None):
        """The states that heads read, by number of the layer, and their inputs."""
        depth, frozen = len(self.encoder.blocks) + 1, self.encoder_is_frozen
        if frozen and TOKEN_STATES in inputs:
            return self._apart(inputs[TOKEN_STATES]), inputs
        if DOCUMENT_STATES in inputs:
            # A text as one token, whose mean is itself.
            whole = inputs[DOCUMENT_STATES][:, None, :]
            mask = tf.ones(tf.shape(whole)[:2], bool)
            return self._apart(whole), {**inputs, STATES_MASK: mask}
        if not any(head.reads for head in self.heads):
            return {}, inputs
        found = self.encoder(inputs, training=training)
        return dict(enumerate(found, depth - len(found))), inputs

    def _apart(self, states):
        """Layer → its part of states that are side by side."""
        numbers = self._layers_read()
        parts = keras.ops.split(states, len(numbers), axis=-1)
        return dict(zip(numbers, parts, strict=True))

    def _layers_read(self):
        depth = len(self.encoder.blocks) + 1
        return sorted({n for head in self.heads for n in head.numbers(depth)})

    @property
    def encoder_is_frozen(self):
        """Whether nothing of the encoder learns."""
        return not self.encoder.trainable_variables

    def frozen_part(self):
        """The `FrozenPart` that `cache_backbone` keeps; None if everything learns.

        Of a wholly frozen encoder it is what the heads read: pooled states, if no head
        reads more, or those of all tokens.
        """
        numbers = self._layers_read()
        if not numbers or not self.encoder_is_frozen:
            return backbone_cache.token_part(self.encoder)
        read = [head for head in self.heads if head.reads]
        pools = {getattr(head, "pooling", None) for head in read}
        pooled = len(pools) == 1 and pools <= {"first", "mean", "max"}

        def states(inputs):
            found, _ = self.states(inputs, False)
            found = [found[number] for number in numbers]
            if pooled:
                found = [read[0].pool(x, inputs["padding_mask"]) for x in found]
            return keras.ops.concatenate(found, axis=-1)

        return backbone_cache.FrozenPart(
            DOCUMENT_STATES if pooled else TOKEN_STATES,
            states,
            self.encoder.d_model * len(numbers),
            self.encoder.non_trainable_variables,
            (pools.pop() if pooled else "tokens", numbers),
        )

    # === Compiling ===

    def compile(
        self,
        optimizer=None,
        loss=None,
        metrics=None,
        *,
        weighted_metrics=None,
        train_metrics=True,
        **kwargs,
    ):
        """As Keras' `compile`, with defaults; losses and metrics also by our names.

        A loss by name that weighs classes or labels gets their counts in the training
        data. Compiling changes no answer: what the loss says about logits counts from
        the first step of training on.

        Args:
            optimizer: as in Keras; None is `bat_tf.optimizers.AdamW(1e-3)`.
            loss: as in Keras, or a name of `bat_tf.losses`; None is `default_loss`.
            metrics: as in Keras, or names of `bat_tf.metrics`.
            weighted_metrics: the same; `sample_weight` counts for these.
            train_metrics: False takes the metrics of the validation data alone: with
                thousands of labels, ranking them costs more than learning from them.
            **kwargs: as in Keras.
        """
        loss = self.default_loss if loss is None else loss
        if isinstance(loss, str):
            loss = self.named_loss(loss)
        loss = self.loss_of(loss)
        by_kind = {"metrics": metrics, "weighted_metrics": weighted_metrics}
        for kind, some in by_kind.items():
            some = some or ()
            kwargs[kind] = [self.metric(m) if isinstance(m, str) else m for m in some]
        optimizer = optimizers.AdamW(1e-3) if optimizer is None else optimizer
        distributed.check_compiled(loss, optimizer, kwargs.get("jit_compile"))
        if not all(head.supports_jit for head in self.heads):
            kwargs["jit_compile"] = False
        super().compile(optimizer=optimizer, loss=loss, **kwargs)
        scores = [*kwargs["metrics"], *kwargs["weighted_metrics"]]
        self._keras_loss = not isinstance(loss, FromArguments)
        self._keras_scores = not all(isinstance(m, FromArguments) for m in scores)
        # A backup restores the optimizer's state only into variables that exist.
        self.optimizer.build(self.trainable_variables)
        self.train_metrics = train_metrics

    def named_loss(self, name, **settings):
        """The loss called `name`; `settings` win over what the data say about it."""
        return losses.get(name, **{**self.loss_settings(name), **settings})

    def loss_settings(self, name):
        """What the training data say about the loss called `name`."""
        raise NotImplementedError

    def loss_of(self, loss):
        """The loss that trains the heads, of one for their answer."""
        return loss

    def metric(self, name):
        """The metric called `name`, for this model."""
        raise NotImplementedError

    def begin_training(self):
        """Takes from the loss what it says about the logits."""

    def train_step(self, *args, **kwargs):
        """As Keras' own; `compute_metrics` knows that it is called from here."""
        self._in_training = True  # while the step is traced
        try:
            return super().train_step(*args, **kwargs)
        finally:
            self._in_training = False

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        """As Keras' own; NaN where a logit is no finite number.

        XLA loses NaN on the way: the loss alone would say nothing of it.
        """
        seen = self.for_keras(y, y_pred) if self._keras_loss else (y, y_pred)
        loss = super().compute_loss(x, *seen, sample_weight, training)
        finite = keras.ops.all(keras.ops.isfinite(y_pred))
        return keras.ops.where(finite, loss, float("nan"))

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """As Keras' own, but for training steps without `train_metrics`."""
        if not self.train_metrics and getattr(self, "_in_training", False):
            return {"loss": self._loss_metric.result()}
        seen = self.for_keras(y, y_pred) if self._keras_scores else (y, y_pred)
        return super().compute_metrics(x, *seen, sample_weight)

    def for_keras(self, y, y_pred):
        """Targets and scores in a form that Keras' own losses and metrics take."""
        raise NotImplementedError

    def get_metrics_result(self):
        """As Keras' own; metrics that saw nothing yet have no result."""
        try:
            return super().get_metrics_result()
        except ValueError:
            if self.train_metrics:
                raise
            return {"loss": self._loss_metric.result()}

    @property
    def _loss_metric(self):
        return next(metric for metric in self.metrics if metric.name == "loss")

    def get_compile_config(self):
        """What a reloaded model is compiled with, if it was compiled."""
        if not self.compiled:
            return None
        return {**super().get_compile_config(), "train_metrics": self.train_metrics}

    def compile_from_config(self, config):
        """Compiles a reloaded model as the saved one was."""
        self.compile(**keras.saving.deserialize_keras_object(config))

    # === Texts → batches ===

    def batches(
        self,
        dataset,
        batch_size=32,
        seed=None,
        epoch=None,
        shuffle=True,
        cache=False,
        share=None,
        verbose=0,
    ):
        """The tf.data pipeline of texts for this model.

        Args:
            dataset: a `TextDataset`, or `Texts`.
            batch_size: texts of a batch.
            seed: shuffles; None keeps the order, by length.
            epoch: an integer `tf.Variable`: the order is a function of (seed, epoch).
            shuffle: False keeps the order of the texts, whatever the seed.
            cache: put a frozen backbone's states into the batches; see `fit`.
            share: a `pipeline.Share` of every batch, for several workers.
            verbose: whether to show how far the backbone is, as in Keras.
        """
        if not isinstance(dataset, Texts):
            self.check_data(dataset, "dataset")
        examples = self.preprocessor.encode(dataset, training=seed is not None)
        return self.preprocessor.batches(
            self.cached(examples, cache, verbose),
            batch_size=batch_size,
            fixed_shapes=bool(self.jit_compile),
            seed=seed,
            epoch=epoch,
            shuffle=shuffle,
            share=share,
        )

    def cached(self, examples, cache, verbose=0):
        """Examples, with the states of the backbone if they are asked for."""
        if not cache:
            return examples
        part = self.frozen_part()
        if part is None:
            raise ValueError(
                "`cache_backbone` needs an encoder on a frozen backbone: the states of "
                "one that learns, or of none, cannot be kept. Leave it out."
            )
        folder = None if cache is True else cache
        return backbone_cache.add_states(
            examples, part, self.tokenizer, folder, verbose=verbose
        )

    def over(self, examples, function, batch_size=64, verbose=0, unit="text"):
        """What a function of (states, inputs) says of every example, in their order.

        Args:
            examples: what the preprocessor's `encode` returned.
            function: from states and inputs to a tensor [B, …].
            batch_size: texts a step.
            verbose: as in Keras.
            unit: what the progress bar counts.

        Returns:
            A float32 array [N, …].
        """
        step = tf.function(
            lambda inputs: function(*self.states(inputs, False)), reduce_retracing=True
        )
        total, found = int(examples["token_ids"].nrows()), None
        bar = keras.utils.Progbar(total, verbose=verbose, unit_name=unit)
        for rows, inputs in pipeline.text_batches(examples, self.tokenizer, batch_size):
            part = np.asarray(step(inputs))
            if found is None:
                found = np.zeros((total, *part.shape[1:]), "float32")
            found[rows] = part
            bar.add(len(rows))
        return found

    def fit(
        self,
        x=None,
        y=None,
        *,
        batch_size=8,
        sample_weight=None,
        validation_data=None,
        validation_split=0.0,
        validation_batch_size=64,
        shuffle=True,
        seed=0,
        class_weight=None,
        cache_backbone=False,
        callbacks=None,
        verbose="auto",
        **kwargs,
    ):
        """As Keras' `fit`, for texts too.

        Under a strategy of several replicas it is `bat_tf.distributed.fit`, and takes
        texts alone.

        Args:
            x: texts in any form of the class, or what Keras takes.
            y: their targets, see the preprocessor; None if `x` has them.
            batch_size: texts of a step, on all replicas together.
            sample_weight: a number for each text.
            validation_data: like `x`, or (x, y), or (x, y, sample_weight).
            validation_split: the share of the texts, the last ones, to validate on.
            validation_batch_size: texts of a validation step.
            shuffle: whether every epoch has another order. Batches are of texts of
                similar length either way.
            seed: decides the order.
            class_weight: None. It is for one class a row; a loss that weighs classes or
                labels takes its place, such as `"wce"` or `"cb"`.
            cache_backbone: run a frozen backbone once and keep its states, instead of
                once an epoch. Memory: 2 bytes × tokens × width; where only pooled
                states are read, 2 bytes × texts × width. A folder keeps them on disk,
                for other runs on the same texts.
            callbacks: as in Keras.
            verbose: as in Keras; `"auto"` is a bar in a terminal, else a line an epoch.
            **kwargs: as in Keras.
        """
        if class_weight is not None:
            remedy = 'Name a loss that weighs them, such as "wce" for tags, "cb" for '
            remedy += "labels; `sample_weight` weighs texts."
            expected = "None: a text has several tags or labels"
            raise ValueError(sentence("class_weight", expected, class_weight, remedy))
        callbacks, verbose = keras.tree.flatten(callbacks or []), verbosity(verbose)
        x, validation_data = self._training_texts(
            x, y, sample_weight, validation_data, validation_split
        )
        if not any(isinstance(one, Finite) for one in callbacks):
            callbacks.insert(0, Finite())
        order = {"seed": seed, "shuffle": bool(shuffle)}
        for backup in callbacks:
            if isinstance(backup, Backup) and isinstance(x, Texts):
                parts = {"train": x, "valid": validation_data}
                texts = {n: p for n, p in parts.items() if isinstance(p, Texts)}
                backup.watch({"batch_size": batch_size, **order}, **texts)
        settings = {"cache": cache_backbone, "verbose": verbose}
        valid = {"batch_size": validation_batch_size, **settings}
        counter = EpochCounter()
        train = {"batch_size": batch_size, "epoch": counter.value, **order, **settings}
        if self.distribute_strategy.num_replicas_in_sync > 1:
            if hasattr(self.encoder, "profiling"):
                whole = self.batches(x, **train)
                callbacks.append(self.encoder.profiling(whole))
            self.begin_training()
            return distributed.fit(
                self,
                self._shares(x, **train),
                validation_batches=self._shares(validation_data, **valid),
                callbacks=[*callbacks, counter],
                verbose=verbose,
                **kwargs,
            )
        if isinstance(x, Texts):
            callbacks.append(counter)
            x, batch_size, shuffle = self.batches(x, **train), None, False
            y = sample_weight = None
        else:
            kwargs |= {"validation_split": validation_split}
        if isinstance(validation_data, Texts):
            validation_data = self.batches(validation_data, **valid)
            validation_batch_size = None
        if hasattr(self.encoder, "profiling"):
            callbacks.append(self.encoder.profiling(x, batch_size))
        self.begin_training()
        return super().fit(
            x,
            y,
            batch_size=batch_size,
            sample_weight=sample_weight,
            validation_data=validation_data,
            validation_batch_size=validation_batch_size,
            shuffle=shuffle,
            callbacks=callbacks,
            verbose=verbose,
            **kwargs,
        )

    def _training_texts(self, x, y, weights, validation_data, validation_split):
        """The training and the validation part as `Texts`, where they are texts."""
        if holds_texts(x):
            x = self.texts_of(x, y, weights, "x")
            if validation_split and validation_data is None:
                x, validation_data = x.split(validation_split)
        parts = validation_data
        if not isinstance(parts, tuple) or isinstance(parts, Texts):
            parts = (parts,)
        if holds_texts(parts[0]):
            validation_data = self.texts_of(*parts, argument="validation_data")
        return x, validation_data

    def texts_of(self, x, y=None, sample_weight=None, argument="x"):
        """Texts with the targets of this model's task, as `Texts`."""
        if isinstance(x, TextDataset):
            self.check_data(x, argument)
        texts = as_texts(x, y, sample_weight)
        if texts.targets is None:
            expected = f"given beside texts: their {self.task}"
            raise ValueError(sentence("y", expected, None))
        return texts

    def _shares(self, texts, **settings):
        """The function from a `pipeline.Share` to batches; None where no data are."""
        if texts is None:
            return None
        if not isinstance(texts, Texts):
            remedy = 'Read a set with `bat_tf.data.read("train.jsonl")`.'
            expected = "texts, under a strategy of several replicas"
            raise TypeError(sentence("x", expected, texts, remedy))
        return lambda share: self.batches(texts, **settings, share=share)

    def evaluate(
        self,
        x=None,
        y=None,
        *,
        batch_size=64,
        sample_weight=None,
        cache_backbone=False,
        verbose="auto",
        **kwargs,
    ):
        """As Keras' `evaluate`, for texts too."""
        verbose = verbosity(verbose)
        texts = self.texts_of(x, y, sample_weight) if holds_texts(x) else x
        settings = {"batch_size": batch_size, "cache": cache_backbone}
        if self.distribute_strategy.num_replicas_in_sync > 1:
            results = distributed.evaluate(self, self._shares(texts, **settings))
            return results if kwargs.get("return_dict") else list(results.values())
        if isinstance(texts, Texts):
            x, y, sample_weight = self.batches(texts, **settings), None, None
            batch_size = None
        settings = {"batch_size": batch_size, "sample_weight": sample_weight}
        return super().evaluate(x, y, **settings, verbose=verbose, **kwargs)

    def predict(self, x, batch_size=64, verbose="auto", **kwargs):
        """As Keras' `predict`: the logits, for texts too.

        Of texts it reads the first `max_length` tokens. The logits of tags [N, T, C]
        are 0 behind the end of a text.
        """
        if not holds_texts(x):
            return super().predict(x, batch_size=batch_size, verbose=verbose, **kwargs)
        texts = [x] if isinstance(x, (str, bytes)) else as_texts(x).texts
        return self.scores(texts, batch_size)

    def scores(self, data, batch_size=64, cache_backbone=False):
        """The logits of a `TextDataset` or a list of texts, in its order.

        Args:
            data: the texts.
            batch_size: texts a step.
            cache_backbone: as in `fit`; worth it with a folder that other runs on the
                same texts use too.
        """
        if not len(data):
            return self.scores([""])[:0]
        logits = None
        for rows, part in self.score_batches(data, batch_size, cache_backbone):
            if logits is None:
                shape = (len(data), *self._logits_shape(data, part))
                logits = np.zeros(shape, "float32")
            if part.ndim == 2:
                logits[rows] = part
            else:
                logits[rows, : part.shape[1]] = part
        return logits

    def _logits_shape(self, data, part):
        return part.shape[1:]

    def score_batches(self, data, batch_size=64, cache_backbone=False):
        """Scores texts a batch at a time, for more of them than memory has room for.

        Args:
            data: a `TextDataset` or a list of texts.
            batch_size: texts a step.
            cache_backbone: as in `scores`.

        Yields:
            (rows, logits): places in `data`, and their logits; texts of similar length
            come together.
        """
        examples = self.first_tokens(data)
        examples = self.cached(examples, cache_backbone)
        for rows, inputs in pipeline.text_batches(examples, self.tokenizer, batch_size):
            yield rows, self.predict_on_batch(inputs)

    def first_tokens(self, data):
        """The first `max_length` tokens of texts, see `pipeline.text_examples`."""
        texts = as_texts(data).texts if len(data) else []
        settings = (self.tokenizer, self.max_length, self.preprocessor.letters)
        return pipeline.text_examples(texts, *settings)

    def train_on_batch(self, x, y=None, sample_weight=None, **kwargs):
        """As Keras' own, for texts too."""
        self.begin_training()
        parts = self._batch(x, y, sample_weight)
        return super().train_on_batch(*parts, **kwargs)

    def test_on_batch(self, x, y=None, sample_weight=None, **kwargs):
        """As Keras' own, for texts too."""
        parts = self._batch(x, y, sample_weight)
        return super().test_on_batch(*parts, **kwargs)

    def predict_on_batch(self, x):
        """As Keras' own, for texts too; always on one replica, and without XLA.

        XLA would compile a program for each length of a batch, for one use of it.
        """
        if self._predict is None:
            self._predict = tf.function(self.predict_step, reduce_retracing=True)
        x = self.preprocessor(x) if holds_texts(x) else x
        return keras.ops.convert_to_numpy(self._predict((x,)))

    def _batch(self, x, y, sample_weight):
        if not holds_texts(x):
            return x, y, sample_weight
        batch = self.preprocessor(*self.texts_of(x, y, sample_weight))
        return keras.utils.unpack_x_y_sample_weight(batch)

    # === Answers and files ===

    def export(self, filepath, **kwargs):
        """Writes a SavedModel that takes raw strings; see `bat_tf.models.export`."""
        return export_model(self, filepath, **kwargs)

    def _forget_compiled(self):
        """Drops what was traced with other weights, or another meaning of logits."""
        self._answers = self._choose = self._predict = None

    def quantize(self, *args, **kwargs):
        """As in Keras; answers are computed with the new weights, too."""
        super().quantize(*args, **kwargs)
        self._forget_compiled()

    @classmethod
    def check_data(cls, dataset, argument):
        """Raises if a dataset is not of the kind that this model learns from."""
        check_data(dataset, cls.task, argument)

    def get_config(self):
        return {
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "preprocessor": keras.saving.serialize_keras_object(self.preprocessor),
            "heads": keras.saving.serialize_keras_object(list(self.heads)),
            "name": self.name,
            "bat_tf": VERSION,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        warn_if_newer(config.pop("bat_tf", None), f"The model {config.get('name')!r}")
        for name in cls.nested:
            config[name] = keras.saving.deserialize_keras_object(
                config[name], custom_objects=custom_objects
            )
        return cls(**config)


def check_ids(encoder, tokenizer):
    """Raises if a tokenizer has ids that an encoder has no embedding for."""
    encoder = getattr(getattr(encoder, "backbone", None), "encoder", encoder)
    known, size = getattr(encoder, "vocabulary_size", None), len(tokenizer.vocabulary)
    if known is not None and size > known:
        expected = f"one of at most {known} tokens, those that the encoder knows"
        remedy = "Encoder and vocabulary must come from the same folder."
        raise ValueError(sentence("tokenizer", expected, f"{size} tokens", remedy))


def embedding_width(encoder):
    """The width of an encoder's embeddings: of few it is not that of the states."""
    return getattr(encoder, "embedding_width", encoder.d_model)
