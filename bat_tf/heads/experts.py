"""The notation of ME-XML's experts: shorthand for heads with their layers.

| expert | reads | head |
|---|---|---|
| `D-12` | the pooled state of layer 12 | `DocumentHead` |
| `D-(12+1)` | those of two layers side by side | `DocumentHead` |
| `A-1` | the tokens of layer 1 | `AttentionHead` |
| `D`, `A` | the last layer, whichever that is | as above |
| `S` | the words themselves, as TF-IDF | `WordsHead` |

Layer m is the output of block m, and 0 the embeddings.
"""

import re

from bat_tf._internal.validation import sentence
from bat_tf.heads.document import DocumentHead
from bat_tf.heads.label_attention import AttentionHead
from bat_tf.heads.sparse_words import SparseWordsHead, WordsHead

_NOTATION = re.compile(r"([DA])(?:-(\d+|\(\d+(?:\+\d+)*\)))?")


def parse_expert(name, depth):
    """What an expert is and which layers it reads.

    Args:
        name: such as `"D-(12+1)"`.
        depth: number of blocks of the encoder.

    Returns:
        (kind, layers).

    >>> parse_expert("D-(6+1)", 6), parse_expert("D", 6), parse_expert("S", 6)
    (('D', [6, 1]), ('D', [6]), ('S', []))
    """
    if name == "S":
        return "S", []
    match = _NOTATION.fullmatch(str(name))
    if not match:
        expected = 'like "D", "D-6", "A-1", "D-(6+1)" or "S"'
        raise ValueError(sentence("experts", expected, name))
    if match[2] is None:
        return match[1], [depth]
    layers = [int(number) for number in match[2].strip("()").split("+")]
    if max(layers) > depth:
        expected = f"on layers 0 to {depth}, those of the encoder"
        raise ValueError(sentence("experts", expected, name))
    return match[1], layers


def expert_heads(
    names,
    encoder,
    num_labels,
    *,
    pooling="first",
    width=None,
    dropout=0.0,
    learnt_threshold=False,
    idf=None,
    num_pairs=None,
    words_trainable=True,
):
    """The heads that the names stand for.

    Args:
        names: of the experts.
        encoder: the encoder whose layers they read.
        num_labels: L.
        pooling: how document experts see a layer, see `Pooling`.
        width: hidden width of document experts; None is that of what they read, 0 makes
            them linear.
        dropout: rate in document experts.
        learnt_threshold: for document experts, see `DocumentHead`.
        idf: for `S`, how much each token id says.
        num_pairs: for `S`, see `SparseWordsHead`; None: a weight for every pair.
        words_trainable: False where `S` is fitted first and stays so.
    """
    if not names:
        raise ValueError(sentence("experts", "one at least", list(names)))
    if learnt_threshold and not any(str(name).startswith("D") for name in names):
        expected = "with a document expert, D-…, for a learnt threshold"
        raise ValueError(sentence("experts", expected, list(names)))
    heads = []
    for number, name in enumerate(names, 1):
        kind, layers = parse_expert(name, len(encoder.blocks))
        if kind == "S":
            settings = {"name": "words", "trainable": words_trainable}
            if num_pairs is None:
                heads.append(WordsHead(num_labels, idf, **settings))
            else:
                heads.append(SparseWordsHead(num_labels, idf, num_pairs, **settings))
        elif kind == "A":
            name = f"attention_{number}"
            heads.append(AttentionHead(num_labels, layers=layers, name=name))
        else:
            head = DocumentHead(
                num_labels,
                layers=layers,
                pooling=pooling,
                width=encoder.d_model * len(layers) if width is None else width,
                dropout=dropout,
                learnt_threshold=learnt_threshold,
                name=f"document_{number}",
            )
            heads.append(head)
    return heads
