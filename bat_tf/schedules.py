"""The learning-rate rules of `bat_tf.training`, by the name that users know."""

from bat_tf.training.schedules import *  # noqa: F403
