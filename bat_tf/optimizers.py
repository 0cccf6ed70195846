"""Adam and AdamW as Keras has them, one operation a variable; S0's settings.

A layer may ask for *one* second moment for a whole variable by marking it with
`share_second_moment`. Adam divides each weight's gradient by its own history, so that a
word seen in two texts moves its weight as far as one seen in two thousand: a linear
layer on words then learns the rare words by heart. With one divisor for all, steps keep
the proportions of the gradient, as in gradient descent, and still need no tuned rate.

`module_rates` gives parts of a model their own learning rates, as S3 does with its
attention, its MLPs and its backbone.
"""

import keras
import tensorflow as tf

from bat_tf._replicas import needs_whole_batch
from bat_tf._validation import check_number, sentence
from bat_tf.schedules import BATSchedule


def share_second_moment(variable):
    """Marks a variable: the optimizers here keep one second moment for all of it."""
    variable.shares_second_moment = True


def get(optimizer):
    """The optimizer called `optimizer`: ours for `adam` and `adamw`, else Keras'.

    >>> type(get("adamw")).__name__
    'AdamW'
    """
    ours = {"adam": Adam, "adamw": AdamW}
    if isinstance(optimizer, str) and optimizer.lower() in ours:
        return ours[optimizer.lower()]()
    return keras.optimizers.get(optimizer)


class _OneKernel:
    """Updates a variable and its two moments in TensorFlow's own Adam kernel.

    Keras composes the same formula from a dozen operations a variable, which at small
    batches is a fifth of a training step on a CPU.

    Args:
        module_rates: for parts of a model, what their learning rate is multiplied by:
            `{"encoder": 0.1}` is for the variables whose path begins with `encoder/`.
            Where several fit, the longest name counts.
    """

    def __init__(self, *args, module_rates=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.module_rates = dict(module_rates or {})
        for name, factor in self.module_rates.items():
            check_number(f"module_rates[{name!r}]", factor, low=0)
        # Keras clips the gradients of each replica, of which only the sum is that of
        # the batch. There, `update_step` clips the sum instead.
        self._clips = {}
        if tf.distribute.get_strategy().num_replicas_in_sync > 1:
            if self.global_clipnorm:
                needs_whole_batch(
                    "An optimizer with `global_clipnorm`",
                    "the norm is that of all gradients of a whole batch",
                    "Use `clipnorm`.",
                )
            self._clips = {"clipnorm": self.clipnorm, "clipvalue": self.clipvalue}
            self.clipnorm = self.clipvalue = None

    def build(self, variables):
        """Makes the slots, and looks up each variable's factor."""
        super().build(variables)
        paths = [getattr(v, "path", v.name).split("/") for v in variables]
        # What all paths begin with is the model itself, or the one module it has.
        shared = len({path[0] for path in paths}) == 1
        names = {name: name.strip("/").split("/") for name in self.module_rates}

        def belongs(path, parts):
            begins = [path[: len(parts)], path[1:][: len(parts)]]
            return parts in begins[: 1 + shared]

        for name, parts in names.items():
            if not any(belongs(path, parts) for path in paths):
                tops = sorted({path[shared] for path in paths if len(path) > shared})
                expected = f"names of modules that learn, such as {', '.join(tops)}"
                raise ValueError(sentence("module_rates", expected, name))
        self._factors = []
        for path in paths:
            fits = [n for n, parts in names.items() if belongs(path, parts)]
            longest = max(fits, key=len, default=None)
            self._factors.append(self.module_rates.get(longest, 1.0))

    def get_config(self):
        rates = {"module_rates": self.module_rates}
        return {**super().get_config(), **rates, **self._clips}

    def add_variable_from_reference(self, reference_variable, name=None, **kwargs):
        """Makes a slot; the second moment of a marked variable is one number."""
        if name == "velocity" and _is_shared(reference_variable):
            return self.add_variable((), initializer="zeros", name=name)
        return super().add_variable_from_reference(
            reference_variable, name=name, **kwargs
        )

    def update_step(self, gradient, variable, learning_rate):
        """Applies one gradient; falls back to Keras where the kernel has no form."""
        index = self._get_variable_index(variable)
        learning_rate = learning_rate * self._factors[index]
        if self._clips.get("clipnorm"):
            gradient = tf.clip_by_norm(gradient, self._clips["clipnorm"])
        elif self._clips.get("clipvalue"):
            size = self._clips["clipvalue"]
            gradient = tf.clip_by_value(gradient, -size, size)
        if _is_shared(self._trainable_variables[index]):
            self._shared_step(gradient, variable, learning_rate, index)
            return
        # A row that several tokens point to counts as one, in whatever form it comes.
        gradient = tf.cast(tf.convert_to_tensor(gradient), variable.dtype)
        if self.amsgrad:
            super().update_step(gradient, variable, learning_rate)
            return
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
            grad=gradient,
        )

    def _shared_step(self, gradient, variable, learning_rate, index):
        gradient = tf.cast(tf.convert_to_tensor(gradient), variable.dtype)
        first, second = self._momentums[index], self._velocities[index]
        step = tf.cast(self.iterations + 1, variable.dtype)
        first.assign_add((1 - self.beta_1) * (gradient - first))
        square = tf.reduce_mean(tf.square(gradient))
        second.assign_add((1 - self.beta_2) * (square - second))
        # No epsilon: a mean loss over many labels has gradients far below any.
        size = tf.sqrt(second / (1 - tf.pow(self.beta_2, step)))
        mean = first / (1 - tf.pow(self.beta_1, step))
        variable.assign_sub(learning_rate * tf.math.divide_no_nan(mean, size))


def _is_shared(variable):
    return getattr(variable, "shares_second_moment", False)


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
