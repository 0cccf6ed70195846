"""ExpertClassifier: several experts on one encoder, for large label sets."""

import itertools
import warnings

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bat_tf._replicas import needs_whole_batch
from bat_tf._targets import padded_ids
from bat_tf._validation import (
    check_choice,
    check_number,
    check_texts,
    import_optional,
    sentence,
)
from bat_tf.data import pipeline
from bat_tf.data.dataset import TextDataset
from bat_tf.data.labels import LabelSpace
from bat_tf.layers.bag_of_words import (
    GAIN,
    pairs_with_names,
    tfidf_matrix,
    word_label_pairs,
)
from bat_tf.layers.candidates import CandidateLabels
from bat_tf.layers.label_attention import LabelAttention
from bat_tf.layers.label_scores import LabelScores
from bat_tf.layers.neighbours import NeighbourVotes, check_votes, unit
from bat_tf.layers.pooling import POOLINGS
from bat_tf.losses import DocumentLoss, ExpertEpochs, ExpertLoss
from bat_tf.losses.divergence import symmetric_kl
from bat_tf.losses.document import Candidates
from bat_tf.models.expert_heads import ExpertHeads, words_head
from bat_tf.models.label_model import (
    LabelModel,
    name_tokens,
    start_from_counts,
    word_idf,
)
from bat_tf.models.svm import separate_as_logits
from bat_tf.models.text_model import TextModel, model_inputs, parts_for_data
from bat_tf.training import verbosity

NO_PROBABILITIES = (
    "The loss of this model only ranks labels; its experts have no probabilities that "
    "could be compared. Train it with another loss, such as `zlpr` or `bce`."
)
AVERAGES = ("probabilities", "logits")
# Above so many weights, the expert S has some pairs of words and labels alone.
MOST_WEIGHTS = 2**24


