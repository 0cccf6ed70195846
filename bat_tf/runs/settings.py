"""Settings of a run: the same nested form in Python, YAML, command line and results.

    model: classifier
    data: reuters21578                # short for {name: reuters21578}
    text: {tokenizer: words, min_count: 2}
    encoder: {name: bat, d_model: 64, num_layers: 1}
    heads: {words: true, thresholds: global}
    loss: db
    optimizer: {learning_rate: 0.001}
    budget: {epochs: 6, batch_size: 32}

Some groups name a part of the library: an encoder, a loss, a tokenizer, a model. What
else stands in such a group are arguments of that part. A dot reaches into a group:
`encoder.d_model`.
"""

import dataclasses
import difflib
import typing
from pathlib import Path

import yaml

from bat_tf._internal.validation import check_choice, check_number, sentence
from bat_tf.runs import build

OPTIMIZERS = ("bat", "adamw")
THRESHOLDS = ("none", "global", "by_count", "per_label")
SCHEMES = ("bio", "plain")
# The field of a group that holds the arguments of the part it names.
OPEN = "settings"


@dataclasses.dataclass
class Data:
    """The texts.

    Args:
        name: a named set, whose parts are then train, valid and test; or give files:
        parts: which part of the set serves as train, valid and test, if not those of
            the same names: `{"train": "train", "test": "valid"}`.
        train: file or named part to learn from.
        valid: to choose the best epoch on; None holds out a part of `train`.
        test: to report on at the end; never looked at before.
        valid_fraction: how much is held out; always the same texts.
        max_train: learn from so many texts at most, chosen at random; None from all.
        min_label_count: training texts that a label must have; the others are left out.
        options: of `bat_tf.data.read`, for all parts.
        label_texts: what labels mean whose names are codes: a JSON file, names → texts,
            or True for the texts of the named set; see `LabelSpace`.
        label_examples: whether what a label is called, or means, is also a text to
            learn from, see `TextDataset.of_labels`.
    """

    name: str | None = None
    parts: dict = dataclasses.field(default_factory=dict)
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    valid_fraction: float = 0.1
    max_train: int | None = None
    min_label_count: int = 1
    options: dict = dataclasses.field(default_factory=dict)
    label_texts: bool | str = False
    label_examples: bool = False


@dataclasses.dataclass
class Text:
    """How texts become tokens.

    Args:
        tokenizer: kind of tokens; None decides by the script of the texts. A backbone
            has its own.
        max_length: tokens that the model reads at a time.
        overlap: tokens that the windows of a longer text share, for spans.
        scheme: `"bio"` or `"plain"`, for spans.
        settings: other arguments of `TextTokenizer`.
    """

    tokenizer: str | None = None
    max_length: int = 256
    overlap: int = 32
    scheme: str = "bio"
    settings: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Encoder:
    """What turns tokens into states.

    Args:
        name: see `bat_tf.encoders.get`; `"bert"` is a backbone by itself.
        backbone: a pretrained model below it: a folder or a name, see
            `bat_tf.encoders.catalogue`; `"none"` where one would be found.
        backbone_states: which of its layers' states are read: `"mean"` of all, the
            `"last"`, or `"concat"`: all side by side.
        backbone_trainable: whether it learns, too.
        precision: a Keras dtype policy.
        cache: keep a frozen backbone's states instead of computing them every epoch; a
            folder keeps them for other runs too.
        settings: other arguments of the encoder: `d_model`, `num_layers` and so on.
    """

    name: str = "bat"
    backbone: str | None = None
    backbone_states: str = "mean"
    backbone_trainable: bool = False
    precision: str = "float32"
    cache: bool | str = False
    settings: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Heads:
    """What turns states into answers.

    Args:
        dropout: before the heads.
        thresholds: for labels, how those of the best model are fitted to the valid
            part: `"none"` keeps the loss's own; `"global"`, `"by_count"`, by how many
            training texts a label has, or `"per_label"`, see
            `bat_tf.thresholds.fit_threshold`.
        neighbours: training texts that vote in the answers of `model: experts`, see its
            `remember`; 0 is none.
        settings: other arguments of the model's `for_data`: `experts`, `pooling`,
            `words`, for spans `crf`, and so on; for `model: svm`, of `SVMClassifier`.
    """

    dropout: float = 0.0
    thresholds: str = "none"
    neighbours: int = 0
    settings: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Loss:
    """What is minimised.

    Args:
        name: see `bat_tf.losses.get`; None is `ce`, `crf` for heads with a CRF, or
            `zlpr` for labels.
        settings: other arguments of the loss.
    """

    name: str | None = None
    settings: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Optimizer:
    """How it is minimised.

    Args:
        name: `"bat"` is the paper's Adam under equation 11, `"adamw"` has weight decay,
            warm-up and cosine decay.
        learning_rate: peak rate of `"adamw"`.
        weight_decay: of `"adamw"`.
        module_rates: factors on the rate of parts of the model: `{"encoder": 0.1}`.
        schedule: named version of equation 11.
        schedule_scale: factor on its rate.
        warmup_steps: None is a share of all steps. Equation 11's rate is scaled so that
            its peak stays that of the paper's 4,000.
        warmup_share: that share; the paper's is 4,000 of 50,000 steps.
    """

    name: str = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    module_rates: dict = dataclasses.field(default_factory=dict)
    schedule: str = "v1"
    schedule_scale: float = 1.0
    warmup_steps: int | None = None
    warmup_share: float = 0.08


