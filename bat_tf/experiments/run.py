"""One training run: its settings, its folder, and how it resumes.

A run's folder holds `settings.yaml` (enough to repeat it), `best.keras`,
`history.csv`, `epochs.json` (seconds), `logs/` for TensorBoard, `backup/` to continue
from, and `report.json`.
"""

import dataclasses
import json
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import keras
import yaml

from bat_tf import distributed, encoders, losses, optimizers, training
from bat_tf._validation import check_choice, check_number, sentence
from bat_tf.data import LabelSpace, TextDataset, label_texts, read, splits
from bat_tf.data.files import atomic_write, locked
from bat_tf.models import BATTagger, ExpertClassifier, LabelClassifier
from bat_tf.models.svm import SVMClassifier
from bat_tf.serving import load
from bat_tf.text import TextTokenizer

OPTIMIZERS = ("bat", "adamw")
THRESHOLDS = ("none", "global", "by-count", "per-label")
# What a run does unless its settings say otherwise.
TASKS = {
    "spans": {
        "model": BATTagger,
        "loss": "ce",
        "monitor": "val_token-macro-f2",
        "metrics": ["token-macro-f1", "token-macro-f2", "span-f1"],
    },
    "labels": {
        "model": LabelClassifier,
        "loss": "zlpr",
        "monitor": "val_micro-f1",
        "metrics": ["micro-f1", "macro-f1", "average-precision"],
    },
}
# Texts of a part on which experts are compared.
KL_TEXTS = 1000
# What may differ between the first call of a run and the one that continues it.
MAY_CHANGE = ("epochs", "patience", "output", "cluster", "worker")


