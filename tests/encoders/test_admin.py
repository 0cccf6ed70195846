import keras
import numpy as np
import pytest
import tiny
from layer_cases import inputs

from bat_tf.encoders import AdminEncoder
from bat_tf.encoders.admin import next_ratio
from bat_tf.layers.normalization import LayerNorm

SMALL = {"d_model": 8, "d_ff": 16, "num_heads": 2, "num_layers": 2}


def build(**settings):
    keras.utils.set_random_seed(1)
    encoder = AdminEncoder(20, **{**SMALL, **settings})
    encoder.build(None)
    return encoder


def scales(encoder):
    """ω of all sub-layers: [sub-layers, d_model]."""
    return np.array([w.numpy() for block in encoder.blocks for w in block.shortcuts])


def tagger():
    model = tiny.tagger(encoder="admin", compiled=False)
    model.compile(keras.optimizers.SGD(0.0), loss="ce")
    return model


def test_parameters_are_those_of_the_comparison():
    encoder = AdminEncoder(50)
    encoder.build(None)
    assert encoder.count_params() + 3 * 129 - 50 * 128 == 794_499


def test_profile_equals_the_oracle(vectors):
    case = vectors["layers/admin_profile"]
    x = np.array(case["inputs"]["x"], "f4")
    real, norm, ratio = np.ones(x.shape[:2], bool), LayerNorm(), 1.0
    for matrix, omega in zip(
        np.array(case["inputs"]["mats"], "f4"), case["expected"]["omega"], strict=True
    ):
        assert abs(ratio - omega) < 2e-5 * max(1, omega)
        change = np.maximum(x @ matrix, 0)
        shortcut = ratio * x
        ratio = next_ratio(shortcut, change, real)
        x = np.array(norm(shortcut + change))


def test_profile_sets_growing_scales():
    encoder = build()
    assert encoder.needs_profile
    ratios = encoder.profile(inputs(9, 6, 3))
    assert not encoder.needs_profile
    assert ratios[0] == 1 and np.all(np.diff(ratios) > 0)
    np.testing.assert_allclose(scales(encoder), np.repeat([ratios], 8, 0).T, rtol=1e-6)


def test_profile_is_of_the_pass_that_training_makes():
    encoder, batch = build(), inputs(9, 6, 3)
    ratios, x = encoder.profile(batch), encoder.embedding(batch)
    real = batch["padding_mask"]
    for number, (omega, part, norm) in enumerate(
        sublayer for block in encoder.blocks for sublayer in block.sublayers()
    ):
        assert abs(ratios[number] - float(omega[0])) < 1e-6
        change = np.array(part(x, real, False))
        shortcut = np.array(x) * ratios[number]
        if number + 1 < len(ratios):
            total = np.var(shortcut[real]) + np.var(change[real])
            np.testing.assert_allclose(ratios[number + 1], total**0.5, rtol=1e-5)
        x = norm(shortcut + change)
    np.testing.assert_allclose(encoder(batch)[-1], x, atol=1e-5)


@pytest.mark.parametrize("extra", [1, 16])
def test_padding_changes_no_profile(extra):
    encoder, batch = build(), inputs(9, 3, 1)
    longer = {name: np.pad(part, [(0, 0), (0, extra)]) for name, part in batch.items()}
    np.testing.assert_allclose(
        encoder.profile(batch), encoder.profile(longer), rtol=1e-5
    )


def test_without_data_the_scale_follows_from_the_depth():
    encoder = build(num_layers=4, initialization="data-free")
    np.testing.assert_allclose(scales(encoder), 1.759567, rtol=1e-6)
    assert not encoder.needs_profile


def test_half_precision_is_profiled_in_full():
    batch = inputs(9, 6, 3)
    half, full = (
        build(dtype=dtype).profile(batch) for dtype in ("mixed_float16", "float32")
    )
    np.testing.assert_allclose(half, full, rtol=1e-2)


@pytest.mark.slow
def test_fit_profiles_once_even_if_resumed_or_reloaded(tmp_path, monkeypatch):
    calls, profile, data = [], AdminEncoder.profile, tiny.dataset(8)

    def counted(self, batch):
        calls.append(profile(self, batch))
        return calls[-1]

    monkeypatch.setattr(AdminEncoder, "profile", counted)

    def fit(model, epochs):
        folder = str(tmp_path / "backup")
        backup = keras.callbacks.BackupAndRestore(folder, delete_checkpoint=False)
        model.fit(data, epochs=epochs, verbose=0, callbacks=[backup])
        expected = np.repeat([calls[0]], 16, 0).T
        np.testing.assert_allclose(scales(model.encoder), expected, rtol=1e-6)

    first, resumed = tagger(), tagger()
    fit(first, 1)
    fit(first, 2)
    fit(resumed, 3)
    first.save(tmp_path / "first.keras")
    fit(keras.saving.load_model(tmp_path / "first.keras"), 0)
    assert len(calls) == 1


def test_callback_serves_other_models():
    batch = inputs(9, 6, 3)
    for x in (batch, [(batch, None)]):
        encoder = build()
        encoder.profiling(x, batch_size=3).on_train_begin()
        assert not encoder.needs_profile
    with pytest.raises(ValueError, match=r"not what is read only once.*profile"):
        build().profiling(iter([batch])).on_train_begin()


def test_wrong_settings_are_explained():
    with pytest.raises(ValueError, match="`initialization` must be one of 'profile'"):
        build(initialization="zeros")
