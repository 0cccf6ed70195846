"""Adam and AdamW as Keras has them, one operation a variable; S0's settings.

A layer may ask for *one* second moment for a whole variable by marking it with
`share_second_moment`. Adam divides each weight's gradient by its own history, so that a
word seen in two texts moves its weight as far as one seen in two thousand: a linear
layer on words then learns the rare words by heart. With one divisor for all, steps keep
the proportions of the gradient, as in gradient descent, and still need no tuned rate.

A variable that is marked with `update_rows` is learnt by Adagrad with one divisor a
row: a step touches only the rows that its gradient has, without moments that fade and
without weight decay.

`module_rates` gives parts of a model their own learning rates, as S3 does with its
attention, its MLPs and its backbone.
"""

import keras
import tensorflow as tf

from bat_tf._internal.keras_private import variable_index
from bat_tf._internal.replicas import needs_whole_batch
from bat_tf._internal.validation import check_number, sentence
from bat_tf.training.schedules import BATSchedule

# What a row's divisor begins with, in mean squares of all rows' gradients: at 0, a row
# that is met once goes as far as one that is met always, and is learnt by heart.
ROW_START = 10.0


def share_second_moment(variable):
    """Marks a variable: the optimizers here keep one second moment for all of it."""
    variable.shares_second_moment = True


def update_rows(variable):
    """Marks a variable: the optimizers here touch only rows that have a gradient."""
    variable.updates_rows = True


class _OneKernel:
    """Updates a variable and its two moments in TensorFlow's own Adam kernel.

    Keras composes the same formula from a dozen operations a variable, which at small
    batches is a fifth of a training step on a CPU.

    Args:
        module_rates: for parts of a model, what their learning rate is multiplied by:
            `{"encoder": 0.1}` is for the variables with `encoder/` in their path.
            Where several fit, the longest name counts.
    """

    def __init__(self, *args, module_rates=None, **kwargs):
        super().__init__(*args, **kwargs)
        self._slots = {}  # name → a slot for each variable
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
        by_row = [variable for variable in variables if _by_row(variable)]
        if by_row:
            self.exclude_from_weight_decay(var_list=by_row)
        super().build(variables)
        paths = [getattr(v, "path", v.name).split("/") for v in variables]
        names = {name: name.strip("/").split("/") for name in self.module_rates}

        def belongs(path, parts):
            places = range(len(path) - len(parts) + 1)
            return any(path[place : place + len(parts)] == parts for place in places)

        for name, parts in names.items():
            if not any(belongs(path, parts) for path in paths):
                # What all paths begin with is the model, or its one module.
                shared = len({path[0] for path in paths}) == 1
                tops = sorted({path[shared] for path in paths if len(path) > shared})
                expected = f"names of modules that learn, such as {', '.join(tops)}"
                raise ValueError(sentence("module_rates", expected, name))
        self._factors = []
        for path in paths:
            fits = [n for n, parts in names.items() if belongs(path, parts)]
            longest = max(fits, key=len, default=None)
            self._factors.append(self.module_rates.get(longest, 1.0))
        self._shared = [_is_shared(variable) for variable in variables]
        self._rowwise = [_by_row(variable) for variable in variables]

    def get_config(self):
        rates = {"module_rates": self.module_rates}
        return {**super().get_config(), **rates, **self._clips}

    def add_variable_from_reference(self, reference_variable, name=None, **kwargs):
        """Makes a slot; what a marked variable does not need is one number."""
        shape = None
        if _by_row(reference_variable):
            shape = reference_variable.shape[:1] if name == "velocity" else ()
        elif _is_shared(reference_variable) and name == "velocity":
            shape = ()
        if shape is not None:
            slot = self.add_variable(shape, initializer="zeros", name=name)
        else:
            slot = super().add_variable_from_reference(
                reference_variable, name=name, **kwargs
            )
        self._slots.setdefault(name, []).append(slot)
        return slot

    def update_step(self, gradient, variable, learning_rate):
        """Applies one gradient; falls back to Keras where the kernel has no form."""
        index = variable_index(self, variable)
        learning_rate = learning_rate * self._factors[index]
        first, second = (self._slots[name][index] for name in ("momentum", "velocity"))
        if self._clips.get("clipnorm"):
            gradient = tf.clip_by_norm(gradient, self._clips["clipnorm"])
        elif self._clips.get("clipvalue"):
            size = self._clips["clipvalue"]
            gradient = tf.clip_by_value(gradient, -size, size)
        if self._rowwise[index]:
            self._row_step(gradient, variable, learning_rate, first, second)
            return
        if self._shared[index]:
            self._shared_step(gradient, variable, learning_rate, first, second)
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
            m=first.value.handle,
            v=second.value.handle,
            beta1_power=tf.pow(beta_1, step),
            beta2_power=tf.pow(beta_2, step),
            lr=tf.cast(learning_rate, dtype),
            beta1=beta_1,
            beta2=beta_2,
            epsilon=tf.cast(self.epsilon, dtype),
            grad=gradient,
        )

    def _row_step(self, gradient, variable, learning_rate, usual, squares):
        if not isinstance(gradient, tf.IndexedSlices):
            every = tf.range(variable.shape[0])
            gradient = tf.IndexedSlices(tf.convert_to_tensor(gradient), every)
        # A row that several tokens point to counts as one.
        rows, place = tf.unique(gradient.indices)
        values = tf.cast(gradient.values, variable.dtype)
        values = tf.math.unsorted_segment_sum(values, place, tf.size(rows))
        # One divisor a row: its weights keep the proportions of the gradient.
        size = tf.reduce_sum(tf.square(values), -1)
        step = tf.cast(self.iterations + 1, values.dtype)
        mean = tf.math.divide_no_nan(
            tf.reduce_sum(size), tf.cast(tf.size(rows), size.dtype)
        )
        usual.assign_add((mean - usual) / step)
        squares, kernel = squares.value.handle, variable.handle
        tf.raw_ops.ResourceScatterAdd(resource=squares, indices=rows, updates=size)
        size = tf.raw_ops.ResourceGather(
            resource=squares, indices=rows, dtype=values.dtype
        )
        size += ROW_START * usual
        step = tf.math.divide_no_nan(values, tf.sqrt(size)[:, None])
        step *= tf.cast(learning_rate, step.dtype)
        tf.raw_ops.ResourceScatterSub(resource=kernel, indices=rows, updates=step)

    def _shared_step(self, gradient, variable, learning_rate, first, second):
        gradient = tf.cast(tf.convert_to_tensor(gradient), variable.dtype)
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


def _by_row(variable):
    return getattr(variable, "updates_rows", False)


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
