"""Parts by the names that the papers and the command line give them."""

import inspect

from bat_tf._validation import check_choice


def build(caller, registry, name, settings):
    """Builds the part called `name`.

    Args:
        caller: the public function, such as "losses.get", for the error sentence.
        registry: name → (class, its settings under that name).
        name: one of the names; upper or lower case.
        settings: what the user passes; wins over the registered settings.
    """
    name = check_choice("name", str(name).lower(), list(registry))
    cls, named = registry[name]
    accepted = _settings(cls)
    unknown = [setting for setting in settings if setting not in accepted]
    if unknown:
        raise TypeError(
            f"{caller}({name!r}) takes no setting {', '.join(map(repr, unknown))}. "
            f"Its settings are: {', '.join(accepted)}."
        )
    return cls(**{"name": name, **named, **settings})


def _settings(cls):
    """Lists the arguments of a class, those it passes on to its bases included."""
    names = {}
    for base in cls.__mro__:
        parameters = list(inspect.signature(base.__init__).parameters.values())[1:]
        named = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        names.update(dict.fromkeys(named))
        if len(named) == len(parameters):
            break
    return list(names)