@dataclasses.dataclass
class Budget:
    """How long, and in what steps.

    Args:
        minutes: how long it may take: a rehearsal measures how many epochs fit, those
            below at most, and its answer takes the place of this; None for all of them.
        epochs: passes over the training part.
        batch_size: texts of a step.
        patience: epochs without a better one before training stops; None never.
        seed: decides weights, order and dropout.
        jit_compile: compile the step with XLA.
        backup_minutes: how often the state is kept inside an epoch, too; None never.
    """

    minutes: float | None = None
    epochs: int = 10
    batch_size: int = 16
    patience: int | None = None
    seed: int = 0
    jit_compile: bool = False
    backup_minutes: float | None = 10.0


@dataclasses.dataclass
class Scores:
    """What every epoch is scored by.

    Args:
        metrics: scores of the valid part by name; None is those of the task.
        monitor: the one that picks the best epoch; None is macro F2 of the tokens for
            spans, micro F1 for labels.
        train_metrics: whether the metrics are also taken of the training batches.
    """

    metrics: list | None = None
    monitor: str | None = None
    train_metrics: bool = True


@dataclasses.dataclass
class Settings:
    """Settings of a run.

    Args:
        model: `"tagger"` marks spans; `"classifier"`, `"experts"` and the baseline
            `"svm"` choose labels.
        data: see `Data`, and so on for the other groups.
        text: see `Text`.
        encoder: see `Encoder`.
        heads: see `Heads`.
        loss: see `Loss`.
        optimizer: see `Optimizer`.
        budget: see `Budget`.
        scores: see `Scores`.
        report: options of the reports on labels: `metrics`, `label_bounds` and so on,
            see `LabelReport.of_chunks`.
        continue_from: the folder of a run, or a .keras file, whose model goes on
            learning; what kind of model it is must be as there.
        baseline: whether a linear model is made as well: labels are blended with it,
            and the report shows it beside.
        ship: `"model"`, or `"baseline"` to keep that as the model of the run.
        output: the run's folder.
        cluster: a file with the workers that train together, or `"local"` for all GPUs
            of this host; None is what `TF_CONFIG` says. See `distributed.strategy`.
        worker: which of them this process is, from 0.

    Example:
        >>> settings = Settings.of(data="reuters21578", model="classifier")
        >>> settings.loss.name, settings.scores.monitor
        ('zlpr', 'val_micro_f1')
        >>> settings.changed(**{"encoder.d_model": 64}).encoder.settings
        {'d_model': 64}
        >>> try:
        ...     settings.changed(**{"encoder.d_modle": 64})
        ... except ValueError as error:
        ...     str(error)[:58]
        '`encoder.d_modle` is no setting, did you mean d_model? Set'
    """

    model: str = "tagger"
    data: Data = dataclasses.field(default_factory=Data)
    text: Text = dataclasses.field(default_factory=Text)
    encoder: Encoder = dataclasses.field(default_factory=Encoder)
    heads: Heads = dataclasses.field(default_factory=Heads)
    loss: Loss = dataclasses.field(default_factory=Loss)
    optimizer: Optimizer = dataclasses.field(default_factory=Optimizer)
    budget: Budget = dataclasses.field(default_factory=Budget)
    scores: Scores = dataclasses.field(default_factory=Scores)
    report: dict = dataclasses.field(default_factory=dict)
    continue_from: str | None = None
    baseline: bool = False
    ship: str = "model"
    output: str = "runs/model"
    cluster: str | None = None
    worker: int | None = None

    def __post_init__(self):
        check_choice("model", self.model, build.MODELS)
        usual = build.DEFAULTS[self.task]
        if self.encoder.backbone == "none":
            self.encoder.backbone = None
        crf = self.heads.settings.get("crf", False)
        self.loss.name = self.loss.name or ("crf" if crf else usual["loss"])
        self.scores.monitor = self.scores.monitor or usual["monitor"]
        self._check()

    def _check(self):
        if not self.data.name and not self.data.train:
            remedy = "Name a set, or a file to learn from as `data.train`."
            raise ValueError(sentence("data.name", "given", self.data.name, remedy))
        check_choice("optimizer.name", self.optimizer.name, OPTIMIZERS)
        check_choice("text.scheme", self.text.scheme, SCHEMES)
        check_choice("heads.thresholds", self.heads.thresholds, THRESHOLDS)
        check_choice("ship", self.ship, ("model", "baseline"))
        if self.loss.name == "crf" and not self.heads.settings.get("crf"):
            remedy = "It learns the transitions of `heads: {crf: true}`."
            expected = "another one for heads without a CRF"
            raise ValueError(sentence("loss.name", expected, "crf", remedy))
        number = self.heads.neighbours
        check_number("heads.neighbours", number, low=0, integer=True)
        experts = self.heads.settings.get("experts", ())
        if number and not any(str(name).startswith("D") for name in experts):
            remedy = "Name one, such as `heads: {experts: [D-4]}`."
            expected = "0 for a model without a document expert"
            raise ValueError(sentence("heads.neighbours", expected, number, remedy))
        if self.text.settings and not (self.text.tokenizer or self.encoder.backbone):
            remedy = f"It takes {', '.join(self.text.settings)}."
            raise ValueError(sentence("text.tokenizer", "given", None, remedy))
        for group, known in build.arguments(self).items():
            own = getattr(self, group)
            found = own if isinstance(own, dict) else own.settings
            for name in found:
                if name not in known:
                    raise _unknown(group, name, [*_fields(own), *known])

    @classmethod
    def of(cls, **values):
        """Builds settings from nested names and values, and checks them."""
        return from_values(cls, nested(values))

    @classmethod
    def load(cls, path, **changes):
        """Reads settings from a YAML file; `changes` win over what it says."""
        return cls.of(**merged(nested(read_yaml(path)), nested(changes)))

    def changed(self, **changes):
        """Settings with some changes: `changed(**{"encoder.d_model": 64})`."""
        return Settings.of(**merged(self.to_dict(), nested(changes)))

    def to_dict(self):
        """The settings as nested plain values."""
        return to_values(self)

    @property
    def task(self):
        """What the model does: `"spans"` or `"labels"`."""
        return "spans" if self.model == "tagger" else "labels"


