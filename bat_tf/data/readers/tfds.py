"""tensorflow-datasets: read any text set of it, or make one of your own files."""

import contextlib
import re
import sys

import numpy as np

from bat_tf._internal.validation import import_optional, sentence
from bat_tf.data.dataset import Example, Span, TextDataset
from bat_tf.data.readers.tag_schemes import find_scheme, parse_tag, tags_to_spans
from bat_tf.data.scripts import join_tokens

# Names under which sets keep what we look for, the likeliest first.
_TEXTS = ("text", "comment_text", "tokens", "words", "sentence", "document", "content")
_LABELS = ("spans", "labels", "label", "ner", "ner_tags", "tags", "topics", "category")
_OTHER_NAMES = {"valid": "validation", "validation": "valid"}


def iter_tfds(
    source,
    split="train",
    *,
    text=None,
    labels=None,
    data_dir=None,
    download=True,
):
    """Yields the examples of a text set of tensorflow-datasets.

    The features are found out where they are not named. Labels may be one class or a
    list of classes, strings, or one truth value per label (as in goemotions). Where the
    text is a list of tokens, the labels are their tags and become spans (as in TFDS's
    conll2003); tokens are joined by blanks.

    Args:
        source: the `Source` "tfds:goemotions", "tfds:xnli/en" …, with the config after
            a slash.
        split: a split of the set, or a slice such as "train[:10%]". "valid" and
            "validation" are taken for each other.
        text: the feature that holds the text or its tokens.
        labels: the feature that holds labels, tags or spans; or a list of features with
            one truth value (or number from 0 to 1) each, whose names are the labels.
        data_dir: the folder of the prepared sets; None for TFDS's own.
        download: whether to download and prepare a set that is not there yet.

    Yields:
        `Example`s, in the order of the files.

    Example:
        >>> import tempfile
        >>> data = TextDataset([Example("red shoes", spans=[(4, 9, "product")])])
        >>> folder = tempfile.mkdtemp()
        >>> builder = build_tfds("shop", {"train": data}, folder)
        >>> from bat_tf.data import read
        >>> read("tfds:shop", data_dir=folder)[0].spans
        (Span(start=4, end=9, kind='product'),)
    """
    tfds, name = _import_tfds(), str(source.path).removeprefix("tfds:")
    builder = _prepare(tfds, name, data_dir, download)
    split = _find_split(builder, name, split)
    text, labels = _find_features(tfds, builder.info, text, labels)
    config = tfds.ReadConfig(interleave_cycle_length=1)  # keeps the order of the files
    rows = tfds.as_numpy(builder.as_dataset(split=split, read_config=config))
    make = _example_maker(tfds, builder.info, text, labels, rows)
    for number, row in enumerate(rows, 1):
        with source.at(number, f"tfds:{name}, {split}"):
            yield make(row)


def build_tfds(name, splits, data_dir=None, *, version="1.0.0", description=""):
    """Makes a set of tensorflow-datasets of data sets that you have.

    Afterwards `read("tfds:name", split, data_dir=…)` and `tfds.load` know it.

    Args:
        name: its name: small letters, digits and underscores.
        splits: what each split holds, `{"train": read("train.jsonl"), …}`:
            `TextDataset`s, all with spans or all with labels.
        data_dir: the folder of prepared sets; None for TFDS's own.
        version: raise it to make the set anew.
        description: what the set is, for people.

    Returns:
        The `tfds.core.GeneratorBasedBuilder`, prepared.

    Example:
        >>> import tempfile
        >>> data = TextDataset([Example("A goal", labels=["sport"])])
        >>> builder = build_tfds("news", {"train": data}, tempfile.mkdtemp())
        >>> builder.info.splits["train"].num_examples
        1
    """
    tfds = _import_tfds()
    if not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise ValueError(
            sentence("name", "small letters, digits and underscores", name)
        )
    sets = list(splits.values())
    tasks = {data.task if isinstance(data, TextDataset) else None for data in sets}
    if len(tasks) != 1 or None in tasks:
        raise ValueError(
            "`splits` must hold data sets that are not empty, all with spans or all "
            f"with labels. Received: {splits}. `read(path)` makes one of a file."
        )
    builder = tfds.dataset_builders.AdhocBuilder(
        name=name,
        version=version,
        features=_own_features(tfds, tasks.pop()),
        split_datasets={split: _own_rows(data) for split, data in splits.items()},
        data_dir=data_dir,
        description=description or f"{name}, written by bat_tf.",
        disable_shuffling=True,
    )
    if builder.is_prepared():
        raise FileExistsError(
            f"{builder.data_dir} holds this set already and stays as it is. "
            "Raise `version`, or delete that folder."
        )
    _download_and_prepare(builder)
    return builder


def _own_features(tfds, task):
    string = tfds.features.Text()
    span = {"start": np.int32, "end": np.int32, "kind": string}
    target = tfds.features.Sequence(span if task == "spans" else string)
    return tfds.features.FeaturesDict({"id": string, "text": string, task: target})


def _own_rows(data):
    for index, example in enumerate(data):
        row = {"id": example.id or "", "text": example.text}
        if data.task == "spans":
            row["spans"] = [span._asdict() for span in example.spans]
        else:
            row["labels"] = list(example.labels)
        yield index, row


def _import_tfds():
    return import_optional(
        "tensorflow_datasets", "tfds", "A set of tensorflow-datasets"
    )


