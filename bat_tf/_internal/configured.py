"""A layer's config, read off its arguments."""

import re

import keras

from bat_tf._internal.keras_private import layers_inside
from bat_tf._internal.registry import arguments


class Configured:
    """Gives a layer the config that its arguments make up.

    Each argument of the constructor, those that its `**kwargs` reach included, is an
    attribute of the same name. Layers, initializers and their like are taken apart and
    put together again.
    """

    def get_config(self):
        own = [name for name in _own_arguments(type(self)) if hasattr(self, name)]
        own = {name: getattr(self, name) for name in own}
        own = {n: keras.saving.serialize_keras_object(x) for n, x in own.items()}
        policy = keras.dtype_policies.serialize(_policy(self))
        return {**super().get_config(), **own, "dtype": policy}

    @classmethod
    def from_config(cls, config):
        """Makes the layer that `get_config` describes."""
        own = [name for name in _own_arguments(cls) if name in config]
        made = {n: keras.saving.deserialize_keras_object(config[n]) for n in own}
        return super().from_config({**config, **made})


def _own_arguments(cls):
    """Names of the arguments that Keras' own layers do not have."""
    known = arguments(keras.layers.Layer)
    return [name for name in arguments(cls) if name not in known]


def _policy(layer):
    """The layer's dtype policy; once parts of it are quantized, one for each of them.

    The parts are made anew from the arguments, so that only the config can tell them
    what to expect in a file.
    """
    policy = layer.dtype_policy
    default = getattr(policy, "default_policy", policy)
    found = {}
    for part in layers_inside(layer):
        if part.quantization_mode is not None and part is not layer:
            # Whatever the layer will be a part of.
            place = layer.name + part.path.removeprefix(layer.path)
            own = part.dtype_policy
            own = own[part.path] if hasattr(own, "default_policy") else own
            found[f"(.*/)?{re.escape(place)}"] = own
    return keras.dtype_policies.DTypePolicyMap(default, found) if found else policy
