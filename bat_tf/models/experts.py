"""ExpertClassifier: several experts on one encoder, for large label sets."""

import re

import keras
import numpy as np
from keras import ops

from bat_tf._validation import check_choice, check_number, sentence
from bat_tf.data.labels import LabelSpace
from bat_tf.layers.bag_of_words import BagOfWords
from bat_tf.layers.label_attention import LabelAttention
from bat_tf.layers.pooling import POOLINGS, Pooling
from bat_tf.losses import DocumentLoss, ExpertEpochs, ExpertLoss
from bat_tf.models.label_model import LabelModel, start_from_names, word_idf
from bat_tf.models.text_model import model_inputs, parts_for_data

_NOTATION = re.compile(r"([DA])-(\d+|\(\d+(?:\+\d+)*\))")


@keras.saving.register_keras_serializable(package="bat_tf")
class ExpertClassifier(LabelModel):
    """Scores labels by several experts that read one encoder at different layers.

    In the notation of the paper, `m` is the output of block m and 0 the embeddings:

    | expert | reads | and is |
    |---|---|---|
    | `D-12` | the pooled state of layer 12 | an MLP to the labels |
    | `D-(12+1)` | those of two layers side by side | the same |
    | `A-1` | the tokens of layer 1 | label-to-word attention, `LabelAttention` |
    | `S` | the words themselves, as TF-IDF | linear, `BagOfWords` |

    Each learns by itself from the loss, and a small term pays them for differing on
    rare labels. A label's probability is the mean of the experts'.

    Args:
        encoder: a Keras layer from `bat_tf.encoders`; one pass serves all experts.
        tokenizer: a `TextTokenizer` that has a vocabulary.
        labels: a `LabelSpace`, or the names.
        experts: which experts, in the notation above.
        pooling: how document experts see a layer, see `Pooling`.
        expert_width: hidden width of document experts; None is that of what they read,
            0 makes them linear.
        head_dropout: rate in front of the document experts.
        max_length: tokens the encoder sees of a text, from its beginning.
        mode: `"individual"` or `"collaborative"`, see `ExpertLoss`.
        diversity: α of the term that pays experts for differing; 0 for none.
        diversity_start_epoch: when it begins.
        idf: as in `LabelClassifier`, for the expert `S`.
        score_scale: as in `LabelClassifier`.
        score_threshold: as in `LabelClassifier`.
        thresholds: as in `LabelClassifier`.

    Example:
        >>> import bat_tf
        >>> from bat_tf.data import Example
        >>> rows = [("oil and gas prices", ["energy"]), ("rain in may", ["weather"])]
        >>> data = bat_tf.TextDataset(Example(t, labels=y) for t, y in rows * 8)
        >>> model = bat_tf.ExpertClassifier.for_data(
        ...     data, experts=["D-1", "A-0", "S"], num_layers=1, d_model=16
        ... )
        >>> model.compile("adam", loss="bce")
        >>> history = model.fit(data, epochs=1, verbose=0)
        >>> labels = model.label("gas prices", top_k=1)

    Reference:
        S3, ME-XML; the expert `S` is this library's.
    """

    default_loss = "bce"

    def __init__(
        self,
        encoder,
        tokenizer,
        labels,
        *,
        experts=("D-4", "A-1"),
        pooling="first",
        expert_width=None,
        head_dropout=0.0,
        max_length=256,
        mode="individual",
        diversity=0.01,
        diversity_start_epoch=2,
        idf=None,
        score_scale=1.0,
        score_threshold=0.0,
        thresholds=None,
        **kwargs,
    ):
        labels = labels if isinstance(labels, LabelSpace) else LabelSpace(labels)
        check_choice("pooling", pooling, POOLINGS)
        check_number("max_length", max_length, low=8, integer=True)
        if not len(labels):
            raise ValueError("`labels` must name one label at least. Received none.")
        depth = len(encoder.blocks)
        parsed = [parse_expert(name, depth) for name in experts]
        if not parsed:
            raise ValueError(sentence("experts", "one at least", list(experts)))

        # === Layers ===
        drop = keras.layers.Dropout(head_dropout, name="head_dropout")
        pool = Pooling(pooling, name="pooling")
        heads = []
        for number, (kind, layers) in enumerate(parsed, 1):
            if kind == "A":
                head = LabelAttention(len(labels), name=f"attention_{number}")
            elif kind == "D":
                width = (
                    encoder.d_model * len(layers)
                    if expert_width is None
                    else expert_width
                )
                head = _mlp(width, len(labels), f"document_{number}")
            else:
                idf = np.ones(len(tokenizer.vocabulary)) if idf is None else idf
                head = BagOfWords(len(labels), idf, dtype="float32", name="words")
            heads.append(head)

        # === Functional Model ===
        def network(inputs):
            mask = inputs["padding_mask"]
            states = encoder(inputs)
            missing = depth + 1 - len(states)  # cached states begin further up
            logits = []
            for name, (kind, layers), head in zip(experts, parsed, heads, strict=True):
                if kind == "S":
                    logits.append(head(inputs["token_ids"], mask))
                    continue
                if min(layers) < missing:
                    raise ValueError(
                        f"Expert {name!r} reads below layer {missing}, where the "
                        "cached states begin. Train without `cache_backbone`, or "
                        "freeze fewer layers."
                    )
                read = [states[layer - missing] for layer in layers]
                if kind == "A":
                    logits.append(head(_beside(read), mask))
                else:
                    logits.append(head(drop(_beside([pool(x, mask) for x in read]))))
            return ops.stack([ops.cast(x, "float32") for x in logits], axis=1)

        inputs = model_inputs(tokenizer)
        super().__init__(inputs=inputs, outputs=network(inputs), **kwargs)

        # === Config ===
        self.keep(encoder, tokenizer, max_length, network)
        self.keep_scores(labels, score_scale, score_threshold, thresholds)
        self.experts = list(experts)
        self.pooling = pooling
        self.expert_width = expert_width
        self.head_dropout = head_dropout
        self.mode = mode
        self.diversity = diversity
        self.diversity_start_epoch = diversity_start_epoch
        self.idf = None if idf is None else np.asarray(idf, "float32").tolist()

    @classmethod
    def for_data(
        cls,
        train,
        encoder="bat",
        tokenizer=None,
        *,
        labels=None,
        experts=("D-4", "A-1"),
        name_strength=10.0,
        pooling="first",
        expert_width=None,
        head_dropout=0.0,
        max_length=256,
        mode="individual",
        diversity=0.01,
        diversity_start_epoch=2,
        **encoder_settings,
    ):
        """Builds a classifier that fits a dataset: vocabulary, labels, counts.

        Args:
            train: a `TextDataset` with labels. Only this part is looked at.
            encoder: an encoder or the name of one.
            tokenizer: as in `LabelClassifier.for_data`.
            labels: a `LabelSpace` if it is to be another than that of `train`.
            experts: see the class.
            name_strength: for the expert `S`, as in `LabelClassifier.for_data`.
            pooling: see the class.
            expert_width: see the class.
            head_dropout: see the class.
            max_length: see the class.
            mode: see the class.
            diversity: see the class.
            diversity_start_epoch: see the class.
            **encoder_settings: as in `LabelClassifier.for_data`.
        """
        cls.check_data(train, "train")
        encoder, tokenizer = parts_for_data(train, encoder, tokenizer, encoder_settings)
        labels = labels if labels is not None else LabelSpace.fit(train.labels)
        words = "S" in experts
        model = cls(
            encoder,
            tokenizer,
            labels,
            experts=experts,
            pooling=pooling,
            expert_width=expert_width,
            head_dropout=head_dropout,
            max_length=max_length,
            mode=mode,
            diversity=diversity,
            diversity_start_epoch=diversity_start_epoch,
            idf=word_idf(train.texts, tokenizer, max_length) if words else None,
        )
        if words and name_strength:
            bag = model.get_layer("words")
            start_from_names(bag, model.labels, tokenizer, name_strength)
        return model

    def take_loss(self, loss):
        """Makes the loss of each expert one of all of them."""
        if isinstance(loss, DocumentLoss):
            loss = ExpertLoss(
                loss,
                mode=self.mode,
                diversity=self.diversity,
                label_counts=self.labels,
                diversity_start_epoch=self.diversity_start_epoch,
            )
        if not isinstance(loss, ExpertLoss):
            expected = "a loss for document labels of this library, or its name"
            raise ValueError(sentence("loss", expected, loss))
        return super().take_loss(loss)

    def combine(self, outputs):
        """The logits of the mean of the experts' probabilities: [B, K, L] → [B, L]."""
        if self.score_scale is None:
            return ops.mean(outputs, axis=1)
        above = self.score_scale * (outputs - self.score_threshold)
        # logit(mean p) = log Σ p - log Σ (1 - p), without leaving the logarithms.
        yes = ops.logsumexp(ops.log_sigmoid(above), axis=1)
        no = ops.logsumexp(ops.log_sigmoid(-above), axis=1)
        return (yes - no) / self.score_scale + self.score_threshold

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """As Keras' own, of the experts together."""
        return super().compute_metrics(x, y, self.combine(y_pred), sample_weight)

    def predict_step(self, data):
        """The logits of the experts together."""
        return self.combine(super().predict_step(data))

    def fit(self, *args, callbacks=None, **kwargs):
        """As `TextModel.fit`; the loss is told which epoch it is."""
        callbacks = [*(callbacks or []), ExpertEpochs()]
        return super().fit(*args, callbacks=callbacks, **kwargs)

    def get_config(self):
        return {
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "tokenizer": keras.saving.serialize_keras_object(self.tokenizer),
            "labels": keras.saving.serialize_keras_object(self.labels),
            "experts": self.experts,
            "pooling": self.pooling,
            "expert_width": self.expert_width,
            "head_dropout": self.head_dropout,
            "max_length": self.max_length,
            "mode": self.mode,
            "diversity": self.diversity,
            "diversity_start_epoch": self.diversity_start_epoch,
            "idf": self.idf,
            **self.score_config(),
            "name": self.name,
        }


def parse_expert(name, depth):
    """What an expert is and which layers it reads.

    Args:
        name: such as `"D-(12+1)"`.
        depth: number of blocks of the encoder.

    Returns:
        (kind, layers).

    >>> parse_expert("D-(6+1)", 6), parse_expert("S", 6)
    (('D', [6, 1]), ('S', []))
    """
    if name == "S":
        return "S", []
    match = _NOTATION.fullmatch(str(name))
    if not match:
        expected = 'like "D-6", "A-1", "D-(6+1)" or "S"'
        raise ValueError(sentence("experts", expected, name))
    layers = [int(number) for number in match[2].strip("()").split("+")]
    if max(layers) > depth:
        expected = f"on layers 0 to {depth}, those of the encoder"
        raise ValueError(sentence("experts", expected, name))
    return match[1], layers


def _beside(states):
    return states[0] if len(states) == 1 else ops.concatenate(states, axis=-1)


def _mlp(width, num_labels, name):
    out = keras.layers.Dense(num_labels, dtype="float32", name="logits")
    hidden = [keras.layers.Dense(width, "relu", name="hidden")] if width else []
    return keras.Sequential([*hidden, out], name=name)
