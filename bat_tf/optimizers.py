"""Adam and AdamW as Keras has them, one operation a variable; S0's settings."""

import keras
import tensorflow as tf

from bat_tf.schedules import BATSchedule


class _OneKernel:
    """Updates a variable and its two moments in TensorFlow's own Adam kernel.

    Keras composes the same formula from a dozen operations a variable, which at small
    batches is a fifth of a training step on a CPU.
    """

    def update_step(self, gradient, variable, learning_rate):
        """Applies one gradient; falls back to Keras where the kernel has no form."""
        if self.amsgrad or tf.distribute.has_strategy():
            super().update_step(gradient, variable, learning_rate)
            return
        index = self._get_variable_index(variable)
        dtype = variable.dtype
        step = tf.cast(self.iterations + 1, dtype)
        beta_1 = tf.cast(self.beta_1, dtype)
        beta_2 = tf.cast(self.beta_2, dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=tf.pow(beta_1, step),
            beta2_power=tf.pow(beta_2, step),
            lr=tf.cast(learning_rate, dtype),
            beta1=beta_1,
            beta2=beta_2,
            epsilon=tf.cast(self.epsilon, dtype),
            grad=tf.cast(tf.convert_to_tensor(gradient), dtype),
        )


@keras.saving.register_keras_serializable("bat_tf")
class Adam(_OneKernel, keras.optimizers.Adam):
    """`keras.optimizers.Adam`, faster on a CPU."""


@keras.saving.register_keras_serializable("bat_tf")
class AdamW(_OneKernel, keras.optimizers.AdamW):
    """`keras.optimizers.AdamW`, faster on a CPU."""


def bat_optimizer(d_model, version="v1", warmup_steps=4000, scale=1.0, **settings):
    """Adam with the paper's constants and the learning-rate rule of equation 11.

    Args:
        d_model: width of the encoder.
        version: a named version of the rule, see `BATSchedule.version`.
        warmup_steps: S of equation 11. The paper trains for 50 epochs with 4,000; a
            shorter run wants fewer.
        scale: factor on the whole rate, on top of the version's own.
        **settings: passed on to `Adam`.
    """
    rate = BATSchedule.version(version, d_model, warmup_steps=warmup_steps)
    rate = BATSchedule.from_config({**rate.get_config(), "scale": rate.scale * scale})
    # S0, section 4: beta_1 = .9, beta_2 = .98, epsilon = 1e-9.
    paper = {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9}
    return Adam(rate, **{**paper, **settings})
