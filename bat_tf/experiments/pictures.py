"""Pictures of data and results, for reports."""

from pathlib import Path

import numpy as np

from bat_tf._validation import check_number, import_optional
from bat_tf.data.labels import LabelSpace


def cooccurrence(dataset, labels=None):
    """How often labels stand on the same text.

    Args:
        dataset: a `TextDataset` with labels.
        labels: a `LabelSpace`; that of the dataset by default.

    Returns:
        (labels, counts): the `LabelSpace` and a SciPy CSR array [L, L]; the diagonal
        has each label's own count.

    Example:
        >>> from bat_tf.data import Example, TextDataset
        >>> rows = [["corn", "grain"], ["grain"]]
        >>> data = TextDataset(Example("text", labels=row) for row in rows)
        >>> cooccurrence(data)[1].toarray().tolist()
        [[1, 1], [1, 2]]
    """
    labels = LabelSpace.fit(dataset.labels) if labels is None else labels
    rows = labels.csr(dataset.labels, unknown="skip").astype("int64")
    return labels, (rows.T @ rows).tocsr()


def plot_cooccurrence(dataset, path, most=40):
    """Draws the share of the texts of one label that have another one too.

    The labels shown are those that share most texts with others, the most frequent
    first.

    Args:
        dataset: a `TextDataset` with labels.
        path: the file; its ending says which format.
        most: how many labels are shown at most.

    Returns:
        The path.
    """
    figure = import_optional("matplotlib.figure", "plots", "plot_cooccurrence")
    check_number("most", most, low=2, integer=True)
    labels, counts = cooccurrence(dataset)
    own = counts.diagonal()
    shared = np.asarray(counts.sum(axis=1)).ravel() - own
    chosen = np.argsort(-shared, kind="stable")[:most]
    chosen = chosen[shared[chosen] > 0]
    if not len(chosen):
        raise ValueError(
            f"No two labels of {dataset.name or 'the data'} meet in a text."
        )
    chosen = chosen[np.argsort(-own[chosen], kind="stable")]
    share = counts[chosen][:, chosen].toarray() / own[chosen, None]
    np.fill_diagonal(share, np.nan)  # every label meets itself
    size = 1.5 + 0.2 * len(chosen)
    picture = figure.Figure(figsize=(size + 1.2, size), layout="constrained")
    axes = picture.add_subplot()
    axes.set_facecolor("0.85")
    image = axes.imshow(100 * share, cmap="viridis", vmin=0, vmax=100)
    names = [labels.names[index] for index in chosen]
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=8)
    counted = [f"{name} ({own[i]:,})" for name, i in zip(names, chosen, strict=True)]
    axes.set_yticks(range(len(names)), counted, fontsize=8)
    axes.set_ylabel("texts with this label …")
    axes.set_xlabel("… that have this one too")
    picture.colorbar(image, label="%", shrink=0.8)
    axes.set_title(f"{dataset.name}: labels that meet", loc="left", fontsize=10)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path, dpi=110)
    return Path(path)


def plot_groups(rows, path, title, groups=("head", "medium", "tail"), kind="macro_f1"):
    """Draws the scores of groups of labels side by side, a bar for each row.

    Args:
        rows: what `tables.summary` returns.
        path: the file; its ending says which format.
        title: above the picture.
        groups: names of the groups.
        kind: `"macro_f1"` or `"micro_f1"`.

    Returns:
        The path.
    """
    figure = import_optional("matplotlib", "plots", "plot_groups").figure
    colours = import_optional("matplotlib", "plots", "plot_groups").colormaps["cividis"]
    picture = figure.Figure(figsize=(8, 3.6), layout="constrained")
    axes = picture.add_subplot()
    width = 0.85 / len(rows)
    for number, (row, scores) in enumerate(rows.items()):
        found = [scores[f"{group} {kind}"] for group in groups]
        places = np.arange(len(groups)) + (number - (len(rows) - 1) / 2) * width
        axes.bar(
            places,
            [100 * score.mean for score in found],
            width,
            yerr=[100 * (score.deviation or 0) for score in found],
            error_kw={"linewidth": 0.8},
            color=colours(number / max(1, len(rows) - 1)),
            label=row,
        )
    axes.set_xticks(range(len(groups)), groups)
    axes.set_ylabel(f"{kind.replace('_', ' ')} (%)".replace("f1", "F1"))
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.legend(ncols=3, fontsize=8)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path, dpi=110)
    return Path(path)
