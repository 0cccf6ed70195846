"""R-Drop and virtual adversarial training: a model should agree with itself.

Both need a distance between two answers to one text. `symmetric_kl` and `kl_divergence`
give one wherever scores have probabilities: σ(2s) for ZLPR, σ(s) for sigmoid losses.

    R-Drop:  ½ (ℓ(s) + ℓ(s')) + α/4 · D(s, s')      s, s': two draws of dropout
    VAT:     ℓ(s) + α · KL(s ‖ s(x + r))            r: where a small step hurts most

D is KL in both directions. The terms follow the loss ℓ: they are its sum or its mean
over labels, without those that it masks, and its reduction over rows, with the same
`sample_weight`. R-Drop costs a second pass, VAT three more. Among replicas the means
are over the rows of all of them; dropout and r are drawn by each.
"""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bat_tf._internal.keras_private import keras_mask
from bat_tf._internal.validation import check_number, sentence
from bat_tf.losses._reduction import reduce
from bat_tf.losses.divergence import kl_divergence, symmetric_kl

XI = 1e-3  # how far from x the direction of r is looked for


@keras.saving.register_keras_serializable(package="bat_tf")
class RDrop:
    """Two passes with different dropout should agree.

    Args:
        alpha: weight of the term; 4 counts D once. ZLPR's paper names no value.

    Example:
        >>> RDrop(4.0).get_config()
        {'alpha': 4.0}
    """

    def __init__(self, alpha=4.0):
        self.alpha = check_number("alpha", alpha, low=0)

    def __call__(self, model, x, y_pred, loss, loss_of, sample_weight=None):
        """The loss with the term.

        Args:
            model: a `Consistent` model.
            x: inputs.
            y_pred: the answer to them that is trained.
            loss: its loss so far.
            loss_of: the function from another answer to its loss.
            sample_weight: as the loss has it.
        """
        again = model(x, training=True)
        apart = model.distance(symmetric_kl, y_pred, again, sample_weight)
        loss = (loss + loss_of(again)) / 2
        return loss + self.alpha / 4 * ops.cast(apart, loss.dtype)

    def get_config(self):
        return {"alpha": self.alpha}

    @classmethod
    def from_config(cls, config):
        """Makes the term."""
        return cls(**config)


@keras.saving.register_keras_serializable(package="bat_tf")
class VAT(RDrop):
    """A small step of the input, in the direction that hurts most, should not matter.

    Args:
        alpha: weight of the term.
        radius: how long the step is.

    Example:
        >>> VAT(1.0, radius=0.5).get_config()
        {'alpha': 1.0, 'radius': 0.5}
    """

    def __init__(self, alpha=1.0, radius=1.0):
        super().__init__(alpha)
        self.radius = check_number("radius", radius, low=0)

    def __call__(self, model, x, y_pred, loss, loss_of, sample_weight=None):
        """As of `RDrop`."""
        apart = self.distance(model, x, sample_weight)
        return loss + self.alpha * ops.cast(apart, loss.dtype)

    def distance(self, model, x, sample_weight=None):
        """KL between the answers at x and where a step of `radius` hurts most."""
        answer = model(x, training=False)
        mask, answer = keras_mask(answer), ops.stop_gradient(answer)
        start = keras.random.normal(model.step_shape(x), seed=model.step_seed)
        if mask is not None:  # a step from padding might make tokens of it
            start = start * ops.cast(ops.expand_dims(mask, -1), start.dtype)
        start = XI * _unit(start)
        with tf.GradientTape() as tape:
            tape.watch(start)
            moved = model(model.perturbed(x, start), training=False)
            apart = tf.reduce_sum(model.apart(kl_divergence, answer, moved))
        worst = self.radius * _unit(tape.gradient(apart, start))
        moved = model(model.perturbed(x, tf.stop_gradient(worst)), training=False)
        return model.distance(kl_divergence, answer, moved, sample_weight)

    def get_config(self):
        return {**super().get_config(), "radius": self.radius}


