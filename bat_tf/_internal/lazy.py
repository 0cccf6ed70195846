"""Names that a package passes on from its files, imported when somebody asks.

An answer from a SavedModel then needs neither Keras nor what trains.
"""

import importlib


def passing_on(package, **homes):
    """The `__getattr__` and `__all__` of a package.

    Args:
        package: its `__name__`.
        **homes: for each file, the names that come from it, divided by blanks.
    """
    home = {name: file for file, names in homes.items() for name in names.split()}

    def find(name):
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home[name]}"), name)

    return find, sorted(home)
