"""The optimizers of `bat_tf.training`, by the name that users know."""

from bat_tf.training.optimizers import *  # noqa: F403
