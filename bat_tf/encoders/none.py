"""No encoder: for models whose heads read the tokens themselves."""

import keras

from bat_tf._internal.configured import Configured


@keras.saving.register_keras_serializable(package="bat_tf")
class NoEncoder(Configured, keras.layers.Layer):
    """Stands where a model has an encoder, has no weights and no states.

    Args:
        vocabulary_size: number of token ids.
        feature_sizes: name → number of values of each feature of the tokens.
        **kwargs: `name` and `dtype`.

    Example:
        >>> import numpy as np
        >>> NoEncoder(100)({"token_ids": np.array([[1, 2]])})
        []
    """

    d_model = 0
    blocks = ()

    def __init__(self, vocabulary_size=None, *, feature_sizes=None, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.feature_sizes = dict(feature_sizes or {})

    def build(self, shape):
        """Nothing to build."""
        self.built = True

    def call(self, inputs, training=None):
        return []
