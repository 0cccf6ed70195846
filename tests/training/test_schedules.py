import cases
import keras
import numpy as np
import oracles
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from bat_tf.training.schedules import BATSchedule

VERSIONS = ["v1", "v2", "v3", "v3.1", "v4", "v4.1", "v5"]


def rates(schedule, steps):
    """Rates at steps counted from 1, as the paper counts."""
    return [float(schedule(step - 1)) for step in steps]


@pytest.mark.parametrize("version", VERSIONS)
def test_vectors(vectors, version):
    case = vectors["schedule/bat"]
    inputs = case["inputs"]
    schedule = BATSchedule.version(
        version, inputs["d_model"], warmup_steps=inputs["warmup"]
    )
    np.testing.assert_allclose(
        rates(schedule, inputs["steps"]), case["expected"][version], rtol=1e-6
    )


def test_printed_beta_of_v3_is_a_misprint(vectors):
    case = vectors["schedule/bat"]
    schedule = BATSchedule.version("v3", 128, beta=-1 / 22)
    np.testing.assert_allclose(
        rates(schedule, case["inputs"]["steps"]),
        case["expected"]["v3_seed_beta"],
        rtol=1e-6,
    )
    steps = np.arange(3700, 4100)
    assert steps[np.argmax(rates(schedule, steps))] == 3845
    assert steps[np.argmax(rates(BATSchedule.version("v3", 128), steps))] == 4000


@pytest.mark.parametrize("step", [1, 7, 999, 1000, 1001, 10**5, 10**7])
@pytest.mark.parametrize("alpha", [0.0, 6 / 13, 0.5, 1.0])
def test_float32_is_enough(step, alpha):
    schedule = BATSchedule(96, 1000, alpha=alpha, scale=0.3)
    expected = oracles.rate(step, 96, 1000, alpha, scale=0.3)
    np.testing.assert_allclose(rates(schedule, [step]), [expected], rtol=2e-6)


@pytest.mark.parametrize(
    "encoder, layers, warmup, divisor",
    [
        ("bat", 4, 4000, 1),
        ("transformer", 6, 4000, 1),
        ("bat", 12, 8000, 3),
        ("transformer", 12, 8000, 3),
        ("switch", 12, 8000, 3),
        ("bat", 24, 8000, 5),
        ("transformer", 24, 12000, 10),
        ("switch", 24, 8000, 10),
        ("admin", 24, 8000, 3),
        ("muse", 24, 8000, 3),
        ("performer", 24, 8000, 3),
        ("informer", 24, 8000, 3),
    ],
)
def test_depth(encoder, layers, warmup, divisor):
    schedule = BATSchedule.for_depth(encoder, layers, 128)
    expected = oracles.rate(warmup, 128, warmup, scale=1 / divisor)
    np.testing.assert_allclose(rates(schedule, [warmup]), [expected], rtol=1e-6)
    assert max(rates(schedule, [warmup - 1, warmup, warmup + 1])) == pytest.approx(
        expected
    )


def test_depth_and_version_can_be_overridden():
    assert BATSchedule.for_depth("bat", 24, 128, warmup_steps=50).warmup_steps == 50
    assert BATSchedule.version("v1", 128, scale=0.93).scale == 0.93


def test_in_compile_in_tensorboard_and_after_reload(tmp_path):
    schedule = BATSchedule.version("v2", 8, warmup_steps=3)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(schedule, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    model.compile(optimizer, "mse")
    x, y = np.ones((4, 2)), np.ones((4, 1))
    board = keras.callbacks.TensorBoard(tmp_path / "logs")
    model.fit(x, y, batch_size=2, epochs=3, callbacks=[board], verbose=0)
    # Two steps an epoch; what is logged is the rate of the step that comes next.
    events = EventAccumulator(str(tmp_path / "logs" / "train"))
    events.Reload()
    logged = [
        float(np.frombuffer(event.tensor_proto.tensor_content, "float32")[0])
        for event in events.Tensors("epoch_learning_rate")
    ]
    np.testing.assert_allclose(logged, rates(schedule, [3, 5, 7]), rtol=1e-6)

    model.save(tmp_path / "model.keras")
    fresh = keras.saving.load_model(tmp_path / "model.keras")
    # What Keras keeps is the schedule, not its last value.
    for kept in (model, fresh):
        assert float(kept.optimizer.learning_rate) == pytest.approx(logged[-1])
        kept.fit(x, y, batch_size=2, verbose=0)
    assert float(fresh.optimizer.learning_rate) == pytest.approx(
        oracles.rate(9, 8, 3, 6 / 11), 1e-6
    )
    np.testing.assert_array_equal(model.get_weights()[0], fresh.get_weights()[0])


def test_serialises():
    schedule = BATSchedule(128, 500, alpha=0.4, beta=0.1, scale=2.0)
    fresh = cases.round_trip(schedule)
    assert rates(fresh, [1, 500, 9000]) == rates(schedule, [1, 500, 9000])


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: BATSchedule(0), "`d_model` must be a number >= 1"),
        (lambda: BATSchedule(8, 0), "`warmup_steps` must be a number >= 1"),
        (lambda: BATSchedule(8, alpha=-0.5), "`alpha` must be a number >= 0"),
        (lambda: BATSchedule(8, scale="big"), "`scale` must be a number >= 0"),
        (lambda: BATSchedule.version("v6", 8), "'v4.1', 'v5'"),
        (lambda: BATSchedule.for_depth("bert", 12, 8), "'bat', 'transformer'"),
        (lambda: BATSchedule.for_depth("bat", 0, 8), "`num_layers` must be an integer"),
    ],
)
def test_bad_arguments_get_a_sentence(make, words):
    with pytest.raises(ValueError) as error:
        make()
    assert words in str(error.value)
