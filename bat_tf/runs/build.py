"""Settings → the compiled model: the one place of `runs` that knows models."""

import functools
import inspect
from pathlib import Path

import keras

from bat_tf import encoders, losses
from bat_tf._internal.registry import arguments as class_arguments
from bat_tf._internal.validation import check_choice, sentence
from bat_tf.heads.combine import Average
from bat_tf.metrics import LabelReport
from bat_tf.models import BATTagger, ExpertClassifier, LabelClassifier
from bat_tf.models.load import load
from bat_tf.models.svm import SVMClassifier
from bat_tf.text import TextTokenizer
from bat_tf.training import VAT, RDrop, optimizers

MODELS = {
    "tagger": BATTagger,
    "classifier": LabelClassifier,
    "experts": ExpertClassifier,
    "svm": SVMClassifier,
}
# What a run does unless its settings say otherwise.
DEFAULTS = {
    "spans": {
        "loss": "ce",
        "monitor": "val_token_macro_f2",
        "metrics": ["token_macro_f1", "token_macro_f2", "span_f1"],
    },
    "labels": {
        "loss": "zlpr",
        "monitor": "val_micro_f1",
        "metrics": ["micro_f1", "macro_f1", "average_precision"],
    },
}
# Settings of the heads that are arguments of objects → those arguments.
AVERAGE = {"averaging": "of", "mode": "loss"}
AVERAGE |= {name: name for name in ("diversity", "diversity_start_epoch")}
TERMS = ("r_drop", "vat", "vat_radius")
MORE_HEADS = {"tagger": (), "classifier": TERMS, "experts": (*AVERAGE, *TERMS)}
# Arguments that the data decide, or that are settings under another name.
_ELSEWHERE = {
    "heads": (
        *("labels", "scheme", "overlap", "max_length", "head_dropout"),
        *("combine", "consistency"),
    ),
    "encoder": ("name", "dtype", "vocabulary_size", "feature_sizes", "backbone"),
    "loss": ("name", "reduction", "dtype", "targets", "transitions"),
    "text": (),
    "report": ("label_counts", "targets", "data"),
}


def arguments(settings):
    """The arguments that the parts which settings name may have, by group."""
    kind = MODELS[settings.model]
    known = {"text": _keywords(TextTokenizer), "report": []}
    if settings.task == "labels":
        known["report"] = ["metrics", *_keywords(LabelReport.of_chunks)]
    if settings.model == "svm":
        known["heads"] = _keywords(kind)
    else:
        known["heads"] = [*_keywords(kind.for_data), *MORE_HEADS[settings.model]]
        known["encoder"] = _named(encoders, settings.encoder.name, "encoder.name")
        known["loss"] = _named(losses, settings.loss.name, "loss.name")
    return {
        group: [name for name in dict.fromkeys(names) if name not in _ELSEWHERE[group]]
        for group, names in known.items()
    }


@functools.cache
def _keywords(function):
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]


def _named(room, name, path):
    """Arguments of the encoder or loss of a name."""
    registry = room._NAMES
    name = check_choice(path, str(name).lower(), list(registry))
    return list(class_arguments(registry[name][0]))


def build(settings, train, labels=None):
    """The compiled model of a run.

    Args:
        settings: `Settings`.
        train: what it learns from.
        labels: a `LabelSpace`; None counts those of `train`.
    """
    if settings.continue_from:
        model = earlier_model(settings)
    else:
        model = new_model(settings, train, labels)
    steps = num_steps(settings, train)
    model.compile(
        optimizer=build_optimizer(settings, model.encoder.d_model, steps),
        loss=model.named_loss(settings.loss.name, **settings.loss.settings),
        metrics=settings.scores.metrics or DEFAULTS[settings.task]["metrics"],
        train_metrics=settings.scores.train_metrics,
        jit_compile=settings.budget.jit_compile,
    )
    return model


def earlier_model(settings):
    """The model that a run goes on with, as training left it."""
    path = Path(settings.continue_from)
    full = path / "full.keras"
    model = load(full if full.exists() else path)
    if model.exported or type(model) is not MODELS[settings.model]:
        kind = MODELS[settings.model].__name__
        remedy = f"Say which model it is with `model`, one of {', '.join(MODELS)}."
        expected = f"a {kind} that is no export"
        raise ValueError(sentence("continue_from", expected, str(path), remedy))
    return model


def new_model(settings, train, labels=None):
    """The model of a run, not compiled."""
    encoder, heads, text = settings.encoder, settings.heads, settings.text
    if settings.model == "svm":
        return SVMClassifier.for_data(train, labels=labels, **heads.settings)
    own = {"dtype": encoder.precision, **encoder.settings}
    if encoder.backbone:
        own["backbone"] = encoder.backbone
    if encoder.backbone and encoder.name != "bert":
        folder = encoders.backbone_folder(encoder.backbone)
        own["backbone"] = encoders.Backbone(
            encoders.BertEncoder.from_folder(folder),
            encoder.backbone_states,
            trainable=encoder.backbone_trainable,
        )
    own |= {"max_length": text.max_length, "head_dropout": heads.dropout}
    own |= head_arguments(settings)
    if settings.task == "spans":
        own |= {"scheme": text.scheme, "overlap": text.overlap}
    else:
        own["labels"] = labels
    tokenizer = build_tokenizer(settings)
    return MODELS[settings.model].for_data(train, encoder.name, tokenizer, **own)


def head_arguments(settings):
    """The settings of the heads as arguments of `for_data`."""
    own = dict(settings.heads.settings)
    more = {name: own.pop(name) for name in MORE_HEADS[settings.model] if name in own}
    if settings.model == "experts":
        own["combine"] = Average(**{AVERAGE[n]: more[n] for n in more if n in AVERAGE})
    terms = []
    if more.get("r_drop"):
        terms.append(RDrop(more["r_drop"]))
    if more.get("vat"):
        terms.append(VAT(more["vat"], more.get("vat_radius", 1.0)))
    return own | ({"consistency": terms} if terms else {})


def build_tokenizer(settings):
    """The tokenizer, without a vocabulary; None leaves it to the model."""
    text, backbone = settings.text, settings.encoder.backbone
    if backbone:
        folder = encoders.backbone_folder(backbone)
        return TextTokenizer.from_folder(folder, **text.settings)
    return text.tokenizer and TextTokenizer(text.tokenizer, **text.settings)


def num_steps(settings, train):
    """Optimizer steps of a whole run."""
    return settings.budget.epochs * -(-len(train) // settings.budget.batch_size)


def warmup_steps(settings, steps):
    """Steps until the rate's peak, of a run of so many steps."""
    own = settings.optimizer
    return own.warmup_steps or max(1, round(own.warmup_share * steps))


def build_optimizer(settings, d_model, steps):
    """The optimizer of a run of so many steps."""
    own, warmup = settings.optimizer, warmup_steps(settings, steps)
    if own.name == "bat":
        # The peak of equation 11 is (d S)^-1/2: keep the one that S = 4,000 has.
        return optimizers.bat_optimizer(
            d_model,
            own.schedule,
            warmup_steps=warmup,
            scale=own.schedule_scale * (warmup / 4000) ** 0.5,
            module_rates=own.module_rates,
        )
    rate = keras.optimizers.schedules.CosineDecay(
        0.0,
        max(1, steps - warmup),
        alpha=0.01,
        warmup_target=own.learning_rate,
        warmup_steps=warmup,
    )
    return optimizers.AdamW(
        rate,
        weight_decay=own.weight_decay,
        clipnorm=1.0,
        module_rates=own.module_rates,
    )
