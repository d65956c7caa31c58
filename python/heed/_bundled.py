"""Where the bundled model is."""
import os

from ._heed import IoError


def bundled_model() -> str:
    """The directory of the Spanish-English model that the package heed-attention-spa-eng brings.

    Raises IoError where that package is not installed.
    """
    from importlib.util import find_spec
    spec = find_spec("heed_spa_eng")
    if spec is None or spec.origin is None:
        raise IoError("bundled_model: the package heed-attention-spa-eng is not installed; install its wheel, or "
                      "python/model of a checkout, with pip")
    return os.path.dirname(spec.origin)
