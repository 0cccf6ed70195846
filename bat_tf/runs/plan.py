"""How much training fits into the minutes that one has: measured, not guessed.

A rehearsal builds the model, takes some steps on a sample of the texts and forgets it
again. What it measured decides how many epochs there will be, and, where not even one
would fit, how many texts. Both stand in the settings of the run, so that a repetition
with them is exact on any machine.
"""

import time
from typing import NamedTuple

import numpy as np

from bat_tf.data import TextDataset
from bat_tf.runs.build import build
from bat_tf.training import backbone_cache

# What a plan decides.
NAMES = ("budget.minutes", "budget.epochs", "data.max_train", "text.max_length")
LEAST_EPOCHS, LEAST_TOKENS = 3, 64  # before less is read of each text
SAMPLE_STEPS = 12  # of each length of texts there is a batch or two
SHARE = 0.85  # of the time; the rest is for what nobody foresees


class Speed(NamedTuple):
    """What was measured: seconds.

    Attributes:
        once: before the first step: building, compiling, and what is done once a text.
        epoch: of a pass over the training part, with its validation.
        lengths: how many tokens are read of some of the texts.
    """

    once: float
    epoch: float
    lengths: tuple = ()

    def reading(self, most):
        """The speed at which so many tokens at most are read of each text."""
        lengths = np.array(self.lengths)
        share = np.minimum(lengths, most).sum() / max(1, lengths.sum())
        return self._replace(once=self.once * share, epoch=self.epoch * share)

    def minutes(self, epochs):
        """How long so many epochs take."""
        return (self.once + epochs * self.epoch) / 60


def rehearse(settings, task):
    """Measures the `Speed` of a run.

    Args:
        settings: `Settings`.
        task: the run's `Task`.
    """
    batch, train = settings.budget.batch_size, task.train
    random = np.random.default_rng(0)
    size = min(len(train), SAMPLE_STEPS * batch)
    rows = random.choice(len(train), size, replace=False)
    sample = TextDataset(train[row] for row in sorted(rows))
    began = time.perf_counter()
    model = build(settings, train, task.labels)
    built = time.perf_counter()
    cache, share = settings.encoder.cache, len(sample) / len(train)
    kept = cache and _fits(model, sample, share, cache)
    batches = model.batches(sample, batch, seed=0, cache=kept).cache()
    for _ in batches:
        pass
    prepared = time.perf_counter()
    model.fit(batches, epochs=1, shuffle=False, verbose=0)
    compiled = time.perf_counter()
    model.fit(batches, epochs=1, shuffle=False, verbose=0)
    stepped = time.perf_counter()
    # Scoring reads as much of a text as training does, a third of the work.
    texts, valid = len(train) / size, len(task.valid) / size
    # Compiling and the steps of the first pass: the second has the steps alone.
    once = (built - began) + (compiled - prepared) - (stepped - compiled)
    once += (prepared - built) * (texts + valid)
    lengths = model.preprocessor.encode(sample)["token_ids"].row_lengths().numpy()
    return Speed(once, (stepped - compiled) * (texts + valid / 3), tuple(lengths))


def _fits(model, sample, share, cache):
    """Whether the states of a frozen backbone will be kept, from a share of texts."""
    examples = model.preprocessor.encode(sample)
    size = backbone_cache.num_bytes(examples, model.frozen_part(), model.tokenizer)
    return isinstance(cache, str) or size / share < backbone_cache.MOST_BYTES


def planned(settings, task, speed, minutes):
    """The settings of a run that takes so many minutes at most.

    Args:
        settings: `Settings`; their epochs are the most there will be.
        task: the run's `Task`.
        speed: what `rehearse` measured.
        minutes: what is left of the budget.

    Returns:
        `Settings` with as many epochs as fit, and without minutes. Where those are few,
        labels are chosen by the beginnings of texts; where not one fits, an epoch of as
        many texts as do.
    """
    most = settings.text.max_length
    if settings.task == "labels" and speed.lengths:
        while most // 2 >= LEAST_TOKENS and not _enough(settings, speed, minutes, most):
            most //= 2
        speed = speed.reading(most)
        settings = settings.changed(**{"text.max_length": most})
    seconds = 60 * SHARE * minutes - speed.once
    fitting = int(seconds / speed.epoch) if speed.epoch else settings.budget.epochs
    epochs = min(settings.budget.epochs, max(1, fitting))
    changes = {"budget.epochs": epochs, "budget.minutes": None}
    if fitting < 1:
        # What is done once a text counts here, too: fewer texts save that as well.
        share = 60 * SHARE * minutes / (speed.once + speed.epoch)
        most = max(settings.budget.batch_size, int(share * len(task.train)))
        if most < len(task.train):
            changes["data.max_train"] = most
    return settings.changed(**changes)


def _enough(settings, speed, minutes, most):
    """Whether a few epochs fit if so many tokens are read of each text."""
    epochs = min(settings.budget.epochs, LEAST_EPOCHS)
    return speed.reading(most).minutes(epochs) <= SHARE * minutes


def in_words(settings, task, speed):
    """What was planned, in a sentence."""
    epochs, few = settings.budget.epochs, settings.data.max_train
    most, read = settings.text.max_length, max(speed.lengths, default=0)
    if settings.task == "labels":
        speed = speed.reading(most)
    begin = f" by the first {most} tokens" if 0 < most < read else ""
    share = few / len(task.train) if few else 1.0
    minutes = speed.minutes(epochs) * share
    texts = f" of {few:,} of the {len(task.train):,} texts" if few else ""
    return (
        f"{epochs} epoch{'s' * (epochs > 1)}{texts}{begin}, about {minutes:.1f} "
        f"minutes ({speed.epoch * share:.0f} s an epoch)."
    )
