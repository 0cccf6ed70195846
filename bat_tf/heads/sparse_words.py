"""Logits straight from the words of a text."""

import keras
import numpy as np
import scipy.sparse
import tensorflow as tf
from keras import ops

from bat_tf._internal.gather import of_some, owners, rows_of
from bat_tf._internal.validation import check_number, sentence
from bat_tf.heads.document import log_odds
from bat_tf.heads.head import Head, chosen_labels

# TF-IDF values and the steps of an optimizer are small; without a gain the kernel would
# lag behind the rest of a model.
GAIN = 50.0


@keras.saving.register_keras_serializable(package="bat_tf")
class WordsHead(Head):
    """Scores labels from the words of a text: a linear layer on their TF-IDF.

        logits = g · Σ_words (1 + log c) idf K[word] / norm

    for a word that occurs c times: the usual sublinear TF-IDF of length 1, summed token
    by token, so that nothing of the size of the vocabulary exists but the kernel K.

    Padding: masked tokens take no part.

    Args:
        num_labels: L.
        idf: how much each token id says; 0 leaves it out.
        use_bias: whether each label has a bias; not where other logits are added.

    Call arguments: see `Head`; it reads no states.

    Example:
        >>> head = WordsHead(2, idf=[0.0, 1.0, 2.0])
        >>> inputs = {"token_ids": np.array([[1, 2, 2]])}
        >>> head([], {**inputs, "padding_mask": np.ones((1, 3), bool)}).shape
        TensorShape([1, 2])
    """

    def __init__(self, num_labels, idf, *, use_bias=True, **kwargs):
        kwargs.pop("layers", None)
        super().__init__((), **kwargs)
        self.num_labels = num_labels
        self.idf = np.asarray(idf, "float32")
        self.use_bias = use_bias

    def build(self, states_shape=(), inputs_shape=None):
        self._build_weights(len(self.idf), self.num_labels)
        super().build(states_shape)

    def _build_weights(self, *shape):
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer="zeros")
        self.kernel.shares_second_moment = True  # see `training.optimizers`
        self.label_bias = None
        if self.use_bias:
            self.label_bias = self.add_weight(
                name="label_bias", shape=(self.num_labels,), initializer="zeros"
            )

    def start_from_names(self, names, strength=10.0):
        """Begins with the guess that a label applies where its name is in the text.

        Each word of the name adds its share · strength · TF-IDF to the label's logit;
        words that say more have the larger share. What is known of a rare label is
        often no more than what it is called.

        Args:
            names: for each label, the token ids of its name.
            strength: how much the name counts before training.
        """
        kernel = np.zeros(self.kernel.shape, "float32")
        words, labels, shares = name_shares(names, self.idf)
        kernel[words, labels] = strength / GAIN * shares
        self.kernel.assign(kernel)

    def set_linear(self, weights, bias):
        """Makes the logits those of a linear model on `tfidf_matrix`.

        Args:
            weights: [L, vocabulary].
            bias: [L].
        """
        self.kernel.assign(np.transpose(weights) / GAIN)
        self.label_bias.assign(bias)

    def start_from_counts(self, labels):
        """Begins at how frequent labels are, where labels have a bias."""
        if self.label_bias is not None:
            self.label_bias.assign(log_odds(labels))

    def call(self, states, inputs, training=None):
        token_ids, labels = inputs["token_ids"], chosen_labels(inputs)
        share = word_shares(token_ids, inputs["padding_mask"], self.idf)
        rows = ops.take(self.kernel, token_ids, axis=0)
        share = ops.cast(GAIN * share, rows.dtype)
        logits = ops.squeeze(ops.matmul(share[:, None, :], rows), 1)
        return self._add_bias(of_some(logits, labels), labels)

    def _add_bias(self, logits, labels):
        if self.label_bias is None:
            return logits
        return logits + of_some(self.label_bias[None, :], labels)


