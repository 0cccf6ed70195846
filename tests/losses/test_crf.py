"""The CRF against all paths, written out one by one in plain Python."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from bat_tf import losses
from bat_tf._internal import chain
from bat_tf.heads import TagHead
from bat_tf.text import alignment

FORBIDDEN = -1e30
TAGS = 3


def score(path, scores, transitions):
    """What a path scores, in float64."""
    total, before = 0.0, len(transitions) - 1
    for tag, own in zip(path, scores, strict=True):
        total += own[tag] + transitions[before][tag]
        before = tag
    return total + (transitions[before][-1] if path else 0.0)


def every(scores, transitions):
    """All paths and their scores."""
    paths = list(itertools.product(range(len(transitions) - 1), repeat=len(scores)))
    return paths, np.array([score(path, scores, transitions) for path in paths])


def log_sum(values):
    most = values.max()
    return most + np.log(np.exp(values - most).sum())


def by_hand(scores, tags, mask, transitions):
    """The log-likelihood of each row."""
    found = []
    for own, path, counts in zip(scores, tags, mask, strict=True):
        own, path = own[counts], path[counts]
        _, totals = every(own, transitions)
        gold = score(tuple(path), own, transitions)
        found.append(gold - log_sum(totals) if len(own) else 0.0)
    return np.array(found)


def drawn(seed, rows=4, length=5, tags=TAGS, size=2.0):
    """Scores, tags, a mask with gaps and an empty row, and transitions."""
    random = np.random.default_rng(seed)
    mask = random.random((rows, length)) < 0.7
    mask[0], mask[1] = True, False
    return (
        random.normal(size=(rows, length, tags)) * size,
        random.integers(0, tags, (rows, length)),
        mask,
        random.normal(size=(tags + 1, tags + 1)) * size,
    )


def ours(scores, tags, mask, transitions):
    tags = np.where(mask, tags, -1)
    scores = np.asarray(scores, "float32")
    return losses.crf_log_likelihood(tags, scores, np.asarray(transitions, "float32"))


@pytest.mark.parametrize("seed", range(3))
def test_the_likelihood_is_that_of_all_paths(seed):
    case = drawn(seed)
    np.testing.assert_allclose(ours(*case), by_hand(*case), rtol=2e-5, atol=2e-5)


def test_padding_and_gaps_change_nothing():
    scores, tags, _, transitions = drawn(5)
    whole = ours(scores, tags, np.ones_like(tags, bool), transitions)
    apart = np.full((4, 11, TAGS), np.nan)
    apart[:, 1:11:2] = scores
    mask = np.zeros((4, 11), bool)
    mask[:, 1:11:2] = True
    wide = np.full((4, 11), 99)
    wide[:, 1:11:2] = tags
    np.testing.assert_allclose(ours(apart, wide, mask, transitions), whole, rtol=1e-6)
    x = tf.constant(apart, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(ours_of(x, np.where(mask, wide, -1), transitions))
    gradient = tape.gradient(total, x).numpy()
    assert np.isfinite(gradient).all() and not gradient[~mask].any()


def ours_of(scores, tags, transitions):
    return losses.crf_log_likelihood(tags, scores, tf.cast(transitions, tf.float32))


@pytest.mark.parametrize("jit", [False, True])
def test_gradients_are_those_of_finite_differences(jit):
    scores, tags, mask, transitions = drawn(1, rows=3, length=4, size=1.0)
    weights = np.array([1.0, 2.0, -0.5])
    parts = [tf.Variable(x, dtype=tf.float32) for x in (scores, transitions)]

    @tf.function(jit_compile=jit)
    def gradients():
        with tf.GradientTape() as tape:
            found = ours_of(parts[0], np.where(mask, tags, -1), parts[1])
            total = tf.reduce_sum(found * tf.cast(weights, tf.float32))
        return tape.gradient(total, parts)

    for place, found in enumerate(gradients()):
        for index in np.ndindex(*found.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [scores.copy(), transitions.copy()]
                moved[place][index] += step
                ends.append(weights @ by_hand(moved[0], tags, mask, moved[1]))
            wanted = (ends[0] - ends[1]) / 2e-5
            assert abs(found[index] - wanted) < 2e-5, (place, index)


@pytest.mark.parametrize("seed", range(3))
def test_the_best_path_and_marginals_are_those_of_all_paths(seed):
    scores, _, mask, transitions = drawn(seed)
    inputs = [tf.constant(x, tf.float32) for x in (scores, transitions)]
    path = chain.best_path(inputs[0], mask, inputs[1]).numpy()
    shares = chain.marginals(inputs[0], mask, inputs[1]).numpy()
    for row, counts in enumerate(mask):
        paths, totals = every(scores[row, counts], transitions)
        assert tuple(path[row, counts]) == paths[int(totals.argmax())]
        p = np.exp(totals - log_sum(totals))
        for place, share in enumerate(shares[row, counts]):
            of_tag = [sum(p[[q[place] == k for q in paths]]) for k in range(TAGS)]
            np.testing.assert_allclose(share, of_tag, atol=1e-5)


def test_without_transitions_it_is_cross_entropy():
    scores, tags, mask, _ = drawn(2)
    tags = np.where(mask, tags, -1)
    loss = losses.CRF(transitions=np.zeros((TAGS + 1, TAGS + 1)))
    wanted = losses.get("ce")(tags, scores)
    assert float(loss(tags, scores)) == pytest.approx(float(wanted), rel=1e-5)
    weights = np.array([1.0, 3.0, 0.0, 2.0])
    wanted = losses.get("ce")(tags, scores, weights)
    assert float(loss(tags, scores, weights)) == pytest.approx(float(wanted), rel=1e-5)
    hot = np.eye(TAGS)[tags] * (tags >= 0)[..., None]
    assert float(loss(hot, scores)) == pytest.approx(float(loss(tags, scores)))


@pytest.mark.parametrize("name", ["ce", "cecl", "cecla", "pbp"])
def test_token_losses_are_added_on_the_logits(name):
    scores, tags, mask, transitions = drawn(3)
    tags = np.where(mask, tags, -1)
    counts = [50, 20, 5]
    both = losses.get(
        "crf", class_counts=counts, token_loss=name, transitions=transitions
    )
    both = losses.CRF.from_config(both.get_config()).on(transitions)
    parts = [losses.CRF(transitions=transitions), losses.get(name, class_counts=counts)]
    wanted = sum(float(loss(tags, scores)) for loss in parts)
    assert float(both(tags, scores)) == pytest.approx(wanted, rel=1e-5)


def test_a_keras_mask_takes_tokens_out():
    scores, tags, mask, transitions = drawn(4)
    loss = losses.CRF(transitions=transitions)
    masked = tf.constant(scores, tf.float32)
    wanted = loss(np.where(mask, tags, -1), masked)
    masked._keras_mask = tf.constant(mask)
    assert float(loss(tags, masked)) == pytest.approx(float(wanted), rel=1e-6)


@pytest.mark.parametrize("size", [1e2, 1e4])
def test_extreme_logits_stay_finite(size):
    scores, tags, mask, transitions = drawn(6, size=size)
    x = [tf.constant(part, tf.float32) for part in (scores, transitions)]
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = ours_of(x[0], np.where(mask, tags, -1), x[1])
    wanted = by_hand(scores, tags, mask, transitions)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-2)
    for gradient in tape.gradient(found, x):
        assert np.isfinite(gradient.numpy()).all()


def test_a_long_text_loses_nothing_to_rounding():
    # All paths of a hidden chain that has no memory: a sum over tokens.
    random = np.random.default_rng(0)
    scores = random.normal(size=(1, 800, 4)) * 3
    tags = scores.argmax(-1)
    mask, none = np.ones_like(tags, bool), np.zeros((5, 5))
    wanted = scores.max(-1).sum() - sum(log_sum(row) for row in scores[0])
    assert float(ours(scores, tags, mask, none)[0]) == pytest.approx(wanted, rel=1e-5)
    shares = chain.marginals(tf.cast(scores, tf.float32), mask, none)
    np.testing.assert_allclose(shares, tf.nn.softmax(scores), atol=1e-5)


def allowed(tags, scheme):
    """Whether BIO tags may follow each other, out of their names."""
    before = "O"
    for tag in tags:
        opened = before.partition("-")[2] if before != "O" else None
        if scheme == "bio" and tag.startswith("I-") and tag[2:] != opened:
            return False
        before = tag
    return True


@pytest.mark.parametrize("scheme", ["bio", "plain"])
@pytest.mark.parametrize("size", [1.0, 1e6])
def test_what_is_decoded_is_possible(scheme, size):
    names = alignment.tag_names(["brand", "product"], scheme)
    random = np.random.default_rng(0)
    scores = random.normal(size=(40, 9, len(names))) * size
    learnt = random.normal(size=[len(names) + 1] * 2) * size
    mask = random.random((40, 9)) < 0.8
    follows = alignment.transition_scores(len(names), scheme, learnt)
    paths = chain.best_path(scores, mask, follows).numpy()
    shares = chain.marginals(scores, mask, follows).numpy()
    assert (shares >= 0).all() and (shares <= 1 + 1e-6).all()
    for row, counts in enumerate(mask):
        tags = [names[tag] for tag in paths[row, counts]]
        assert allowed(tags, scheme)
        inside = [name.startswith("I-") for name in names]
        assert not shares[row, counts][:1, inside].any()


def test_tags_that_are_forbidden_begin_anew():
    # A text that was cut inside a span: I-x at its beginning.
    follows = alignment.transition_scores(3, "bio", np.zeros((4, 4))).numpy()
    scores = np.array([[[0.1, 0.2, 0.3], [1.0, 0.5, 0.2], [0.3, 0.1, 0.9]]])
    tags = np.array([[2, 0, 2]])
    found = ours(scores, tags, np.ones((1, 3), bool), follows)
    first, last = scores[0, :2], scores[0, 2:]
    free = np.zeros((4, 4))
    free[:3, :3] = follows[:3, :3]
    _, totals = every(first, free)
    wanted = score((2, 0), first, free) - log_sum(totals)
    wanted += last[0, 2] - log_sum(last[0])
    assert float(found[0]) == pytest.approx(wanted, abs=1e-5)


def test_values_of_rows_and_wrong_tags():
    scores, tags, mask, transitions = drawn(7)
    tags = np.where(mask, tags, -1)
    loss = losses.CRF(transitions=transitions, reduction=None)
    np.testing.assert_allclose(
        loss(tags, scores), -ours(scores, tags, mask, transitions), rtol=1e-6
    )
    tags[0, 0] = TAGS
    assert np.isnan(float(losses.CRF(transitions=transitions)(tags, scores)))


def test_bad_arguments_get_a_sentence():
    scores, tags, _, transitions = drawn(8)
    with pytest.raises(ValueError, match="`transitions` must be given"):
        losses.get("crf")(tags, scores)
    with pytest.raises(ValueError, match=r"`transitions` must be of shape \(4, 4\)"):
        losses.CRF(transitions=transitions[:-1])(tags, scores)
    with pytest.raises(ValueError, match="`sample_weight` must be one weight per row"):
        losses.CRF(transitions=transitions)(tags, scores, np.ones(tags.shape))
    with pytest.raises(ValueError, match="`token_loss` must be one of"):
        losses.CRF(token_loss="zlpr")
    with pytest.raises(TypeError, match="`token_loss` must be the name"):
        losses.CRF(token_loss=3)


def test_it_trains_a_model_that_is_not_ours():
    head = TagHead(TAGS, crf=True)
    states = keras.Input((5, 4))
    model = keras.Model(states, head([states], {}))
    model.compile("adam", loss=losses.CRF(transitions=lambda: head.transitions))
    x, y = np.random.rand(8, 5, 4), np.zeros((8, 5), int)
    before = head.transitions.numpy()
    assert np.isfinite(model.train_on_batch(x, y))
    assert (head.transitions.numpy() != before).any()
