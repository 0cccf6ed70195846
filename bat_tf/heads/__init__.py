"""STATES → LOGITS: what stands on an encoder."""

from bat_tf.heads.candidates import CandidateLabels
from bat_tf.heads.combine import Add, Average
from bat_tf.heads.document import DocumentHead
from bat_tf.heads.experts import parse_expert
from bat_tf.heads.head import Head
from bat_tf.heads.label_attention import AttentionHead, LabelAttention
from bat_tf.heads.neighbours import NeighbourHead
from bat_tf.heads.ngrams import NgramsHead
from bat_tf.heads.sparse_tags import SparseTagHead
from bat_tf.heads.sparse_words import SparseWordsHead, WordsHead
from bat_tf.heads.tags import TagHead

__all__ = [
    "Add",
    "AttentionHead",
    "Average",
    "CandidateLabels",
    "DocumentHead",
    "Head",
    "LabelAttention",
    "NeighbourHead",
    "NgramsHead",
    "SparseTagHead",
    "SparseWordsHead",
    "TagHead",
    "WordsHead",
    "parse_expert",
]
