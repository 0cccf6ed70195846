"""The version of this package; setup.cfg reads it."""

import re
import warnings

VERSION = "0.2.0"


def warn_if_newer(version, what):
    """Says so if a newer release than this one wrote something.

    Args:
        version: that release; None if nothing tells.
        what: what it wrote, such as "The model in shop/1".
    """
    newer, own = (
        [int(part) for part in re.findall(r"\d+", str(text or 0))[:3]]
        for text in (version, VERSION)
    )
    if newer > own:
        warnings.warn(
            f"{what} was written by bat_tf {version}, and this is {VERSION}: it may "
            "not load, or answer otherwise. Install that release: python -m pip "
            "install --upgrade bat-tf",
            stacklevel=3,
        )
