"""The encoder of "Born for Auto-Tagging"."""

import keras
from keras import ops

from bat_tf._validation import check_choice
from bat_tf.layers.embeddings import TokenEmbedding
from bat_tf.layers.normalization import LayerNorm
from bat_tf.layers.tournament import AttentionTournament, FeedForwardTournament

BACKBONE_STATES = ("mean", "last", "concat")


@keras.saving.register_keras_serializable(package="bat_tf")
class BATEncoder(keras.layers.Layer):
    """BAT: embeddings and positions → LN → blocks of ATS and FFTS.

    With d_model 128, d_ff 512, 4 heads, 4 layers and a linear layer of 3 classes it has
    1,123,971 parameters beside the embeddings.

    Args:
        vocabulary_size: number of token ids; None with a backbone.
        d_model: width of the states.
        d_ff: width of the hidden layer of FFTS.
        num_heads: heads of the attention.
        num_layers: number of blocks.
        dropout: rate after the attention, the feed-forward network and the embeddings.
        word_dropout: share of tokens that training hides, see `TokenEmbedding`.
        norm: `"post"` (figure and release) or `"pre"`.
        attention: whether MFSA has attention.
        kernel_sizes: widths of MFSA's convolutions.
        residual: `"weighted"` (the paper), `"identity"` or `"none"` in FFTS.
        attention_scale: `"head"` or, as in the release, `"model"`.
        layer_norm: `"paper"` or `"release"`.
        mask_convolutions: False as in the release, see `MultiFeatureSelfAttention`.
        feature_sizes: name → number of values of each feature of the tokens.
        positions: whether to add sinusoidal positions; None: unless a backbone does.
        backbone: an encoder whose states are the input, such as a `BertEncoder`.
        backbone_states: `"mean"` of all its layers, as the authors' CoNLL recipe has
            it, the `"last"`, or `"concat"`: all of them side by side.
        backbone_trainable: False keeps the backbone's weights as they are.

    Call arguments:
        inputs: dict of `token_ids` and `padding_mask` [B, T], and each feature [B, T].
            If it has `backbone_states` [B, T, backbone_width], these stand in for what
            the backbone would say.

    Returns:
        List of states [B, T, D]: the embeddings, then one entry a block.

    Example:
        >>> import numpy as np
        >>> encoder = BATEncoder(100, d_model=16, d_ff=32, num_heads=2, num_layers=2)
        >>> ids = np.array([[5, 7, 0]])
        >>> states = encoder({"token_ids": ids, "padding_mask": ids > 0})
        >>> len(states), states[-1].shape
        (3, TensorShape([1, 3, 16]))

    Reference:
        S0, section 3 and its CoNLL recipe.
    """

    def __init__(
        self,
        vocabulary_size=None,
        d_model=128,
        *,
        d_ff=512,
        num_heads=4,
        num_layers=4,
        dropout=0.0,
        word_dropout=0.0,
        norm="post",
        attention=True,
        kernel_sizes=(1, 3),
        residual="weighted",
        attention_scale="head",
        layer_norm="paper",
        mask_convolutions=True,
        feature_sizes=None,
        positions=None,
        backbone=None,
        backbone_states="mean",
        backbone_trainable=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_choice("backbone_states", backbone_states, BACKBONE_STATES)
        if (vocabulary_size is None) == (backbone is None):
            raise ValueError(
                "`vocabulary_size` must be given, or `backbone`, not both. Received: "
                f"vocabulary_size={vocabulary_size!r}, backbone={backbone!r}."
            )
        self._settings = {
            "vocabulary_size": vocabulary_size,
            "d_model": d_model,
            "d_ff": d_ff,
            "num_heads": num_heads,
            "num_layers": num_layers,
            "dropout": dropout,
            "word_dropout": word_dropout,
            "norm": norm,
            "attention": attention,
            "kernel_sizes": list(kernel_sizes),
            "residual": residual,
            "attention_scale": attention_scale,
            "layer_norm": layer_norm,
            "mask_convolutions": mask_convolutions,
            "feature_sizes": dict(feature_sizes or {}),
            "positions": positions,
            "backbone_states": backbone_states,
            "backbone_trainable": backbone_trainable,
        }
        self.d_model = d_model
        self.backbone = backbone
        self.backbone_states = backbone_states
        self.backbone_trainable = backbone_trainable
        shared = {"dtype": self.dtype_policy}
        self.projection = None
        if backbone is not None:
            backbone.trainable = backbone_trainable
            self.projection = keras.layers.Dense(d_model, name="projection", **shared)
        self.embedding = TokenEmbedding(
            vocabulary_size,
            d_model,
            feature_sizes=feature_sizes,
            positions=backbone is None if positions is None else positions,
            dropout=dropout,
            word_dropout=word_dropout,
            name="embedding",
            **shared,
        )
        self.input_norm = LayerNorm(flavour=layer_norm, name="input_norm", **shared)
        self.blocks = [
            (
                AttentionTournament(
                    num_heads,
                    norm=norm,
                    attention=attention,
                    kernel_sizes=kernel_sizes,
                    dropout=dropout,
                    attention_scale=attention_scale,
                    mask_convolutions=mask_convolutions,
                    layer_norm=layer_norm,
                    name=f"ats_{number}",
                    **shared,
                ),
                FeedForwardTournament(
                    d_ff,
                    norm=norm,
                    residual=residual,
                    dropout=dropout,
                    layer_norm=layer_norm,
                    name=f"ffts_{number}",
                    **shared,
                ),
            )
            for number in range(1, num_layers + 1)
        ]

    def build(self, shape):
        states = (None, None, self.d_model)
        if self.backbone is not None:
            if not self.backbone.built:
                self.backbone.build(shape)
            # A backbone that is read from a file comes with the value set, but not for
            # the layers inside, and Keras does not pass on what it has already.
            self.backbone.trainable = not self.backbone_trainable
            self.backbone.trainable = self.backbone_trainable
            self.projection.build((None, None, self.backbone_width))
        self.embedding.build(shape)
        self.input_norm.build(states)
        for attention, feed_forward in self.blocks:
            attention.build(states)
            feed_forward.build(states)

    def call(self, inputs, training=None):
        mask = inputs["padding_mask"]
        given = None
        if self.backbone is not None:
            given = inputs.get("backbone_states")
            if given is None:
                given = self.backbone_input(inputs, training)
            given = self.projection(given)
        x = self.embedding(inputs, given, training=training)
        states = [self.input_norm(x)]
        for attention, feed_forward in self.blocks:
            a = attention(states[-1], mask, training=training)
            states.append(feed_forward(a, training=training))
        return states

    @property
    def backbone_width(self):
        """The width of what `backbone_input` returns."""
        layers = len(self.backbone.blocks) + 1
        return self.backbone.d_model * (
            layers if self.backbone_states == "concat" else 1
        )

    def backbone_input(self, inputs, training):
        """The backbone's states, as `backbone_states` says: [B, T, backbone_width]."""
        # A frozen backbone answers as it would when served: no dropout, no gradient.
        training = training if self.backbone_trainable else False
        # A step from the embeddings is one from the input of BAT itself.
        inputs = {n: value for n, value in inputs.items() if n != "perturbation"}
        states = self.backbone(inputs, training=training)
        if self.backbone_states == "last":
            mixed = states[-1]
        elif self.backbone_states == "concat":
            mixed = ops.concatenate(states, axis=-1)
        else:
            mixed = sum(states[1:], states[0]) / len(states)
        return mixed if self.backbone_trainable else ops.stop_gradient(mixed)

    def get_config(self):
        backbone = self.backbone and keras.saving.serialize_keras_object(self.backbone)
        return {**super().get_config(), **self._settings, "backbone": backbone}

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        if config.get("backbone"):
            config["backbone"] = keras.saving.deserialize_keras_object(
                config["backbone"]
            )
        return cls(**config)