@dataclasses.dataclass
class RunSettings:
    """Settings of a run; every field may stand in a YAML file.

    Args:
        task: `"spans"` trains a `BATTagger`, `"labels"` a `LabelClassifier`.
        data: a named set, whose parts are then train, valid and test; or give files:
        parts: which part of `data` serves as train, valid and test, if not those of the
            same names: `{"train": "train", "test": "valid"}`.
        train: file or named part to learn from.
        valid: to choose the best epoch on; None holds out a part of `train`.
        min_label_count: training texts that a label must have; the others are left out.
        valid_fraction: how much, where a set has no such part; always the same texts.
        test: to report on at the end; never looked at before.
        data_settings: options of `bat_tf.data.read` for all parts.
        label_texts: what labels mean whose names are codes: a JSON file, names → texts,
            or True for what comes with the set; see `LabelSpace`.
        label_examples: whether what a label is called, or means, is also a text to
            learn from, see `TextDataset.of_labels`.
        output: the run's folder.
        tokenizer: kind of tokens; None decides by the script of the texts. A backbone
            brings its own.
        tokenizer_settings: more settings of `TextTokenizer`.
        encoder: name of an encoder; for labels also `svm`, the baseline that has none.
        encoder_settings: its settings, `d_model`, `num_layers`, `backbone` and so on.
        model_settings: of the model's `for_data`: `head_dropout`, `max_length` and,
            by the task, `scheme` and `overlap`, or `pooling` and `words`. With
            `experts` the model is an `ExpertClassifier`.
        scheme: `"bio"` or `"plain"`, for spans.
        loss: a name, see `bat_tf.losses.get`; None is `ce`, or `zlpr` for labels.
        loss_settings: its settings.
        optimizer: `"bat"` is the paper's Adam under equation 11, `"adamw"` has weight
            decay, warm-up and cosine decay.
        learning_rate: peak rate of `"adamw"`.
        weight_decay: of `"adamw"`.
        module_rates: factors on the rate of parts of the model: `{"encoder": 0.1}`.
        schedule: named version of equation 11.
        schedule_scale: factor on its rate.
        warmup_steps: None is a share of all steps. Equation 11's rate is scaled so that
            its peak stays that of the paper's 4,000.
        warmup_share: that share; the paper's is 4,000 of 50,000 steps.
        epochs: passes over the training part.
        batch_size: texts of a step.
        seed: decides weights, order and dropout.
        metrics: scores of the valid part by name; None is those of the task.
        monitor: score of the valid part that picks the best epoch; None is macro F2 of
            the tokens for spans, micro F1 for labels.
        thresholds: for labels, what the best model's are fitted to the valid part by:
            `"none"` keeps the loss' own; `"global"`, `"by-count"`, by how many training
            texts a label has, or `"per-label"`, see `bat_tf.thresholds.fit_threshold`.
        neighbours: training texts that vote in the answers of an `ExpertClassifier`,
            see its `remember`; 0 is none.
        report_settings: of the reports on labels: `label_bounds` and so on, see
            `LabelReport.of_chunks`.
        train_metrics: whether the metrics are also taken of the training batches.
        patience: epochs without a better one before it stops; None never.
        cache_backbone: keep a frozen backbone's states instead of computing them every
            epoch; a folder keeps them for other runs too.
        jit_compile: compile the step with XLA.
        precision: a Keras dtype policy for the encoder.
        cluster: a file with the workers that train together, or `"local"` for all GPUs
            of this host; None is what `TF_CONFIG` says. See `distributed.strategy`.
        worker: which of them this process is, from 0.
    """

    task: str = "spans"
    data: str | None = None
    parts: dict = dataclasses.field(default_factory=dict)
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    valid_fraction: float = 0.1
    min_label_count: int = 1
    data_settings: dict = dataclasses.field(default_factory=dict)
    label_texts: bool | str = False
    label_examples: bool = False
    output: str = "runs/model"
    tokenizer: str | None = None
    tokenizer_settings: dict = dataclasses.field(default_factory=dict)
    encoder: str = "bat"
    encoder_settings: dict = dataclasses.field(default_factory=dict)
    model_settings: dict = dataclasses.field(default_factory=dict)
    scheme: str = "bio"
    loss: str | None = None
    loss_settings: dict = dataclasses.field(default_factory=dict)
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    module_rates: dict = dataclasses.field(default_factory=dict)
    schedule: str = "v1"
    schedule_scale: float = 1.0
    warmup_steps: int | None = None
    warmup_share: float = 0.08
    epochs: int = 10
    batch_size: int = 16
    seed: int = 0
    metrics: list | None = None
    monitor: str | None = None
    thresholds: str = "none"
    neighbours: int = 0
    train_metrics: bool = True
    report_settings: dict = dataclasses.field(default_factory=dict)
    patience: int | None = None
    cache_backbone: bool | str = False
    jit_compile: bool = False
    precision: str = "float32"
    cluster: str | None = None
    worker: int | None = None

    def __post_init__(self):
        check_choice("task", self.task, TASKS)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("thresholds", self.thresholds, THRESHOLDS)
        check_number("neighbours", self.neighbours, low=0, integer=True)
        experts = self.model_settings.get("experts", ())
        if self.neighbours and not any(str(name).startswith("D") for name in experts):
            remedy = "Name one, such as `model_settings: {experts: [D-4]}`."
            expected = "0 for a model without a document expert"
            raise ValueError(sentence("neighbours", expected, self.neighbours, remedy))
        self.loss = self.loss or TASKS[self.task]["loss"]
        self.monitor = self.monitor or TASKS[self.task]["monitor"]
        if not self.data and not self.train:
            remedy = "Name a set or a file to learn from."
            raise ValueError(sentence("data", "given, or `train`", self.data, remedy))

    @classmethod
    def load(cls, path, **changes):
        """Reads settings from a YAML file; `changes` win over what it says."""
        try:
            values = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is not YAML: {error}") from error
        if not isinstance(values, dict):
            raise ValueError(f"{path} must hold names and values, one a line.")
        return cls.of(**{**values, **changes})

    @classmethod
    def of(cls, **values):
        """Builds settings, with a clear word on names that do not exist."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            check_choice("setting", name, known)
        return cls(**values)

    def to_dict(self):
        """The settings as plain values."""
        return dataclasses.asdict(self)

    @property
    def scoring(self):
        """What scoring texts takes beside the texts."""
        kept = self.task == "labels" and isinstance(self.cache_backbone, str)
        return {"cache_backbone": self.cache_backbone} if kept else {}


class Task(NamedTuple):
    """What a run is about.

    Attributes:
        labels: `LabelSpace`, counted on the training part; None for spans.
        train: what is learnt from.
        valid: what the best epoch is chosen on.
        test: what is reported on; may be None.
    """

    labels: LabelSpace | None
    train: TextDataset
    valid: TextDataset
    test: TextDataset | None


def run(settings, verbose="auto"):
    """Trains a model as the settings say, or continues where a kill stopped it.

    Of several workers, the first one writes the folder and the report.

    Returns:
        The model of the best epoch and the report that is also in `report.json`; on
        workers but the first, the model of the last epoch and None.
    """
    if not settings.jit_compile:
        training.set_threads(settings.batch_size)
    # Workers find each other before anything else of TensorFlow runs.
    strategy = distributed.strategy(settings.cluster, settings.worker)
    if not distributed.is_chief(strategy):
        folder = Path(settings.output)
        task = read_task(settings)
        return _fitted(settings, strategy, task, folder, verbose), None
    folder = Path(settings.output)
    folder.mkdir(parents=True, exist_ok=True)
    # Two processes would take turns in writing its checkpoints.
    with locked(folder, "run"):
        _note_settings(settings, folder)
        return _reported(settings, strategy, folder, verbose)


def _reported(settings, strategy, folder, verbose):
    """Trains and reports, see `run`."""
    task = read_task(settings)
    report = {"settings": settings.to_dict()}
    started = time.perf_counter()
    if settings.encoder == "svm":
        model = SVMClassifier.for_data(
            task.train, labels=task.labels, **settings.model_settings
        )
        model.fit(task.train, validation_data=task.valid)
        report["best"] = {"epoch": 1}
    else:
        clock = EpochClock(folder / "epochs.json")
        _fitted(settings, strategy, task, folder, verbose, [clock])
        started -= clock.earlier
        model = _best(settings, task, folder, verbose)
        report["best"] = json.loads((folder / "best.json").read_text())
        steps = num_steps(settings, task.train)
        report["warmup_steps"] = warmup_steps(settings, steps)
        report["epoch_seconds"] = clock.median
    report["fit_seconds"] = round(time.perf_counter() - started, 1)
    report["model"] = model.describe()
    report["parameters"] = model.count_params()
    for name, part in (("valid", task.valid), ("test", task.test)):
        if part is not None:
            full = model.evaluate_report(
                part, **settings.scoring, **settings.report_settings
            )
            report[name] = full.to_dict()
            if isinstance(model, ExpertClassifier) and model.score_scale is not None:
                kl = model.disagreement(part.take(KL_TEXTS))
                report[name]["expert_kl"] = round(kl, 4)
    report["seconds"] = round(time.perf_counter() - started, 1)
    with atomic_write(folder / "report.json") as file:
        json.dump(report, file, indent=1)
    return model, report


class EpochClock(keras.callbacks.Callback):
    """Notes what the epochs of a run take, each with its validation.

    Args:
        path: JSON file that keeps them: number of an epoch → seconds. A run that goes
            on adds to it.
    """

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.seconds = json.loads(path.read_text()) if path.exists() else {}
        self._mine = set()

    def on_epoch_begin(self, epoch, logs=None):
        """Starts the clock."""
        self._started = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        """Notes the time."""
        seconds = round(time.perf_counter() - self._started, 3)
        self.seconds[str(epoch + 1)] = seconds
        self._mine.add(str(epoch + 1))
        with atomic_write(self.path) as file:
            json.dump(self.seconds, file)

    @property
    def earlier(self):
        """Seconds of the epochs that other processes ran."""
        return sum(s for epoch, s in self.seconds.items() if epoch not in self._mine)

    @property
    def median(self):
        """Seconds of an epoch; the first one, which compiles, counts if it is alone."""
        seconds = [self.seconds[epoch] for epoch in sorted(self.seconds, key=int)]
        counted = seconds[1:] or seconds
        return round(statistics.median(counted), 2) if counted else None


def _fitted(settings, strategy, task, folder, verbose, callbacks=()):
    """The model of the last epoch."""
    training.set_seed(settings.seed, deterministic=not settings.jit_compile)
    with distributed.lost_workers_named(strategy), strategy.scope():
        model = build(settings, task.train, task.labels)
    model.fit(
        task.train,
        validation_data=task.valid,
        batch_size=settings.batch_size,
        epochs=settings.epochs,
        seed=settings.seed,
        cache_backbone=settings.cache_backbone,
        callbacks=[
            *callbacks,
            *training.default_callbacks(folder, settings.monitor, settings.patience),
        ],
        verbose=verbose,
    )
    return model


def _best(settings, task, folder, verbose):
    """The model of the best epoch, with what is added when training is over."""
    best = load(folder)
    if settings.neighbours:
        best.remember(
            task.train, settings.neighbours, verbose=verbose, **settings.scoring
        )
    tunes = settings.task == "labels" and settings.thresholds != "none"
    if tunes:
        best.fit_thresholds(
            task.valid,
            per_label=settings.thresholds == "per-label",
            by_count=settings.thresholds == "by-count",
            **settings.scoring,
        )
    if tunes or settings.neighbours:
        training.save_model(best, folder / "best.keras")
    return best


def read_parts(settings):
    """The train, valid and test parts of a run; test may be None."""
    options = settings.data_settings
    if settings.data:
        names = settings.parts or {name: name for name in splits(settings.data)}
        parts = {
            use: read(settings.data, split=name, **options)
            for use, name in names.items()
        }
    else:
        names = ("train", "valid", "test")
        files = {name: getattr(settings, name) for name in names}
        parts = {name: read(file, **options) for name, file in files.items() if file}
    if "valid" not in parts:
        # Of one fixed seed: runs with different seeds are to be compared.
        parts["train"], parts["valid"] = parts["train"].split(
            settings.valid_fraction, seed=0
        )
    if settings.min_label_count > 1:
        common = LabelSpace.fit(
            parts["train"].labels, min_count=settings.min_label_count
        )
        parts = {name: part.keep_labels(common) for name, part in parts.items()}
    return parts["train"], parts["valid"], parts.get("test")


def read_label_texts(settings):
    """What the labels of a run mean, or None if they are called so."""
    if not settings.label_texts:
        return None
    if settings.label_texts is True:
        return label_texts(settings.data)
    path = Path(settings.label_texts)
    try:
        texts = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}.") from error
    if not isinstance(texts, dict):
        raise ValueError(f"{path} must hold an object: names of labels, and texts.")
    return texts


def read_task(settings):
    """The `Task` of a run."""
    train, valid, test = read_parts(settings)
    if settings.task == "spans":
        return Task(None, train, valid, test)
    labels = LabelSpace.fit(train.labels, texts=read_label_texts(settings))
    if settings.label_examples:
        train = train + TextDataset.of_labels(labels)
    return Task(labels, train, valid, test)


def build(settings, train, labels=None):
    """The compiled model of a run.

    Args:
        settings: `RunSettings`.
        train: what it learns from.
        labels: of a `Task`; None counts those of `train`.
    """
    tokenizer = settings.tokenizer
    backbone = settings.encoder_settings.get("backbone")
    if backbone:
        folder = encoders.backbone_folder(backbone)
        tokenizer = TextTokenizer.from_folder(folder, **settings.tokenizer_settings)
    elif tokenizer and settings.tokenizer_settings:
        tokenizer = TextTokenizer(tokenizer, **settings.tokenizer_settings)
    task = TASKS[settings.task]
    spans = settings.task == "spans"
    more = {"scheme": settings.scheme} if spans else {"labels": labels}
    kind = ExpertClassifier if "experts" in settings.model_settings else task["model"]
    model = kind.for_data(
        train,
        settings.encoder,
        tokenizer,
        **{"dtype": settings.precision, **settings.encoder_settings},
        **{**more, **settings.model_settings},
    )
    steps = num_steps(settings, train)
    counted = model.loss_settings(settings.loss)
    loss = losses.get(settings.loss, **{**counted, **settings.loss_settings})
    model.compile(
        optimizer=build_optimizer(settings, model.encoder.d_model, steps),
        loss=loss,
        metrics=settings.metrics or task["metrics"],
        train_metrics=settings.train_metrics,
        jit_compile=settings.jit_compile,
    )
    return model


def num_steps(settings, train):
    """Optimizer steps of a whole run."""
    return settings.epochs * -(-len(train) // settings.batch_size)


def warmup_steps(settings, steps):
    """Steps until the rate's peak, of a run of so many steps."""
    return settings.warmup_steps or max(1, round(settings.warmup_share * steps))


