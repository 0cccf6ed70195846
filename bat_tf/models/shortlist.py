"""The best labels without scoring them all: nearest neighbours of a document expert."""

import numpy as np
import tensorflow as tf

from bat_tf._validation import check_number, check_texts, sentence
from bat_tf.data import pipeline
from bat_tf.data.dataset import TextDataset


class Shortlist:
    """Finds the labels whose rows are nearest to a text, and has only these scored.

    The logit of a document expert is a product x · w_j + c_j, so that its best labels
    are the nearest rows (w_j, c_j) of (x, 1): a search that an index answers in a time
    that hardly grows with the number of labels. All experts then score what was found.
    The answer is approximate: `recall` says by how much. The neighbours of a model that
    remembers texts score what was found, but propose nothing themselves.

    Args:
        model: an `ExpertClassifier` with a document expert (`D-…`); with an expert `S`,
            half of the labels are those that the words point to.
        size: labels that are scored for a text.
        links: neighbours that each row of the index keeps (HNSW's M).
        effort: rows that a search looks at (HNSW's efSearch); more find more.

    Example:
    ```python
    shortlist = Shortlist(model, size=200)
    shortlist.top_k(texts, 5)               # ids [N, 5] and scores [N, 5]
    shortlist.recall(valid, 5)              # of the exact answers, how many are there
    ```

    Reference:
        Malkov and Yashunin, Efficient and robust approximate nearest neighbor search
        using hierarchical navigable small world graphs, 2018; the index is faiss'.
    """

    def __init__(self, model, size=200, *, links=32, effort=128):
        faiss = _import_faiss()
        check_number("size", size, low=1, integer=True)
        self.size = min(size, len(model.labels))
        number = model.first_document
        if number is None:
            remedy = "The words and the attention have no rows to search by."
            expected = "a model with a document expert, D-…"
            raise ValueError(sentence("model", expected, model.experts, remedy))
        head = model.get_layer(f"document_{number + 1}")
        rows = np.asarray(head.label_kernel), np.asarray(head.label_bias)[:, None]
        rows = np.concatenate(rows, axis=1)
        # What all rows share moves every score of a text alike, and leads the search
        # astray: with it, the longest rows are everybody's neighbours.
        rows = np.ascontiguousarray(rows - rows.mean(axis=0), "float32")
        self.model = model
        self.words = model.get_layer("words") if "S" in model.experts else None
        self.features = model.document_features(number)
        self.index = faiss.IndexHNSWFlat(
            rows.shape[1], links, faiss.METRIC_INNER_PRODUCT
        )
        self.index.hnsw.efSearch = max(effort, size)
        self.index.add(rows)

    def top_k(self, data, k=5, batch_size=64):
        """The best labels of each text, of those that were found.

        Args:
            data: a `TextDataset` or a list of texts.
            k: how many.
            batch_size: texts a step.

        Returns:
            (ids, logits), both [N, k], best first.
        """
        check_number("k", k, low=1, high=self.size // 2 or 1, integer=True)
        texts = data.texts if isinstance(data, TextDataset) else check_texts(data)
        model = self.model
        examples = pipeline.text_examples(texts, model.tokenizer, model.max_length)
        ids = np.zeros((len(texts), k), "int64")
        logits = np.zeros((len(texts), k), "float32")
        batches = pipeline.text_batches(examples, model.tokenizer, batch_size)
        for rows, inputs in batches:
            found, fresh = self.search(inputs)
            scores = np.asarray(model.predict_on_batch({**inputs, "shortlist": found}))
            scores = np.where(fresh, scores, -np.inf)
            best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            ids[rows] = np.take_along_axis(found, best, axis=1)
            logits[rows] = np.take_along_axis(scores, best, axis=1)
        return ids, logits

    def search(self, inputs):
        """The labels of each text of a batch that are worth scoring.

        Returns:
            ids [B, size], and which of them are there for the first time.
        """
        features = np.asarray(self.features(inputs, training=False), "float32")
        ones = np.ones((len(features), 1), "float32")
        by_words = 0 if self.words is None else self.size // 2
        near = self.size - by_words
        _, found = self.index.search(np.concatenate([features, ones], 1), near)
        if by_words:
            scores = self.words(inputs["token_ids"], inputs["padding_mask"])
            pointed = tf.math.top_k(scores, by_words).indices
            found = np.concatenate([found, pointed], axis=1)
        found = np.sort(found, axis=1)
        again = np.pad(found[:, 1:] == found[:, :-1], [(0, 0), (1, 0)])
        # -1 is where the index found too few.
        return np.maximum(found, 0).astype("int32"), (found >= 0) & ~again

    def recall(self, data, k=5, batch_size=64):
        """How many of the exact k best labels are among the k found, on average."""
        ids, _ = self.top_k(data, k, batch_size)
        hits = 0
        for rows, scores in self.model.score_batches(data, batch_size):
            exact = np.argpartition(-scores, k - 1, axis=1)[:, :k]
            same = ids[rows][:, :, None] == exact[:, None, :]
            hits += int(same.sum())
        return hits / ids.size


def _import_faiss():
    try:
        import faiss
    except ImportError as error:
        raise ImportError(
            "A shortlist needs the package `faiss-cpu`. Install it with: "
            'pip install "bat-tf[shortlist]"'
        ) from error
    return faiss
