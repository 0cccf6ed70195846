"""What models that label documents share: scores, thresholds, answers, reports."""

import numpy as np

from bat_tf import losses, metrics
from bat_tf._validation import check_texts, sentence
from bat_tf.data import pipeline
from bat_tf.data.dataset import TextDataset
from bat_tf.layers.bag_of_words import inverse_document_frequency
from bat_tf.models.text_model import TextModel
from bat_tf.thresholds import fit_threshold


class LabelModel(TextModel):
    """A text model whose answer is labels: one logit for each, and a threshold.

    Subclasses set `labels`, a `LabelSpace`, and through `keep_scores` what the logits
    mean; `combine` makes the logits [B, L] of what the network puts out.
    """

    task = "labels"
    nested = ("encoder", "tokenizer", "labels")

    def keep_scores(self, labels, score_scale, score_threshold, thresholds):
        """Keeps the labels and the meaning of the logits; call it after `__init__`."""
        self.labels = labels
        self.score_scale = score_scale
        self.score_threshold = score_threshold
        self.thresholds = thresholds

    def score_config(self):
        """What `keep_scores` keeps, for `get_config`."""
        return {
            "score_scale": self.score_scale,
            "score_threshold": self.score_threshold,
            "thresholds": self.thresholds,
        }

    def combine(self, outputs):
        """The logits [B, L] of what the network puts out."""
        return outputs

    @property
    def cut(self):
        """The logits above which labels are chosen: a number, one a label, or None."""
        return self.score_threshold if self.thresholds is None else self.thresholds

    def take_loss(self, loss):
        """Takes the meaning of the logits from a loss of this library."""
        if hasattr(loss, "probability_scale"):
            self.score_scale = loss.probability_scale
            self.score_threshold = loss.score_threshold
        return loss

    def loss_settings(self, name):
        """What the training data say about the loss called `name`."""
        weighs = str(name).lower() in losses.balanced.NAMES
        return {"class_counts": self.labels} if weighs else {}

    def metric(self, name):
        """The metric called `name`, for this model."""
        metric = metrics.get(name, **self.labels.facts)
        if hasattr(metric, "threshold") and self.cut is not None:
            metric.threshold = self.cut
        return metric

    def examples(self, dataset, training):
        """Tokens and label ids."""
        # Training must know every label; what a model cannot know, it can be tested on.
        unknown = "error" if training else "skip"
        return pipeline.label_examples(
            dataset, self.tokenizer, self.labels, self.max_length, unknown
        )

    def batched(self, examples, seed=None, **settings):
        """See `pipeline.label_batches`; shapes are fixed in training alone."""
        fixed = bool(self.jit_compile) and seed is not None
        return pipeline.label_batches(
            examples, self.tokenizer, seed=seed, fixed_shapes=fixed, **settings
        )

    def score_batches(self, data, batch_size=64, cache_backbone=False):
        """Scores texts a batch at a time, for more of them than memory has room for.

        Args:
            data: a `TextDataset` or a list of texts.
            batch_size: texts a step.
            cache_backbone: as in `fit`; worth it with a folder that other runs on the
                same texts use too.

        Yields:
            (rows, logits): places in `data`, and their logits [rows, L]; texts of
            similar length come together.
        """
        texts = data.texts if isinstance(data, TextDataset) else check_texts(data)
        examples = pipeline.text_examples(texts, self.tokenizer, self.max_length)
        examples = self._cached(examples, cache_backbone)
        for rows, inputs in pipeline.text_batches(examples, self.tokenizer, batch_size):
            yield rows, np.asarray(self.predict_on_batch(inputs))

    def scores(self, data, batch_size=64, cache_backbone=False):
        """The logits [N, L] of a `TextDataset` or a list of texts, in its order."""
        logits = np.zeros((len(data), len(self.labels)), "float32")
        for rows, part in self.score_batches(data, batch_size, cache_backbone):
            logits[rows] = part
        return logits

    def fit_thresholds(
        self, valid, batch_size=64, cache_backbone=False, by_count=False, **settings
    ):
        """Chooses thresholds on data that the model was not trained on.

        Args:
            valid: a `TextDataset` with labels.
            batch_size: texts a step.
            cache_backbone: as in `score_batches`.
            by_count: thresholds that depend on how many training documents a label had.
            **settings: of `bat_tf.thresholds.fit_threshold`, such as `per_label=True`.

        Returns:
            The fitted `Thresholds`; the model keeps, saves and exports them.
        """
        self.check_data(valid, "valid")
        if by_count:
            if self.labels.counts is None:
                remedy = "Make the labels with `LabelSpace.fit`."
                expected = "False for labels whose counts are not known"
                raise ValueError(sentence("by_count", expected, by_count, remedy))
            settings["label_counts"] = self.labels.counts
        labels = self.labels.csr(valid.labels, unknown="skip")
        scores = self.scores(valid, batch_size, cache_backbone)
        fitted = fit_threshold(scores, labels, **settings)
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

    def evaluate_report(
        self, dataset, batch_size=64, cache_backbone=False, metrics=(), **settings
    ):
        """Scores a dataset in full: a `LabelReport` with tables by group and label.

        Args:
            dataset: a `TextDataset` with labels; those the model does not know are left
                out.
            batch_size: texts a step.
            cache_backbone: as in `score_batches`.
            metrics: names of more metrics, such as `"p@5"` and `"psp@5"`.
            **settings: of `LabelReport.of_chunks`, such as `label_bounds`.
        """
        from bat_tf.metrics.label_report import LabelReport

        self.check_data(dataset, "dataset")
        labels = self.labels.csr(dataset.labels, unknown="skip")
        scored = self.score_batches(dataset, batch_size, cache_backbone)
        return LabelReport.of_chunks(
            ((logits, labels[rows]) for rows, logits in scored),
            self.labels,
            self.cut,
            metrics={name: self.metric(name) for name in metrics},
            data=dataset.name,
            **settings,
        )

    def describe(self):
        """What an export says of the model beside its labels and tokens."""
        return {"score_scale": self.score_scale, "thresholds": self.cut}


def word_idf(tokens, tokenizer):
    """How much each token id says, in texts as `pipeline.text_examples` gives them."""
    idf = inverse_document_frequency(tokens["token_ids"], len(tokenizer.vocabulary))
    idf[tokenizer.vocabulary.index("[UNK]")] = 0.0
    return idf


def name_tokens(labels, tokenizer):
    """The token ids of what each label is called, or means."""
    return pipeline.text_examples(labels.texts, tokenizer, 32)["token_ids"].to_list()


def start_from_counts(bias, labels):
    """Lets logits begin at how frequent the labels are: log(n / (N - n))."""
    counts = np.maximum(labels.counts, 0.5)
    odds = counts / np.maximum(labels.num_examples - counts, 0.5)
    # Behind the labels there may be a threshold, which begins at 0.
    bias.assign(np.pad(np.log(odds), (0, bias.shape[0] - len(odds))))


NO_THRESHOLD = (
    "This model's loss only ranks labels; it has no threshold yet. Fit one with "
    "`model.fit_thresholds(valid)`, or ask for `top_k` labels."
)
