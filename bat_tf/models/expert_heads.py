"""The experts of an `ExpertClassifier`: their notation, their heads, what they read."""

import re

import keras
import numpy as np
from keras import ops

from bat_tf._validation import sentence
from bat_tf.data.pipeline import DOCUMENT_STATES, TOKEN_STATES
from bat_tf.layers.bag_of_words import BagOfWords, SparseBagOfWords
from bat_tf.layers.label_attention import LabelAttention
from bat_tf.layers.label_scores import LabelScores
from bat_tf.layers.pooling import Pooling
from bat_tf.models.frozen import FrozenPart

_NOTATION = re.compile(r"([DA])-(\d+|\(\d+(?:\+\d+)*\))")


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


class ExpertHeads:
    """One head for each expert, on the states of one encoder.

    Args:
        names: of the experts, in the notation of `ExpertClassifier`.
        encoder: the encoder.
        num_labels: L.
        pooling: how document experts see a layer, see `Pooling`.
        expert_width: hidden width of document experts; None is that of what they read.
        dropout: rate in front of the document experts.
        words: makes the head of the expert `S`, see `words_head`.
    """

    def __init__(
        self, names, encoder, num_labels, pooling, expert_width, dropout, words
    ):
        self.names = list(names)
        self.encoder = encoder
        self.depth = len(encoder.blocks)
        self.parsed = [parse_expert(name, self.depth) for name in names]
        if not self.parsed:
            raise ValueError(sentence("experts", "one at least", self.names))
        self.drop = keras.layers.Dropout(dropout, name="head_dropout")
        self.pool = Pooling(pooling, name="pooling")
        # The layers that are read, and those whose pooled states are.
        self.layers = sorted({n for _, layers in self.parsed for n in layers})
        documents = [layers for kind, layers in self.parsed if kind == "D"]
        self.document_layers = sorted({n for layers in documents for n in layers})
        self.heads = []
        for number, (kind, layers) in enumerate(self.parsed, 1):
            if kind == "A":
                head = LabelAttention(num_labels, name=f"attention_{number}")
            elif kind == "D":
                width = encoder.d_model * len(layers)
                width = width if expert_width is None else expert_width
                head = LabelScores(num_labels, width, name=f"document_{number}")
            else:
                head = words()
            self.heads.append(head)

    def logits(self, inputs):
        """The logits of all experts, [B, K, L] or of some labels [B, K, C]."""
        return self._logits(inputs, *self._read(inputs))

    def logits_and_document(self, inputs):
        """The logits of all experts, and what the first document expert reads."""
        states, documents = self._read(inputs)
        return self._logits(inputs, states, documents), self._first(documents)

    def document(self, inputs):
        """What the first document expert reads: [B, width]."""
        return self._first(self._read(inputs)[1])

    def _first(self, documents):
        layers = self.parsed[self.first_document][1]
        return _beside([documents[layer] for layer in layers])

    @property
    def first_document(self):
        """The place of the first document expert, from 0; None if there is none."""
        kinds = [kind for kind, _ in self.parsed]
        return kinds.index("D") if "D" in kinds else None

    def _read(self, inputs):
        """The states of the layers that are read, and the pooled ones."""
        if DOCUMENT_STATES in inputs:
            return None, _apart(inputs[DOCUMENT_STATES], self.document_layers)
        states = self._states(inputs)
        return states, self._pooled(states, inputs["padding_mask"])

    def _logits(self, inputs, states, documents):
        mask = inputs["padding_mask"]
        chosen = inputs.get("candidates", inputs.get("shortlist"))
        logits = []
        for (kind, layers), head in zip(self.parsed, self.heads, strict=True):
            if kind == "S":
                logits.append(head(inputs["token_ids"], mask, labels=chosen))
            elif kind == "A":
                read = _beside([states[layer] for layer in layers])
                logits.append(head(read, mask, labels=chosen))
            else:
                read = _beside([documents[layer] for layer in layers])
                logits.append(head(self.drop(read), labels=chosen))
        return ops.stack([ops.cast(x, "float32") for x in logits], axis=1)

    def features(self, inputs, number):
        """What a document expert multiplies the rows of the labels with: [B, width]."""
        kind, layers = self.parsed[number]
        if kind != "D":
            expected = "the place of a document expert, D-…"
            raise ValueError(sentence("number", expected, self.names[number]))
        _, documents = self._read(inputs)
        return self.heads[number].features(_beside([documents[n] for n in layers]))

    def frozen_part(self):
        """What is read of an encoder that does not learn at all.

        Returns:
            A `FrozenPart`: the pooled states, if no expert reads more, or those of all
            tokens, each of the layers that are read. None if something learns.
        """
        if self.encoder.trainable_variables or not self.layers:
            return None
        only_documents = all(kind != "A" for kind, _ in self.parsed)
        pooled = only_documents and self.pool.mode in ("first", "mean", "max")

        def states(inputs):
            found = self._states(inputs)
            if pooled:
                found = self._pooled(found, inputs["padding_mask"])
            return _beside([found[layer] for layer in self.layers])

        return FrozenPart(
            DOCUMENT_STATES if pooled else TOKEN_STATES,
            states,
            self.encoder.d_model * len(self.layers),
            self.encoder.non_trainable_variables,
            (self.pool.mode if pooled else "tokens", self.layers),
        )

    def _pooled(self, states, mask):
        """Layer → its pooled states, of those that document experts read."""
        return {n: self.pool(states[n], mask) for n in self.document_layers}

    def _states(self, inputs):
        """Layer → its states, once every layer that is read is among them."""
        if TOKEN_STATES in inputs and not self.encoder.trainable_variables:
            return _apart(inputs[TOKEN_STATES], self.layers)
        states = self.encoder(inputs)
        missing = self.depth + 1 - len(states)  # cached states begin further up
        for name, (_, layers) in zip(self.names, self.parsed, strict=True):
            if layers and min(layers) < missing:
                raise ValueError(
                    f"Expert {name!r} reads below layer {missing}, where the cached "
                    "states begin. Train without `cache_backbone`, or freeze fewer "
                    "layers."
                )
        return dict(enumerate(states, missing))


def words_head(num_labels, idf, num_pairs=None, trainable=True):
    """The head of the expert `S`.

    Args:
        num_labels: L.
        idf: how much each token id says.
        num_pairs: weights, see `SparseBagOfWords`; None has one for every word and
            label.
        trainable: False where it was fitted first.
    """
    settings = {"use_bias": True, "dtype": "float32", "name": "words"}
    settings["trainable"] = trainable
    idf = np.asarray(idf, "float32")
    if num_pairs is None:
        return BagOfWords(num_labels, idf, **settings)
    return SparseBagOfWords(num_labels, idf, num_pairs, **settings)


def _apart(states, layers):
    """Layer → its part of states that are side by side."""
    found = ops.split(states, len(layers), axis=-1)
    return dict(zip(layers, found, strict=True))


def _beside(states):
    return states[0] if len(states) == 1 else ops.concatenate(states, axis=-1)