GROUPS = {
    field.name: field.type
    for field in dataclasses.fields(Settings)
    if dataclasses.is_dataclass(field.type)
}


def read_yaml(path):
    """The names and values of a YAML file."""
    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold names and values, one a line.")
    return values


def nested(values):
    """Writes out what is short: dots in names, and a group that is only a name.

    >>> nested({"encoder.d_model": 64, "loss": "db"})
    {'encoder': {'d_model': 64}, 'loss': {'name': 'db'}}
    """
    found = {}
    for path, value in values.items():
        name, *inner = str(path).split(".")
        for key in reversed(inner):
            value = {key: value}
        if name in GROUPS and isinstance(value, str):
            value = {"name": value}
        found = merged(found, {name: value})
    return found


def merged(base, changes):
    """`base` with `changes`, also inside values that are dicts; `{}` clears them.

    >>> merged({"a": 1, "b": {"c": 2}}, {"b": {"d": 3}})
    {'a': 1, 'b': {'c': 2, 'd': 3}}
    """
    found = dict(base)
    for name, value in changes.items():
        old = base.get(name)
        inner = value and isinstance(value, dict) and isinstance(old, dict)
        found[name] = merged(old, value) if inner else value
    return found


def flat(values):
    """Nested settings as paths and values.

    >>> flat({"model": "svm", "data": {"name": "x", "parts": {"train": "a"}}})
    {'model': 'svm', 'data.name': 'x', 'data.parts': {'train': 'a'}}
    """
    found = {}
    for name, value in values.items():
        if name in GROUPS:
            found |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            found[name] = value
    return found


