"""Parts by the names that the papers and the command line give them."""

import inspect

import numpy as np

from bat_tf._internal.validation import check_choice


class Needed(str):
    """What a setting must be that its name in a registry does not decide."""


def build(caller, registry, name, settings):
    """Builds the part called `name`.

    Args:
        caller: the public function, such as "losses.get", for the error sentence.
        registry: name → (class, its settings under that name; see also `Needed`).
        name: one of the names; upper or lower case.
        settings: what the user passes; wins over the registered settings.
    """
    name = check_choice("name", str(name).lower(), list(registry))
    cls, named = registry[name]
    settings = {"name": name, **named, **settings}
    for setting, expected in settings.items():
        if isinstance(expected, Needed):
            raise TypeError(
                f"{caller}({name!r}) needs the setting {setting!r}: {expected}."
            )
    accepted = arguments(cls)
    unknown = [setting for setting in settings if setting not in accepted]
    missing = [setting for setting in accepted if setting not in settings]
    missing = [setting for setting in missing if accepted[setting]]
    for wrong, which in (("takes no", unknown), ("needs the", missing)):
        if which:
            raise TypeError(
                f"{caller}({name!r}) {wrong} setting {', '.join(map(repr, which))}. "
                f"Its settings are: {', '.join(accepted)}."
            )
    return cls(**settings)


class FromArguments:
    """A Keras object that keeps its arguments as attributes: they are its config."""

    def get_config(self):
        """Returns all arguments as JSON values."""
        kept = (name for name in arguments(type(self)) if hasattr(self, name))
        return {name: _plain(getattr(self, name)) for name in kept}


def _plain(value):
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def arguments(cls):
    """Maps each argument of a class, those of its bases included, to: is it needed."""
    needed = {}
    for base in cls.__mro__:
        parameters = list(inspect.signature(base.__init__).parameters.values())[1:]
        passed_on = [
            p for p in parameters if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
        named = [p for p in parameters if p not in passed_on]
        needed = {p.name: p.default is p.empty for p in named} | needed
        if not passed_on:
            break
    return needed
