"""The learning rate of equation 11 of "Born for Auto-Tagging"."""

import keras
from keras import ops

from bat_tf._internal.validation import check_choice, check_number

# Name → (α, scale); β = α - 1/2 in all of them. The paper prints β = -1/22 for v3,
# which would move the peak away from `warmup_steps`.
VERSIONS = {
    "v1": (1 / 2, 1.0),
    "v2": (6 / 11, 1.0),
    "v3": (6 / 13, 1.0),
    "v3.1": (6 / 13, 0.999),
    "v4": (7 / 15, 1.0),
    "v4.1": (7 / 15, 1.001),
    "v5": (11 / 20, 1.0),
}

# Encoder → (warm-up steps, divisor of the rate) at 24 layers and more; 12 to 23 layers
# have (8000, 3) whatever the encoder. The paper does not say what Admin had at 24.
_DEEP = {
    "bat": (8000, 5),
    "transformer": (12000, 10),
    "admin": (8000, 3),
    "muse": (8000, 3),
    "switch": (8000, 10),
    "performer": (8000, 3),
    "informer": (8000, 3),
}


@keras.saving.register_keras_serializable(package="bat_tf")
class BATSchedule(keras.optimizers.schedules.LearningRateSchedule):
    r"""A linear warm-up, then a decay with a power of the step.

        rate(x) = scale · d_model^(-1/2) · min(S^β x^(-α), S^(-3/2) x)

    $$\mathrm{rate}(x) = \lambda\, d^{-1/2} \min(S^\beta x^{-\alpha}, S^{-3/2} x)$$

    S is `warmup_steps` and x counts optimizer steps from 1. With α = 1/2 and β = 0 this
    is the schedule of the Transformer. The rate is the schedule's own business: do not
    combine it with `ReduceLROnPlateau` or `LearningRateScheduler`.

    Args:
        d_model: width of the encoder.
        warmup_steps: steps until the peak; 4000 in the paper. Scale it to the length of
            the run: a run of 2000 steps would otherwise end inside the warm-up.
        alpha: exponent of the decay; larger falls faster.
        beta: exponent of S in the decay; default `alpha - 1/2`, the only value that
            puts the peak at `warmup_steps`.
        scale: factor on the whole.

    Example:
        >>> from bat_tf.training.schedules import BATSchedule
        >>> schedule = BATSchedule.version("v4.1", d_model=128)
        >>> [round(float(schedule(step)), 6) for step in (0, 3999, 99999)]
        [0.0, 0.001399, 0.000311]

        With the paper's optimizer:
        `keras.optimizers.Adam(schedule, beta_1=0.9, beta_2=0.98, epsilon=1e-9)`.

    Reference:
        Born for Auto-Tagging, equation 11 and §4.3.
    """

    def __init__(self, d_model, warmup_steps=4000, alpha=0.5, beta=None, scale=1.0):
        super().__init__()
        self.d_model = check_number("d_model", d_model, low=1)
        self.warmup_steps = check_number("warmup_steps", warmup_steps, low=1)
        self.alpha = check_number("alpha", alpha, low=0)
        self.beta = alpha - 0.5 if beta is None else check_number("beta", beta)
        self.scale = check_number("scale", scale, low=0)

    @classmethod
    def version(cls, name, d_model, **overrides):
        """Returns the schedule that the paper calls `name`.

        Args:
            name: `v1 v2 v3 v3.1 v4 v4.1 v5`.
            d_model: width of the encoder.
            **overrides: other arguments of the class; they replace those of the
                version, `scale` included.

        Example:
            >>> from bat_tf.training.schedules import BATSchedule
            >>> BATSchedule.version("v1", 128, scale=0.93).get_config()["scale"]
            0.93
        """
        alpha, scale = VERSIONS[check_choice("name", name, tuple(VERSIONS))]
        return cls(d_model, **{"alpha": alpha, "scale": scale, **overrides})

    @classmethod
    def for_depth(cls, encoder_name, num_layers, d_model, **overrides):
        """Returns the schedule that the paper gives an encoder of that depth.

        Up to 11 layers it is v1; from 12 layers the warm-up is 8000 steps and the rate
        a third; from 24 layers BAT has a fifth, Switch a tenth, and the Transformer
        12000 steps and a tenth. The paper trained 4, 6, 12 and 24 layers.

        Args:
            encoder_name: `bat transformer admin muse switch performer informer`.
            num_layers: depth of the encoder.
            d_model: width of the encoder.
            **overrides: other arguments of the class; they replace those of the depth.

        Example:
            >>> from bat_tf.training.schedules import BATSchedule
            >>> schedule = BATSchedule.for_depth("bat", num_layers=24, d_model=128)
            >>> schedule.warmup_steps, schedule.scale
            (8000, 0.2)
        """
        check_choice("encoder_name", encoder_name, tuple(_DEEP))
        check_number("num_layers", num_layers, low=1, integer=True)
        warmup_steps, divisor = 4000, 1
        if num_layers >= 24:
            warmup_steps, divisor = _DEEP[encoder_name]
        elif num_layers >= 12:
            warmup_steps, divisor = 8000, 3
        depth = {"warmup_steps": warmup_steps, "scale": 1 / divisor}
        return cls(d_model, **{**depth, **overrides})

    def __call__(self, step):
        """Returns the rate of the optimizer step `step`, counted from 0."""
        # Keras counts from 0, the paper from 1. The constants are folded in float64, so
        # that float32 sees only numbers of ordinary size.
        x = ops.cast(step, "float32") + 1.0
        factor = self.scale * self.d_model**-0.5
        rise = factor * self.warmup_steps**-1.5
        fall = factor * self.warmup_steps**self.beta
        return ops.minimum(fall * ops.power(x, -self.alpha), rise * x)

    def get_config(self):
        """Returns all arguments as JSON values."""
        return {
            "d_model": self.d_model,
            "warmup_steps": self.warmup_steps,
            "alpha": self.alpha,
            "beta": self.beta,
            "scale": self.scale,
        }