@keras.saving.register_keras_serializable(package="bat_tf")
class ExpertClassifier(LabelModel):
    """Scores labels by several experts that read one encoder at different layers.

    In the notation of the paper, `m` is the output of block m and 0 the embeddings:

    | expert | reads | and is |
    |---|---|---|
    | `D-12` | the pooled state of layer 12 | an MLP to the labels |
    | `D-(12+1)` | those of two layers side by side | the same |
    | `A-1` | the tokens of layer 1 | label-to-word attention, `LabelAttention` |
    | `S` | the words themselves, as TF-IDF | linear, `BagOfWords` or its sparse form |

    Each learns by itself from the loss, and a small term pays them for differing on
    rare labels. A label's probability is the mean of the experts'; with
    `averaging="logits"` it is that of their mean logit, where an expert that is sure of
    a label no longer outvotes one that all but rules it out.

    After training, `remember` adds one more opinion that nothing has to be learnt for:
    the labels of the training texts that are most like a text.

    Scoring every label for every text is what training on tens of thousands of labels
    costs. With `candidates`, a training step scores so many of them: see
    `CandidateLabels`. Validation and answers are over all labels, as without.

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
        averaging: `"probabilities"` as in the paper, or `"logits"`: what of the experts
            is averaged in an answer. Training does not depend on it.
        candidates: labels that a training step scores; 0 is all of them.
        num_words: size of the vocabulary, for `candidates`; None is the tokenizer's.
        num_pairs: weights of the expert `S`, see `SparseBagOfWords`; None has one for
            every word and label.
        words_fitted: whether the expert `S` was fitted first and stays as it is.
        memory: settings of the `NeighbourVotes` of a model that remembers texts.
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
    extra_inputs = (
        *TextModel.extra_inputs,
        pipeline.DOCUMENT_STATES,
        "candidates",
        "shortlist",
    )

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
        averaging="probabilities",
        candidates=0,
        num_words=None,
        num_pairs=None,
        words_fitted=False,
        memory=None,
        idf=None,
        score_scale=1.0,
        score_threshold=0.0,
        thresholds=None,
        **kwargs,
    ):
        labels = labels if isinstance(labels, LabelSpace) else LabelSpace(labels)
        check_choice("pooling", pooling, POOLINGS)
        check_choice("averaging", averaging, AVERAGES)
        check_number("max_length", max_length, low=8, integer=True)
        if not len(labels):
            raise ValueError("`labels` must name one label at least. Received none.")
        if "S" in experts and idf is None:
            idf = np.ones(len(tokenizer.vocabulary))

        # === Layers and functional model ===
        heads = ExpertHeads(
            experts,
            encoder,
            len(labels),
            pooling,
            expert_width,
            head_dropout,
            lambda: words_head(len(labels), idf, num_pairs, not words_fitted),
        )
        inputs = model_inputs(tokenizer)
        super().__init__(inputs=inputs, outputs=heads.logits(inputs), **kwargs)

        # === Config ===
        self.keep(encoder, tokenizer, max_length, heads.logits)
        object.__setattr__(self, "_heads", heads)  # out of sight of saving
        self.keep_scores(labels, score_scale, score_threshold, thresholds)
        self.experts = list(experts)
        self.pooling = pooling
        self.expert_width = expert_width
        self.head_dropout = head_dropout
        self.mode = mode
        self.diversity = diversity
        self.diversity_start_epoch = diversity_start_epoch
        self.averaging = averaging
        self.candidates = candidates
        self.choose, self.num_words = None, num_words
        if candidates:
            # A reloaded tokenizer gets its words later.
            num_words = num_words or len(tokenizer.vocabulary)
            self.choose = CandidateLabels(len(labels), candidates, num_words)
            self.choose.build()
            self.num_words = num_words
        self.num_pairs = num_pairs
        self.words_fitted = words_fitted
        self.memory = None if memory is None else self._new_memory(**memory)
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
        name_likeness=0.0,
        pooling="first",
        expert_width=None,
        head_dropout=0.0,
        max_length=256,
        mode="individual",
        diversity=0.01,
        diversity_start_epoch=2,
        averaging="probabilities",
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
            experts: see the class.
            name_strength: for the expert `S`, as in `LabelClassifier.for_data`.
            name_likeness: the same for document experts, where a pretrained encoder has
                like states for like texts: how much it counts before training that a
                text is like a label's name, see `LabelScores.start_from_names`.
            pooling: see the class.
            expert_width: see the class.
            head_dropout: see the class.
            max_length: see the class.
            mode: see the class.
            diversity: see the class.
            diversity_start_epoch: see the class.
            averaging: see the class.
            candidates: see the class.
            pairs_per_word: labels that a word has weights for in the expert `S`, the
                telling ones; None is all, or 1,000 where there are many.
            words_fitted: fit the expert `S` first, as linear support vector machines,
                and leave it so: a second opinion that does not learn the training texts
                by heart. The names of labels play no part in it then. For some hundred
                labels; needs scikit-learn.
            **encoder_settings: as in `LabelClassifier.for_data`.
        """
        cls.check_data(train, "train")
        encoder, tokenizer = parts_for_data(train, encoder, tokenizer, encoder_settings)
        labels = labels if labels is not None else LabelSpace.fit(train.labels)
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
            averaging=averaging,
            candidates=candidates,
            num_pairs=kernel and len(kernel[0]),
            words_fitted=words_fitted,
            idf=idf,
        )
        if candidates:
            model.choose.set_hard(*pairs)
        if kernel:
            model.get_layer("words").set_pairs(*kernel)
        elif names and name_strength:
            model.get_layer("words").start_from_names(names, name_strength)
        model.start_from_counts()
        if name_likeness:
            model.start_from_names(name_likeness)
        if words_fitted:
            model.fit_words(tokens["token_ids"], labels.csr(train.labels))
        return model

    def fit_words(self, token_ids, labels):
        """Fits the expert `S` alone, by a support vector machine for each label.

        Args:
            token_ids: RaggedTensor, a row a text.
            labels: SciPy CSR [N, L].
        """
        import_optional("sklearn", "baselines", "`words_fitted`")
        if "S" not in self.experts or self.num_pairs is not None:
            expected = "with an expert `S` that has a weight for every word and label"
            remedy = "Leave `words_fitted` out: S then learns with the others."
            raise ValueError(sentence("words_fitted", expected, self.experts, remedy))
        layer = self.get_layer("words")
        features = tfidf_matrix(token_ids, layer.idf)
        layer.set_linear(*separate_as_logits(features, labels))

    @property
    def first_document(self):
        """The place of the first document expert, from 0; None if there is none."""
        return self._heads.first_document

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
        """Lets the nearest of some texts vote beside the experts.

        Texts are as near as what the first document expert reads of them, see
        `NeighbourVotes`. The votes count as one expert more in every answer; training
        goes on without them. Where the encoder learns, call it when training is over.
        What was remembered before is forgotten. Thresholds are to be fitted afterwards,
        on other texts: each of these is its own nearest neighbour. From here on the
        model is not compiled with XLA.

        Args:
            data: a `TextDataset` with labels, usually the training part. Labels that
                the model does not know are left out; their texts vote for nothing.
            neighbours: how many vote; 0 forgets all texts.
            temperature: lower hears the nearest ones more.
            batch_size: texts a step.
            cache_backbone: as in `fit`.
            verbose: as in `fit`.
        """
        self.check_data(data, "data")
        check_number("neighbours", neighbours, low=0, integer=True)
        if self.thresholds is not None:
            warnings.warn(
                "The thresholds of this model were fitted to other scores. Fit them "
                "again, with `fit_thresholds(valid)`.",
                stacklevel=2,
            )
        if not neighbours:
            self._keep_memory(None)
            return
        check_votes(neighbours, temperature)
        if self.score_scale is None:
            raise ValueError(NO_PROBABILITIES)
        if self.first_document is None:
            remedy = "Words and attention have no state of a whole text."
            expected = "with a document expert, D-…, to tell which texts are alike"
            raise ValueError(sentence("experts", expected, self.experts, remedy))
        labels = self.labels.csr(data.labels, unknown="skip")
        if not labels.nnz:
            expected = "texts with labels that the model knows"
            raise ValueError(sentence("data", expected, data))
        verbose = verbosity(verbose)
        examples = pipeline.text_examples(data.texts, self.tokenizer, self.max_length)
        examples = self._cached(examples, cache_backbone, verbose)
        states = self._documents(examples, batch_size, verbose)
        memory = self._new_memory(
            width=states.shape[1],
            num_texts=len(data),
            num_tags=labels.nnz,
            neighbours=neighbours,
            temperature=temperature,
        )
        memory.remember(states, labels)
        self._keep_memory(memory)

    def _documents(self, examples, batch_size, verbose):
        """What the first document expert reads of each example: [N, width]."""
        if pipeline.DOCUMENT_STATES in examples:
            return np.asarray(self._heads.document(examples))
        total, states = int(examples["token_ids"].nrows()), None
        bar = keras.utils.Progbar(total, verbose=verbose, unit_name="text")
        for rows, inputs in pipeline.text_batches(examples, self.tokenizer, batch_size):
            network = self.network(self._heads.document, inputs)
            found = unit(network.predict_on_batch(inputs))
            if states is None:
                states = np.zeros((total, found.shape[1]), "float16")
            states[rows] = found
            bar.add(len(rows))
        return states

    def _new_memory(self, **settings):
        # States of half precision could be too large to be compared.
        memory = NeighbourVotes(
            len(self.labels), **settings, name="neighbours", dtype="float32"
        )
        memory.build()
        return memory

    def _keep_memory(self, memory):
        if self.memory is not None:
            # Keras would keep, count and export what the attribute no longer names.
            self._tracker.untrack(self.memory)
        self.memory = memory
        # Functions that were traced with another memory, or with none.
        self.predict_function = self.test_function = None
        self._serving_function = self._each_expert = None
        if memory is not None and self.compiled:
            self.jit_compile = False

    def count_params(self):
        """The number of weights; remembered texts are none."""
        remembered = 0 if self.memory is None else self.memory.count_params()
        return super().count_params() - remembered

    def _logits(self, inputs, training, mask):
        """As in `TextModel`; the votes of neighbours come last, but not in training."""
        if self.memory is None or training:
            return super()._logits(inputs, training, mask)
        network = self.network(self._heads.logits_and_document, inputs)
        logits, document = network(inputs, training=training)
        chosen = inputs.get("shortlist")
        votes = self.memory(document, labels=chosen) / (self.score_scale or 1.0)
        votes = votes + (self.score_threshold or 0.0)
        return ops.concatenate([logits, votes[:, None]], axis=1)

    def start_from_names(self, strength):
        """Lets document experts begin with how like a text is to the labels' names.

        Args:
            strength: see `LabelScores.start_from_names`.
        """
        check_number("name_likeness", strength, low=0)
        names = pipeline.text_examples(
            self.labels.texts, self.tokenizer, self.max_length
        )
        for number, head in enumerate(self._heads.heads):
            if not isinstance(head, LabelScores):
                continue
            network = self.document_features(number)
            features = np.zeros(head.label_kernel.shape, "float32")
            for rows, inputs in pipeline.text_batches(names, self.tokenizer, 64):
                features[rows] = network.predict_on_batch(inputs)
            head.start_from_names(features, strength)

    def start_from_counts(self):
        """Lets each expert begin at how frequent the labels are.

        Of thousands of labels each is rare, and a short training would go by before it
        is known by how much.
        """
        for layer in self.layers:
            bias = getattr(layer, "label_bias", None)
            if bias is not None and self.labels.counts is not None:
                start_from_counts(bias, self.labels)
            elif isinstance(layer, LabelAttention) and self.labels.counts is not None:
                share = self.labels.counts.mean() / self.labels.num_examples
                layer.output_bias.assign([np.log(share / (1 - share))])

    def compile(self, *args, train_metrics=True, **kwargs):
        """As `TextModel.compile`; on candidates alone, training has no metrics."""
        if self.candidates:
            needs_whole_batch(
                "An ExpertClassifier with `candidates`",
                "they are chosen for the whole batch",
                "Train it in one process, or with `candidates=0`.",
            )
        train_metrics = train_metrics and not self.candidates
        if self.memory is not None:
            kwargs["jit_compile"] = False
        super().compile(*args, train_metrics=train_metrics, **kwargs)

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
        """The logits of the experts' mean, see `averaging`: [B, K, L] → [B, L]."""
        if self.score_scale is None or self.averaging == "logits":
            return ops.mean(outputs, axis=1)
        above = self.score_scale * (outputs - self.score_threshold)
        # logit(mean p) = log Σ p - log Σ (1 - p), without leaving the logarithms.
        yes = ops.logsumexp(ops.log_sigmoid(above), axis=1)
        no = ops.logsumexp(ops.log_sigmoid(-above), axis=1)
        return (yes - no) / self.score_scale + self.score_threshold

    def disagreement(self, data, batch_size=64):
        """How far the experts' probabilities are apart on texts.

        Args:
            data: a `TextDataset` or a list of texts.
            batch_size: texts a step.

        Returns:
            The KL divergence, summed over labels: the mean over texts, pairs of experts
            and both directions. 0 where there is a single expert. Neighbours, if there
            are any, count as one.
        """
        if self.score_scale is None:
            raise ValueError(NO_PROBABILITIES)
        texts = data.texts if isinstance(data, TextDataset) else check_texts(data)
        examples = pipeline.text_examples(texts, self.tokenizer, self.max_length)
        experts = len(self.experts) + (self.memory is not None)
        pairs = list(itertools.combinations(range(experts), 2))
        total = 0.0
        for _, inputs in pipeline.text_batches(examples, self.tokenizer, batch_size):
            logits = self._heads_on_batch(inputs)
            for one, other in pairs:
                apart = symmetric_kl(logits[:, one], logits[:, other], self.score_scale)
                total += float(ops.sum(apart)) / 2
        return total / max(1, len(texts) * len(pairs))

    def _heads_on_batch(self, inputs):
        """The logits of each expert, [B, K, L]; compiled once."""
        if getattr(self, "_each_expert", None) is None:
            network = tf.function(
                lambda x: self(x, training=False), reduce_retracing=True
            )
            object.__setattr__(self, "_each_expert", network)
        return self._each_expert(inputs)

    def extra_input(self, name):
        """The Keras input of one of `extra_inputs`.

        `candidates` [C] are the labels that a training step scores, `shortlist` [B, C]
        those of each text, see `Shortlist`.
        """
        if name == "candidates":
            return keras.Input(batch_shape=(self.candidates,), name=name, dtype="int32")
        if name == "shortlist":
            return keras.Input((None,), name=name, dtype="int32")
        if name == pipeline.DOCUMENT_STATES:
            return keras.Input((self.frozen_part().width,), name=name)
        return super().extra_input(name)

    def frozen_part(self):
        """As in `TextModel`; of a wholly frozen encoder, what experts read of it."""
        return self._heads.frozen_part() or super().frozen_part()

    def document_features(self, number):
        """The function from inputs to what a document expert multiplies labels with.

        Args:
            number: place of the expert in `experts`, from 0.

        Returns:
            A Keras model: inputs → [B, width].
        """
        inputs = model_inputs(self.tokenizer)
        return keras.Model(inputs, self._heads.features(inputs, number))

    def train_step(self, data):
        """As Keras' own, on the candidates if there are any."""
        if self.choose is None:
            return super().train_step(data)
        x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
        ids = padded_ids(y, len(self.labels))
        chosen = self.choose(x["token_ids"], x["padding_mask"], ids)
        x = {**x, "candidates": chosen[0]}
        data = keras.utils.pack_x_y_sample_weight(x, chosen[1:], weight)
        return super().train_step(data)

    def compute_loss(self, x, y, y_pred, sample_weight=None, training=True):
        """As Keras' own; what candidates stand for is part of `y`."""
        if "candidates" not in x:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        weights, places = y
        some = Candidates(x["candidates"], weights, len(self.labels))
        losses = [self.loss(places, y_pred, sample_weight, some), *self.losses]
        loss = sum(losses)
        self._loss_tracker.update_state(loss, sample_weight=ops.shape(places)[0])
        return loss

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

    def _memory_settings(self):
        if self.memory is None:
            return None
        config = self.memory.get_config()
        names = ("width", "num_texts", "num_tags")
        names += ("neighbours", "temperature", "smoothing")
        return {name: config[name] for name in names}

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
            "averaging": self.averaging,
            "candidates": self.candidates,
            "num_words": self.num_words,
            "num_pairs": self.num_pairs,
            "words_fitted": self.words_fitted,
            "memory": self._memory_settings(),
            "idf": self.idf,
            **self.score_config(),
            "name": self.name,
        }
