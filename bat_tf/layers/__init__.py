"""Layers that encoders are made of."""

from bat_tf.layers.attention import MultiHeadSelfAttention
from bat_tf.layers.bag_of_words import BagOfWords, SparseBagOfWords
from bat_tf.layers.candidates import CandidateLabels
from bat_tf.layers.embeddings import TokenEmbedding
from bat_tf.layers.label_attention import LabelAttention
from bat_tf.layers.label_scores import LabelScores
from bat_tf.layers.mfsa import MultiFeatureSelfAttention
from bat_tf.layers.neighbours import NeighbourVotes
from bat_tf.layers.normalization import LayerNorm
from bat_tf.layers.pooling import Pooling
from bat_tf.layers.tournament import AttentionTournament, FeedForwardTournament

__all__ = [
    "AttentionTournament",
    "BagOfWords",
    "CandidateLabels",
    "FeedForwardTournament",
    "LabelAttention",
    "LabelScores",
    "LayerNorm",
    "MultiFeatureSelfAttention",
    "MultiHeadSelfAttention",
    "NeighbourVotes",
    "Pooling",
    "SparseBagOfWords",
    "TokenEmbedding",
]
