"""Numbers that are no longer finite: found at the first step, and explained."""

import math

import keras
import tensorflow as tf


class DivergedError(RuntimeError):
    """A loss or a weight is no longer a finite number.

    Args:
        reason: a sentence that names the step and the likely cause.
        rate: the learning rate then, or None.
    """

    def __init__(self, reason, rate=None):
        super().__init__(reason)
        self.rate = rate


def not_finite(variables):
    """The paths of the variables that hold NaN or infinity."""
    return [
        one.path
        for one in variables
        if tf.as_dtype(one.dtype).is_floating
        and not tf.reduce_all(tf.math.is_finite(one.value))
    ]


def check_finite(model, when=""):
    """Raises if a weight of a model is NaN or infinite.

    Args:
        model: a Keras model.
        when: a clause that says when it was looked at.
    """
    wrong = not_finite(model.weights)
    if wrong:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise DivergedError(
            f"The weights of the model are not finite{when}: {wrong[0]}{more}. It has "
            "learned nothing that can be used; go back to an earlier state of it, or "
            "train again at a lower learning rate."
        )


class Finite(keras.callbacks.Callback):
    """Stops training at the first loss or weight that is not a finite number.

    The loss is looked at in every step, where Keras reads it anyway, and the weights
    behind every epoch. It comes before callbacks that save. `fit` of this library's
    models adds it.

    Raises:
        DivergedError: names the step and the likely cause.

    Example:
        >>> import numpy as np
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> x, y = np.full((4, 2), np.nan), np.ones(4)
        >>> try:
        ...     model.fit(x, y, verbose=0, callbacks=[Finite()])
        ... except DivergedError as error:
        ...     str(error)[:57]
        'Training diverged: the loss is nan in epoch 1, step 1. It'
    """

    async_safe = True  # it reads what Keras hands it and touches nothing

    def on_train_begin(self, logs=None):
        """Forgets the losses of earlier runs."""
        self._lowest, self._last = math.inf, None

    def on_epoch_begin(self, epoch, logs=None):
        """Notes the epoch; looks at the weights that training begins with."""
        self._epoch = epoch
        if self._last is None:  # a backup has put back its own by now
            check_finite(self.model, " before the first step")

    def on_train_batch_end(self, batch, logs=None):
        """Looks at the loss."""
        loss = (logs or {}).get("loss")
        if loss is None:
            return
        if not math.isfinite(loss):
            rate = learning_rate(self.model)
            where = f"epoch {self._epoch + 1}, step {batch + 1}"
            raise DivergedError(
                f"Training diverged: the loss is {loss} in {where}. "
                f"{self._why(rate, batch)}",
                rate,
            )
        self._lowest, self._last = min(self._lowest, loss), loss

    def on_epoch_end(self, epoch, logs=None):
        """Looks at the weights."""
        check_finite(self.model, f" behind epoch {epoch + 1}")

    def _why(self, rate, batch):
        """The likely cause, from what the loss did before."""
        data = "NaN or infinity in the inputs, the targets or the sample weights"
        if self._last is None and not batch:
            return f"It was the first step, so the cause is the batch: {data}."
        too_high = "the learning rate is too high" + (f", {rate:.3g}" if rate else "")
        if self._last is not None and self._last > 2 * self._lowest:
            return (
                f"It had grown from {self._lowest:.4g} to {self._last:.4g}, so "
                f"{too_high}."
            )
        return f"It had not grown before; either {too_high}, or a batch has {data}."


def learning_rate(model):
    """The rate of the step at hand, or None."""
    rate = getattr(model.optimizer, "learning_rate", None)
    # A variable of several replicas is no number itself.
    return None if rate is None else float(tf.convert_to_tensor(rate))
