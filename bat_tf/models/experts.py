"""ExpertClassifier: a `LabelClassifier` with ME-XML's settings and shorthand."""

import keras

from bat_tf._internal.validation import sentence
from bat_tf.data import pipeline
from bat_tf.data.preprocessors import LabelPreprocessor
from bat_tf.heads.combine import Average
from bat_tf.heads.experts import expert_heads
from bat_tf.heads.sparse_words import (
    GAIN,
    SparseWordsHead,
    pairs_with_names,
    tfidf_matrix,
    word_label_pairs,
)
from bat_tf.models.classifier import LabelClassifier, name_tokens, word_idf
from bat_tf.models.parts import labels_for_data, parts_for_data
from bat_tf.models.svm import separate_as_logits

# Above so many weights, the expert S has some pairs of words and labels alone.
MOST_WEIGHTS = 2**24


@keras.saving.register_keras_serializable(package="bat_tf")
class ExpertClassifier(LabelClassifier):
    """Scores labels by several experts that read one encoder at different layers.

    It is a `LabelClassifier` whose heads are averaged: each learns by itself from the
    loss, and a small term pays them for differing on rare labels. A label's probability
    is the mean of the experts'. `for_data` makes the heads from the notation of the
    paper, see `bat_tf.heads.experts`: `D-12`, `D-(12+1)`, `A-1` and `S`.

    Args:
        encoder: see `LabelClassifier`.
        preprocessor: see `LabelClassifier`.
        heads: see `LabelClassifier`.
        combine: see `LabelClassifier`.
        **kwargs: see `LabelClassifier`.

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

    def __init__(self, encoder, preprocessor, heads, *, combine=None, **kwargs):
        combine = Average() if combine is None else combine
        super().__init__(encoder, preprocessor, heads, combine=combine, **kwargs)

    @classmethod
    def for_data(
        cls,
        train,
        encoder="bat",
        tokenizer=None,
        *,
        labels=None,
        experts=("D-4", "A-1"),
        combine=None,
        name_strength=10.0,
        name_likeness=0.0,
        pooling="first",
        expert_width=None,
        head_dropout=0.0,
        learnt_threshold=False,
        max_length=256,
        consistency=(),
        candidates=0,
        pairs_per_word=None,
        words_fitted=False,
        **encoder_settings,
    ):
        """Builds a classifier that fits a dataset: vocabulary, labels, counts.

        Args:
            train: a `TextDataset` with labels. Only this part is looked at.
            encoder: an encoder or the name of one.
            tokenizer: as in `LabelClassifier.for_data`.
            labels: a `LabelSpace` if it is to be another than that of `train`.
            experts: which experts, in the notation of the paper.
            combine: see `LabelClassifier`; None is `Average()`, as in the paper.
            name_strength: for the expert `S`, as in `LabelClassifier.for_data`.
            name_likeness: the same for document experts, where a pretrained encoder has
                like states for like texts: how much it counts before training that a
                text is like a label's name, see `DocumentHead.start_from_names`.
            pooling: how document experts see a layer, see `Pooling`.
            expert_width: hidden width of document experts; None is that of what they
                read, 0 makes them linear.
            head_dropout: rate in document experts.
            learnt_threshold: whether document experts learn a threshold of each text,
                for TLPR; see `DocumentHead`.
            max_length: tokens the encoder sees of a text, from its beginning.
            consistency: see `LabelClassifier`.
            candidates: see `LabelClassifier`.
            pairs_per_word: labels that a word has weights for in the expert `S`, the
                telling ones; None is all, or 1,000 where there are many.
            words_fitted: fit the expert `S` first, as linear support vector machines,
                and leave it so: a second opinion that does not learn the training texts
                by heart. The names of labels play no part in it then. For some hundred
                labels.
            **encoder_settings: as in `LabelClassifier.for_data`.
        """
        cls.check_data(train, "train")
        encoder, tokenizer = parts_for_data(train, encoder, tokenizer, encoder_settings)
        labels = labels_for_data(train, labels)
        preprocessor = LabelPreprocessor(tokenizer, labels, max_length)
        tokens = pipeline.text_examples(train.texts, tokenizer, max_length)
        idf = names = pairs = kernel = None
        if "S" in experts:
            idf, names = word_idf(tokens, tokenizer), name_tokens(labels, tokenizer)
            if pairs_per_word is None and len(idf) * len(labels) > MOST_WEIGHTS:
                pairs_per_word = 1000
        if candidates or pairs_per_word:
            pairs = word_label_pairs(
                tokens["token_ids"],
                labels.csr(train.labels),
                len(tokenizer.vocabulary),
                pairs_per_word or 1,
            )
        if names and pairs_per_word:
            kernel = pairs_with_names(pairs, names, idf, name_strength / GAIN)
        heads = expert_heads(
            experts,
            encoder,
            len(labels),
            pooling=pooling,
            width=expert_width,
            dropout=head_dropout,
            learnt_threshold=learnt_threshold,
            idf=idf,
            num_pairs=kernel and len(kernel[0]),
            words_trainable=not words_fitted,
        )
        settings = {"candidates": candidates, "consistency": consistency}
        model = cls(encoder, preprocessor, heads, combine=combine, **settings)
        if candidates:
            model.choose.set_hard(*pairs)
        words = next((head for head in heads if head.name == "words"), None)
        if kernel:
            words.set_pairs(*kernel)
        elif names and name_strength:
            words.start_from_names(names, name_strength)
        model.start_from_counts()
        if name_likeness:
            model.start_from_names(name_likeness)
        if words_fitted:
            _fit_words(words, tokens["token_ids"], labels.csr(train.labels))
        return model


def _fit_words(head, token_ids, labels):
    """Fits the expert `S` alone, by a support vector machine for each label."""
    if head is None or isinstance(head, SparseWordsHead):
        expected = "with an expert `S` that has a weight for every word and label"
        remedy = "Leave `words_fitted` out: S then learns with the others."
        raise ValueError(sentence("words_fitted", expected, True, remedy))
    features = tfidf_matrix(token_ids, head.idf)
    head.set_linear(*separate_as_logits(features, labels))
