"""R-Drop and virtual adversarial training: a model should agree with itself.

Both need a distance between two answers to one text. `symmetric_kl` and `kl_divergence`
give one wherever scores have probabilities: σ(2s) for ZLPR, σ(s) for sigmoid losses.

    R-Drop:  ½ (ℓ(s) + ℓ(s')) + α/4 · D(s, s')      s, s': two draws of dropout
    VAT:     ℓ(s) + α · KL(s ‖ s(x + r))            r: where a small step hurts most

D is KL in both directions. R-Drop costs a second pass, VAT three more. Among replicas
the means are over the rows of all of them; dropout and r are drawn by each.
"""

import keras
import tensorflow as tf
from keras import ops

from bat_tf._validation import check_number
from bat_tf.losses._reduction import reduce
from bat_tf.losses.divergence import kl_divergence, symmetric_kl

XI = 1e-3  # how far from x the direction of r is looked for


class Consistent:
    """Adds R-Drop and VAT to the training loss of a Keras model: a mixin.

    `set_consistency` switches them on; `consistency_scale` is c of p = σ(c s), and
    `perturbed(x, step)` is x with a step added where the model is continuous.
    """

    r_drop = 0.0
    vat = 0.0
    vat_radius = 1.0
    consistency_scale = 2.0

    def set_consistency(self, r_drop=0.0, vat=0.0, vat_radius=1.0):
        """Sets the weights α of both terms, 0 for none, and the length of r."""
        self.r_drop = check_number("r_drop", r_drop, low=0)
        self.vat = check_number("vat", vat, low=0)
        self.vat_radius = check_number("vat_radius", vat_radius, low=0)
        if vat:
            # A generator of the model's own: a resumed run draws what the first would.
            self.vat_seed = keras.random.SeedGenerator()

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        """The loss of Keras, and while training what the model owes to consistency."""
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        if not training or not (self.r_drop or self.vat):
            return loss
        if self.consistency_scale is None:
            raise ValueError(
                "`r_drop` and `vat` compare probabilities, which the scores of this "
                "loss are not. Use ZLPR or a sigmoid loss, or leave them out."
            )
        scale = self.consistency_scale
        if self.r_drop:
            again = self(x, training=True)
            other = super().compute_loss(x, y, again, sample_weight, training)
            apart = reduce(symmetric_kl(y_pred, again, scale))
            loss = (loss + other) / 2 + self.r_drop / 4 * ops.cast(apart, loss.dtype)
        if self.vat:
            loss = loss + self.vat * ops.cast(self._adversarial(x, scale), loss.dtype)
        return loss

    def _adversarial(self, x, scale):
        """KL between the answers at x and where a step of `vat_radius` hurts most."""
        answer = ops.stop_gradient(self(x, training=False))
        start = keras.random.normal(self.step_shape(x), seed=self.vat_seed)
        start = XI * _unit(start)
        with tf.GradientTape() as tape:
            tape.watch(start)
            moved = self(self.perturbed(x, start), training=False)
            apart = tf.reduce_sum(kl_divergence(answer, moved, scale))
        worst = self.vat_radius * _unit(tape.gradient(apart, start))
        moved = self(self.perturbed(x, tf.stop_gradient(worst)), training=False)
        return reduce(kl_divergence(answer, moved, scale))

    def step_shape(self, x):
        """The shape of a step from x; x itself must be of floats."""
        if not tf.is_tensor(x) or not x.dtype.is_floating:
            raise ValueError(
                "`vat` takes a small step from the input, which must be one tensor of "
                "floats for that. Token ids have no small steps: use "
                "`LabelClassifier(…, vat=…)`, which takes them from the embeddings."
            )
        return tf.shape(x)

    def perturbed(self, x, step):
        """The input with a step added."""
        return x + tf.cast(step, x.dtype)


class ConsistentModel(Consistent, keras.Model):
    """A functional model with the mixin."""


def consistent(model, *, r_drop=0.0, vat=0.0, vat_radius=1.0, scale=2.0):
    """A model to train in place of your own, with R-Drop or VAT.

    It has the layers of `model`, so training it trains `model`; save and serve that.

    Args:
        model: a functional Keras model whose output is label scores [B, L].
        r_drop: α of R-Drop; 4 in ZLPR's paper.
        vat: α of virtual adversarial training; the input must be of floats.
        vat_radius: how long the adversarial step is.
        scale: probabilities are σ(scale · score): 2 for ZLPR, 1 for sigmoid losses.

    Returns:
        A Keras model.

    Example:
        >>> import numpy as np
        >>> inputs = keras.Input((4,))
        >>> hidden = keras.layers.Dropout(0.1)(keras.layers.Dense(8, "relu")(inputs))
        >>> model = keras.Model(inputs, keras.layers.Dense(3)(hidden))
        >>> from bat_tf.losses import ZLPR
        >>> trained = consistent(model, r_drop=4.0)
        >>> trained.compile("adam", ZLPR())
        >>> x, y = np.ones((8, 4)), np.eye(3)[np.arange(8) % 3]
        >>> history = trained.fit(x, y, verbose=0)

    Reference:
        Wu et al., R-Drop, 2021; Miyato et al., Virtual adversarial training, 2018; S2,
        which makes both possible for multi-label scores.
    """
    wrapped = ConsistentModel(model.inputs, model.outputs[0])
    wrapped.set_consistency(r_drop, vat, vat_radius)
    wrapped.consistency_scale = scale
    return wrapped


def _unit(step):
    """A step of length 1 for each sample."""
    axes = list(range(1, len(step.shape)))
    return step * tf.math.rsqrt(tf.reduce_sum(step**2, axes, keepdims=True) + 1e-24)
