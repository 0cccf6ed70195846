"""Layers that encoders are made of."""

from bat_tf.layers.attention import MultiHeadSelfAttention
from bat_tf.layers.embeddings import TokenEmbedding
from bat_tf.layers.mfsa import MultiFeatureSelfAttention
from bat_tf.layers.normalization import LayerNorm
from bat_tf.layers.pooling import Pooling
from bat_tf.layers.tournament import AttentionTournament, FeedForwardTournament

__all__ = [
    "AttentionTournament",
    "FeedForwardTournament",
    "LayerNorm",
    "MultiFeatureSelfAttention",
    "MultiHeadSelfAttention",
    "Pooling",
    "TokenEmbedding",
]