def build_optimizer(settings, d_model, steps):
    """The optimizer of a run of so many steps."""
    warmup = warmup_steps(settings, steps)
    if settings.optimizer == "bat":
        # The peak of equation 11 is (d S)^-1/2: keep the one that S = 4,000 has.
        scale = settings.schedule_scale * (warmup / 4000) ** 0.5
        return optimizers.bat_optimizer(
            d_model,
            settings.schedule,
            warmup_steps=warmup,
            scale=scale,
            module_rates=settings.module_rates,
        )
    rate = keras.optimizers.schedules.CosineDecay(
        0.0,
        max(1, steps - warmup),
        alpha=0.01,
        warmup_target=settings.learning_rate,
        warmup_steps=warmup,
    )
    return optimizers.AdamW(
        rate,
        weight_decay=settings.weight_decay,
        clipnorm=1.0,
        module_rates=settings.module_rates,
    )


def _note_settings(settings, folder):
    """Writes the settings into the run's folder, or checks that it is the same run."""
    path = folder / "settings.yaml"
    values = settings.to_dict()
    if path.exists():
        # Settings that are younger than the run had their defaults in it.
        old = RunSettings.load(path).to_dict()
        other = [
            f"{name} {old[name]!r} instead of {value!r}"
            for name, value in values.items()
            if name not in MAY_CHANGE and old[name] != value
        ]
        if other:
            raise ValueError(
                f"{folder} holds a run with other settings: {'; '.join(other)}. "
                "Choose another folder, or remove this one to start over."
            )
    with atomic_write(path) as file:
        yaml.safe_dump(values, file, sort_keys=False, allow_unicode=True)