class Consistent:
    """Adds terms of consistency to the training loss of a Keras model: a mixin.

    `consistency_scale` is c of p = σ(c s), and `perturbed(x, step)` is x with a step
    added where the model is continuous.
    """

    consistency = ()

    @property
    def consistency_scale(self):
        """That of the loss: 2 for ZLPR, 1 for sigmoid losses, Keras' own among them."""
        return getattr(self.loss, "probability_scale", 1.0)

    def set_consistency(self, terms):
        """Sets the terms, a list of `RDrop` and `VAT`."""
        terms = [terms] if isinstance(terms, RDrop) else list(terms)
        for term in terms:
            if not isinstance(term, RDrop):
                expected = "a list of RDrop and VAT"
                raise TypeError(sentence("consistency", expected, term))
        self.consistency = terms
        if any(isinstance(term, VAT) for term in terms):
            # A generator of the model's own: a resumed run draws what the first would.
            self.step_seed = keras.random.SeedGenerator()

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        """The loss of Keras, and while training what the model owes to consistency."""
        loss_of = super().compute_loss
        loss = loss_of(x, y, y_pred, sample_weight, training)
        if not training or not self.consistency:
            return loss
        if self.consistency_scale is None:
            raise ValueError(
                "`consistency` compares probabilities, which the scores of this loss "
                "are not. Use ZLPR or a sigmoid loss, or leave it out."
            )
        # By its name, a loss of Keras takes probabilities.
        if not getattr(self.loss, "from_logits", not isinstance(self.loss, str)):
            raise ValueError(
                "`consistency` compares logits. Leave the sigmoid out of the model and "
                "give the loss `from_logits=True`."
            )
        for term in self.consistency:
            loss = term(
                self,
                x,
                y_pred,
                loss,
                lambda answer: loss_of(x, y, answer, sample_weight, training),
                sample_weight,
            )
        return loss

    def distance(self, divergence, s, t, sample_weight=None):
        """How far two answers are apart, weighed and reduced as the loss is.

        Args:
            divergence: `symmetric_kl` or `kl_divergence`.
            s: scores `[B, …, L]`.
            t: scores `[B, …, L]`, of tokens with Keras' mask.
            sample_weight: as the loss has it.
        """
        reduction = getattr(self.loss, "reduction", None) or "sum_over_batch_size"
        apart = self.apart(divergence, s, t)
        return reduce(apart, sample_weight, reduction, keras_mask(t))

    def apart(self, divergence, s, t):
        """A divergence for each row or token, over labels as the loss counts them."""
        mask, loss = keras_mask(t), self.loss
        num_labels = s.shape[-1]
        if getattr(loss, "threshold", None) == "learnt":
            num_labels -= 1
            s, t = (x[..., :-1] - x[..., -1:] for x in (s, t))
        kept = getattr(getattr(loss, "base", loss), "label_mask", None)
        if kept is not None:
            kept = np.flatnonzero(kept)
            s, t, num_labels = ops.take(s, kept, -1), ops.take(t, kept, -1), len(kept)
        if mask is not None:
            s, t = (ops.where(ops.expand_dims(mask, -1), x, 0.0) for x in (s, t))
        threshold = getattr(loss, "score_threshold", None) or 0.0
        apart = divergence(s - threshold, t - threshold, self.consistency_scale)
        if hasattr(loss, "base"):  # of experts, whose mean the loss is
            apart = ops.mean(apart, axis=1)
        # Keras' own losses are means over the last axis.
        of_mean = getattr(loss, "label_reduction", "mean") == "mean"
        return apart / num_labels if of_mean else apart

    def step_shape(self, x):
        """The shape of a step from x; x itself must be of floats."""
        if not tf.is_tensor(x) or not x.dtype.is_floating:
            raise ValueError(
                "`VAT` takes a small step from the input, which must be one tensor of "
                "floats for that. Token ids have no small steps: use "
                "`LabelClassifier(…, consistency=[VAT()])`, which takes them from the "
                "embeddings."
            )
        return tf.shape(x)

    def perturbed(self, x, step):
        """The input with a step added."""
        return x + tf.cast(step, x.dtype)


class ConsistentModel(Consistent, keras.Model):
    """A functional model with the mixin."""

    scale = None

    @property
    def consistency_scale(self):
        """As it was given; None is that of the loss."""
        return super().consistency_scale if self.scale is None else self.scale


def consistent(model, *terms, scale=None):
    """A model to train in place of your own, with R-Drop or VAT.

    It has the layers of `model`, so training it trains `model`; save and serve that.

    Args:
        model: a functional Keras model whose output is label scores `[B, L]`, or
            `[B, T, L]` of tokens that may have several tags.
        *terms: `RDrop` and `VAT`; for VAT, the input must be of floats.
        scale: probabilities are σ(scale · score); None is as the loss has it: 2 for
            ZLPR, 1 for sigmoid losses.

    Returns:
        A Keras model.

    Example:
        >>> import numpy as np
        >>> inputs = keras.Input((4,))
        >>> hidden = keras.layers.Dropout(0.1)(keras.layers.Dense(8, "relu")(inputs))
        >>> model = keras.Model(inputs, keras.layers.Dense(3)(hidden))
        >>> from bat_tf.losses import ZLPR
        >>> trained = consistent(model, RDrop(4.0))
        >>> trained.compile("adam", ZLPR())
        >>> x, y = np.ones((8, 4)), np.eye(3)[np.arange(8) % 3]
        >>> history = trained.fit(x, y, verbose=0)

    Reference:
        Wu et al., R-Drop, 2021; Miyato et al., Virtual adversarial training, 2018; S2,
        which makes both possible for multi-label scores.
    """
    wrapped = ConsistentModel(model.inputs, model.outputs[0])
    wrapped.set_consistency(terms)
    wrapped.scale = scale
    return wrapped


def _unit(step):
    """A step of length 1 for each sample."""
    axes = list(range(1, len(step.shape)))
    return step * tf.math.rsqrt(tf.reduce_sum(step**2, axes, keepdims=True) + 1e-24)