def _prepare(tfds, name, data_dir, download):
    try:
        builder = tfds.builder(name, data_dir=data_dir)
    except tfds.core.DatasetNotFoundError:
        where = f" or in {data_dir}" if data_dir else ""
        raise ValueError(
            f"There is no set {name!r} in tensorflow-datasets{where}. "
            "`tensorflow_datasets.list_builders()` lists the names; a set that you "
            "built yourself needs the `data_dir` you built it in."
        ) from None
    if not builder.is_prepared():
        if not download:
            raise FileNotFoundError(
                f"The set {name!r} is not prepared in {builder.data_dir}. "
                "Pass download=True, or the `data_dir` in which it is."
            )
        try:
            _download_and_prepare(builder)
        except OSError as error:
            raise OSError(
                f"tensorflow-datasets could not prepare {name!r} ({error}). Prepare it "
                "on a machine with a network and pass its `data_dir`."
            ) from error
    return builder


def _download_and_prepare(builder):
    # TFDS reports on stdout, where the caller's own output goes.
    with contextlib.redirect_stdout(sys.stderr):
        builder.download_and_prepare()


def _find_split(builder, name, split):
    known = list(builder.info.splits)
    base, bracket, rest = split.partition("[")
    other = _OTHER_NAMES.get(base)
    if base not in known and other in known:
        return other + bracket + rest
    if known and base not in (*known, "all") and "+" not in base:
        expected = f"a split of {name}: {', '.join(known)}"
        raise ValueError(sentence("split", expected, split))
    return split


def _string(value):
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def _form(tfds, feature):
    """What a feature holds: text(s), class(es), span(s), truth, or None for others."""
    types = tfds.features
    if isinstance(feature, types.Sequence):
        inner = _form(tfds, feature.feature)
        return {"text": "texts", "class": "classes", "span": "spans"}.get(inner)
    if isinstance(feature, types.FeaturesDict):
        return "span" if {"start", "end", "kind"} <= set(feature.keys()) else None
    if isinstance(feature, types.ClassLabel):
        return "class"
    if isinstance(feature, types.Text):
        return "text"
    scalar = isinstance(feature, types.Tensor) and feature.shape == ()
    return "truth" if scalar and np.dtype(feature.np_dtype) == np.bool_ else None


def _find_features(tfds, info, text, labels):
    """Returns the feature of the text, and that of the labels or a list of them."""
    forms = {name: _form(tfds, feature) for name, feature in info.features.items()}
    supervised = [key for key in info.supervised_keys or () if isinstance(key, str)]
    likely = [*supervised[:1], *_TEXTS]
    text = _choose("text", forms, text, likely, ("text", "texts"))
    others = {name: form for name, form in forms.items() if name != text}
    if isinstance(labels, list | tuple):
        for name in labels:
            _choose("labels", dict.fromkeys(others, "any"), name, [], ["any"])
        return text, list(labels)
    likely = [*supervised[1:], *_LABELS]
    truths = sorted(name for name, form in others.items() if form == "truth")
    if labels is None and len(truths) > 1 and not set(likely) & set(others):
        return text, truths
    wanted = ("spans", "classes", "class", "texts", "text")
    return text, _choose("labels", others, labels, likely, wanted)


def _choose(argument, forms, given, likely, wanted):
    """The feature given, or the likeliest by name, or the only one of a wanted form."""
    fitting = [name for name, form in forms.items() if form in wanted]
    names = [given] if given else [*likely, *(fitting if len(fitting) == 1 else [])]
    for name in names:
        if name in fitting:
            return name
    expected = f"the name of the feature that holds the {argument}"
    remedy = f"The set has: {', '.join(sorted(forms))}."
    raise ValueError(sentence(argument, expected, given, remedy))


def _example_maker(tfds, info, text, labels, rows):
    """Returns the function that makes an example of a row."""
    features = dict(info.features.items())
    decode = _decoder(tfds, features, labels)
    task = "labels"
    if isinstance(labels, str) and _form(tfds, features[labels]) == "spans":
        task = "spans"

    def from_text(row):
        source = _string(row["id"]) if _form(tfds, features.get("id")) == "text" else ""
        return Example(_string(row[text]), **{task: decode(row)}, id=source or None)

    def from_tokens(row):
        tokens, tags = [_string(token) for token in row[text]], decode(row)
        if len(tokens) != len(tags):
            raise ValueError(f"{len(tokens)} tokens, but {len(tags)} tags.")
        spans = tags_to_spans([parse_tag(tag, scheme) for tag in tags])
        joined, spans = join_tokens(tokens, spans, " ")
        return Example(joined, spans=spans)

    if _form(tfds, features[text]) != "texts":
        return from_text
    scheme = find_scheme(decode(row) for row in rows)
    return from_tokens


def _decoder(tfds, features, labels):
    """Returns the function that gets a row's labels, tags or spans."""
    if isinstance(labels, list):
        return lambda row: tuple(name for name in labels if row[name] >= 0.5)
    feature = features[labels]
    form = _form(tfds, feature)
    if form == "spans":
        return lambda row: _spans(row[labels])
    if form == "classes":
        names = feature.feature.names
        return lambda row: tuple(names[index] for index in row[labels])
    if form == "class":  # a text without a label has -1
        names = feature.names
        return lambda row: (names[row[labels]],) if row[labels] >= 0 else ()
    if form == "texts":
        return lambda row: tuple(_string(value) for value in row[labels])
    return lambda row: tuple(filter(None, [_string(row[labels])]))


def _spans(columns):
    rows = zip(columns["start"], columns["end"], columns["kind"], strict=True)
    return [Span(start, end, _string(kind)) for start, end, kind in rows]
