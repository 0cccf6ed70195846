"""Labels of a few invented documents, and how tests score them."""

import numpy as np
from hypothesis import strategies as st

from bat_tf import TextDataset
from bat_tf.data import Example

ENCODER = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 1}
WORDS = {
    "energy": ["oil", "gas", "barrel", "crude"],
    "grain": ["wheat", "corn", "harvest", "bushel"],
    "money": ["bank", "rate", "loan", "dollar"],
}


def documents(count=96, seed=0):
    """Texts that say in plain words which of three labels they have, or none."""
    rng = np.random.default_rng(seed)
    examples = []
    for _ in range(count):
        labels = [name for name in WORDS if rng.random() < 0.4]
        words = [rng.choice(WORDS[name]) for name in labels for _ in range(2)]
        words += ["the", "of", "in"][: rng.integers(1, 4)]
        text = " ".join(rng.permutation(words))
        examples.append(Example(text, labels=labels))
    return TextDataset(examples, name="news")


def as_ids(hot, width=None):
    """Multi-hot rows as padded ids; the width says that they are no multi-hot."""
    rows = [np.flatnonzero(row).tolist() for row in np.asarray(hot)]
    width = width or np.shape(hot)[1] + 1
    return np.array([row + [-1] * (width - len(row)) for row in rows])


def score(metric, *batch):
    metric.update_state(*batch)
    return float(metric.result())


BATCHES = st.integers(1, 6).flatmap(
    lambda width: st.lists(
        st.lists(
            st.tuples(st.booleans(), st.sampled_from([-1.5, 0.0, 0.5])),
            min_size=width,
            max_size=width,
        ),
        min_size=1,
        max_size=6,
    )
)