@keras.saving.register_keras_serializable(package="bat_tf")
class SparseWordsHead(WordsHead):
    """`WordsHead` whose kernel has weights for some pairs of word and label alone.

    A kernel of all words and labels has a billion weights where a language's words meet
    the labels of a library, and nearly all of them belong to pairs that no text has.
    `set_pairs` takes those that are worth a weight; all others are 0 and stay so.

    Padding: masked tokens take no part. Not for XLA: how many pairs a batch touches is
    known when its words are.

    Args:
        num_labels: L.
        idf: how much each token id says; 0 leaves it out.
        num_pairs: number of weights.
        **kwargs: see `WordsHead`.

    Call arguments: see `WordsHead`.

    Example:
        >>> head = SparseWordsHead(3, [0.0, 1.0, 2.0], num_pairs=2, use_bias=False)
        >>> head.set_pairs(words=[1, 2], labels=[2, 0], weights=[0.1, 0.2])
        >>> inputs = {"token_ids": np.array([[1]]), "padding_mask": np.array([[True]])}
        >>> head([], inputs).numpy().round(1).tolist()
        [[0.0, 0.0, 5.0]]
    """

    def __init__(self, num_labels, idf, num_pairs, **kwargs):
        super().__init__(num_labels, idf, **kwargs)
        self.supports_jit = False
        self.num_pairs = check_number("num_pairs", num_pairs, low=1, integer=True)

    def build(self, states_shape=(), inputs_shape=None):
        def place(name, size):
            return self.add_weight(
                name=name,
                shape=(size,),
                initializer="zeros",
                dtype="int32",
                trainable=False,
            )

        # The pairs of word w are splits[w] to splits[w + 1].
        self.splits = place("splits", len(self.idf) + 1)
        self.pair_labels = place("pair_labels", self.num_pairs)
        self._build_weights(self.num_pairs)
        Head.build(self, states_shape)

    def set_pairs(self, words, labels, weights=None):
        """Says which pairs have a weight.

        Args:
            words: token id of each pair, `num_pairs` of them.
            labels: label id of each pair.
            weights: their weights to begin with; None is 0.
        """
        if not self.built:
            self.build()
        words, labels = np.asarray(words), np.asarray(labels)
        if len(words) != self.num_pairs or len(labels) != self.num_pairs:
            expected = f"of `num_pairs`, {self.num_pairs}, words and labels"
            raise ValueError(sentence("words", expected, (len(words), len(labels))))
        order = np.lexsort((labels, words))
        counts = np.bincount(words, minlength=len(self.idf))
        self.splits.assign(np.concatenate([[0], np.cumsum(counts)]))
        self.pair_labels.assign(labels[order])
        weights = np.zeros(self.num_pairs) if weights is None else np.asarray(weights)
        self.kernel.assign(weights[order])

    def call(self, states, inputs, training=None):
        token_ids, labels = inputs["token_ids"], chosen_labels(inputs)
        share = GAIN * word_shares(token_ids, inputs["padding_mask"], self.idf)
        at = tf.where(share > 0)
        word, share = tf.gather_nd(token_ids, at), tf.gather_nd(share, at)
        kernel, splits = tf.convert_to_tensor(self.kernel), self.splits.value
        # The pairs of all words one after the other, and which word each is of.
        first = tf.gather(splits, word)
        count = tf.gather(splits, word + 1) - first
        pair = tf.raw_ops.RaggedRange(
            starts=first, limits=first + count, deltas=1, Tsplits=tf.int32
        ).rt_dense_values
        column = rows_of(self.pair_labels.value, splits, word)
        owner = owners(count)
        width = self.num_labels
        if labels is not None:
            # Pairs of other labels are left out before anything is summed.
            labels = tf.convert_to_tensor(labels)
            width = tf.size(labels)
            column = tf.gather(_places(labels, self.num_labels), column)
            kept = tf.where(column >= 0)[:, 0]
            column, owner = tf.gather(column, kept), tf.gather(owner, kept)
            pair = tf.gather(pair, kept)
            weight = tf.stop_gradient(tf.gather(kernel, pair))
        else:
            weight = rows_of(tf.stop_gradient(kernel), splits, word)
        # One flat index: a text's label.
        rows, width = (tf.cast(x, "int64") for x in (tf.shape(token_ids)[0], width))
        begin = tf.gather(at[:, 0] * width, owner)
        index = begin + tf.cast(column, "int64")
        share = tf.cast(tf.gather(share, owner), weight.dtype)

        @tf.custom_gradient
        def summed(kernel):
            logits = tf.math.unsorted_segment_sum(weight * share, index, rows * width)

            def gradient(upstream):
                parts = tf.gather(upstream, index) * share
                return tf.math.unsorted_segment_sum(parts, pair, tf.size(kernel))

            return logits, gradient

        logits = tf.reshape(summed(kernel), (rows, width))
        width = self.num_labels if labels is None else labels.shape[0]
        return tf.ensure_shape(self._add_bias(logits, labels), (None, width))


def _places(labels, total):
    """Where each of all labels is among some [C], -1 where it is not."""
    places = tf.fill((total,), -1)
    at = tf.range(tf.size(labels))
    return tf.tensor_scatter_nd_update(places, labels[:, None], at)


def word_shares(token_ids, padding_mask, idf):
    """The TF-IDF of each token's word, shared out among the word's tokens: [B, T].

    Args:
        token_ids: [B, T].
        padding_mask: bool [B, T].
        idf: of each token id.
    """
    same = ops.equal(token_ids[:, :, None], token_ids[:, None, :])
    same = ops.logical_and(same, padding_mask[:, None, :])
    count = ops.maximum(ops.sum(ops.cast(same, "float32"), axis=-1), 1.0)
    idf = ops.take(ops.convert_to_tensor(idf), token_ids, axis=0)
    value = ops.where(padding_mask, idf * (1.0 + ops.log(count)), 0.0)
    share = value / count
    norm = ops.sqrt(ops.sum(value * share, axis=-1, keepdims=True))
    return ops.divide_no_nan(share, norm)