def differences(found, wanted, without=()):
    """In words, where settings are not what they should be.

    Args:
        found: `Settings`.
        wanted: `Settings`.
        without: paths that do not count.
    """
    found, wanted = flat(found.to_dict()), flat(wanted.to_dict())
    return [
        f"{path} {found.get(path)!r} instead of {wanted.get(path)!r}"
        for path in {**wanted, **found}
        if path not in without and found.get(path) != wanted.get(path)
    ]


def from_values(kind, values, group=""):
    """Builds a dataclass from nested plain values.

    What it has no field for goes into its field `settings`, if it has one.
    """
    fields, known, rest = _fields(kind), {}, {}
    for name, value in values.items():
        value = _plain(value)
        if name in fields:
            path = f"{group}.{name}" if group else name
            known[name] = _checked(fields[name], value, path)
        elif any(field.name == OPEN for field in dataclasses.fields(kind)):
            known[OPEN] = rest
            rest[name] = value
        else:
            raise _unknown(group, name, fields)
    return kind(**known)


def to_values(settings):
    """The opposite of `from_values`."""
    values = {}
    for name in _fields(settings):
        value = getattr(settings, name)
        is_group = dataclasses.is_dataclass(value)
        values[name] = to_values(value) if is_group else _plain(value)
    return {**values, **_plain(getattr(settings, OPEN, {}))}


def _fields(kind):
    """The names that stand in a group by themselves, and their types."""
    if not dataclasses.is_dataclass(kind):
        return {}
    return {f.name: f.type for f in dataclasses.fields(kind) if f.name != OPEN}


def _checked(kind, value, path):
    """A value of the type that a field has, or a sentence."""
    if dataclasses.is_dataclass(kind):
        if isinstance(value, dict):
            return from_values(kind, value, path)
        expected = "names and values"
    else:
        kinds = typing.get_args(kind) or (kind,)
        if type(value) is int and float in kinds:
            return float(value)
        if type(value) in kinds:
            return value
        names = ("nothing" if one is type(None) else one.__name__ for one in kinds)
        expected = f"of the type {' or '.join(names)}"
    raise ValueError(sentence(path, expected, value))


def _plain(value):
    """A value as YAML and JSON have it: no tuples, and nothing shared."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def _unknown(group, name, known):
    """The error of a name that does not exist."""
    path = f"{group}.{name}" if group else str(name)
    close = difflib.get_close_matches(str(name), map(str, known), 1)
    meant = f", did you mean {close[0]}" if close else ""
    what = f"Settings of `{group}`" if group else "Settings"
    known = ", ".join(dict.fromkeys(known))
    return ValueError(
        f"`{path}` is no setting{meant}{'?' if meant else '.'} {what}: {known}."
    )
