"""bat_tf: put tags on text with TensorFlow and Keras 3."""

__version__ = "0.1.0"