def tfidf_matrix(token_ids, idf):
    """The vectors that `WordsHead` multiplies its kernel with, as a SciPy CSR matrix.

    Args:
        token_ids: RaggedTensor, a row a text.
        idf: how much each token id says; 0 leaves it out.

    >>> ids = tf.ragged.constant([[1, 2], [2, 2]])
    >>> tfidf_matrix(ids, np.array([0.0, 3.0, 4.0])).toarray().round(1).tolist()
    [[0.0, 0.6, 0.8], [0.0, 0.0, 1.0]]
    """
    texts = _word_counts(token_ids, len(idf))
    texts.data = (1 + np.log(texts.data)) * np.asarray(idf)[texts.indices]
    norm = np.sqrt(texts.multiply(texts).sum(axis=1))
    norm = np.asarray(norm).ravel()
    return scipy.sparse.diags(1 / np.where(norm > 0, norm, 1)) @ texts


def _word_counts(token_ids, vocabulary_size):
    """How often each text has each token id: CSR [N, vocabulary]."""
    ids, splits = token_ids.flat_values.numpy(), token_ids.row_splits.numpy()
    shape = (len(splits) - 1, vocabulary_size)
    texts = scipy.sparse.csr_matrix((np.ones(len(ids), "float32"), ids, splits), shape)
    texts.sum_duplicates()
    return texts


def name_shares(names, idf):
    """The share that each word has in what a label's name says.

    Args:
        names: for each label, the token ids of its name.
        idf: how much each token id says.

    Returns:
        (words, labels, shares): three arrays; the shares of a label add up to 1.

    >>> words, labels, shares = name_shares([[1], [1, 2]], np.array([0, 1.0, 3.0]))
    >>> labels.tolist(), shares.tolist()
    ([0, 1, 1], [1.0, 0.25, 0.75])
    """
    words = [np.unique(np.asarray(tokens, "int64")) for tokens in names]
    words = [tokens[idf[tokens] > 0] for tokens in words]
    labels = np.repeat(np.arange(len(words)), [len(tokens) for tokens in words])
    words = np.concatenate([np.zeros(0, "int64"), *words])
    total = np.bincount(labels, idf[words], minlength=len(names))
    return words, labels, idf[words] / total[labels]


def pairs_with_names(pairs, names, idf, strength):
    """Pairs of words and labels, those of the labels' names among them.

    Args:
        pairs: (words, labels), such as `word_label_pairs` returns.
        names: for each label, the token ids of its name.
        idf: how much each token id says; a word without takes no part.
        strength: what the pairs of a name share out among them.

    Returns:
        (words, labels, weights): what `SparseWordsHead.set_pairs` takes.
    """
    total = len(names)
    keys = np.asarray(pairs[0], "int64") * total + pairs[1]
    words, labels, shares = name_shares(names, idf)
    named = words * total + labels
    every = np.union1d(keys[idf[keys // total] > 0], named)
    weights = np.zeros(len(every), "float32")
    weights[np.searchsorted(every, named)] = strength * shares
    return every // total, every % total, weights


def word_label_pairs(token_ids, labels, vocabulary_size, most):
    """The pairs of word and label that training texts have, the telling ones of each.

    A pair is judged by c log(c N / (n_word n_label)), its part in the mutual
    information of words and labels, with c texts of N that have both.

    Args:
        token_ids: RaggedTensor, a row a text.
        labels: SciPy CSR [N, L].
        vocabulary_size: number of token ids.
        most: pairs that a word has at most.

    Returns:
        (words, labels): two arrays of ids; the best pair of each word comes first.
    """
    texts = _word_counts(token_ids, vocabulary_size)
    texts.data[:] = 1
    labels = labels.astype("float32")
    both = (texts.T @ labels).tocoo()
    of_word, of_label = (np.asarray(x.sum(axis=0)).ravel() for x in (texts, labels))
    expected = of_word[both.row] * of_label[both.col] / texts.shape[0]
    gain = both.data * np.log(both.data / expected)
    order = np.lexsort((-gain, both.row))
    words = both.row[order]
    starts = np.searchsorted(words, np.arange(vocabulary_size))
    kept = np.arange(len(words)) - starts[words] < most
    return words[kept], both.col[order][kept]


def inverse_document_frequency(token_ids, vocabulary_size):
    """log((1 + N) / (1 + n)) + 1 of each token id, and 0 for those that never occur.

    Args:
        token_ids: RaggedTensor, a row a document.
        vocabulary_size: number of token ids.
    """
    rows, ids = token_ids.value_rowids().numpy(), token_ids.flat_values.numpy()
    pairs = np.unique(rows.astype("int64") * vocabulary_size + ids)
    documents = np.bincount(pairs % vocabulary_size, minlength=vocabulary_size)
    total = int(token_ids.nrows())
    idf = np.log((1 + total) / (1 + documents)) + 1
    return np.where(documents > 0, idf, 0.0).astype("float32")
