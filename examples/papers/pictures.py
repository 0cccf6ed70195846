"""Pictures of data and results, for reports."""

import re
from pathlib import Path

import numpy as np

from bat_tf.data import LabelSpace


def _matplotlib(purpose):
    """The package; by itself it does not bring its figures along."""
    try:
        import matplotlib.figure
    except ImportError as error:
        text = f"{purpose} needs matplotlib. Install it with: pip install matplotlib"
        raise ImportError(text) from error
    return matplotlib


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
    matplotlib = _matplotlib("plot_cooccurrence")
    if most < 2:
        raise ValueError(f"`most` must be an integer >= 2. Received: {most!r}.")
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
    picture = matplotlib.figure.Figure(figsize=(size + 1.2, size), layout="constrained")
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
    return _save(picture, path)


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
    matplotlib = _matplotlib("plot_groups")
    colours = matplotlib.colormaps["cividis"]
    picture = matplotlib.figure.Figure(figsize=(8, 3.6), layout="constrained")
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
    return _save(picture, path)


def _panels(matplotlib, count, height, **shared):
    """A picture and its panels [rows, columns], two in a row; the last may be empty."""
    columns = min(2, count)
    rows = -(-count // columns)
    size = (max(7.5, 5 * columns), height * rows)
    picture = matplotlib.figure.Figure(figsize=size, layout="constrained")
    grid = picture.subplots(rows, columns, squeeze=False, **shared)
    for axes in grid.flat[count:]:
        axes.set_axis_off()
    return picture, grid


# Okabe and Ito's colours, which colour-blind readers can tell apart; each series also
# has its own dashes and marker.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = "osD^vPX"


def plot_curves(panels, path, title, ylabel, names=None):
    """Draws scores by epoch: a panel for each group, a line for each of its series.

    Args:
        panels: title of a panel → (name of a series → values, one an epoch). A series
            has the same colour in all panels.
        path: the file; its ending says which format.
        title: above the picture.
        ylabel: of the first panel.
        names: of series, in the order of their colours, for pictures that are looked at
            together; those of this one by default.

    Returns:
        The path.
    """
    picture, grid = _panels(_matplotlib("plot_curves"), len(panels), 3.2, sharey=True)
    drawn = (name for panel in panels.values() for name in panel)
    names = list(dict.fromkeys((*(names or ()), *drawn)))
    shown = {}
    for axes, (panel, series) in zip(grid.flat, panels.items(), strict=False):
        for name, values in series.items():
            number = names.index(name) % len(COLOURS)
            (shown[name],) = axes.plot(
                range(1, len(values) + 1),
                100 * np.asarray(values),
                color=COLOURS[number],
                linestyle=DASHES[number],
                marker=MARKERS[number],
                markersize=4,
                markevery=max(1, len(values) // 10),
                linewidth=1.4,
            )
        axes.set_title(subscripts(panel), loc="left", fontsize=10)
        axes.set_xlabel("epoch")
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)
    for axes in grid[:, 0]:
        axes.set_ylabel(ylabel)
    # The first epochs would squeeze what differs at the end.
    low, high = grid[0, 0].get_ylim()
    grid[0, 0].set_ylim(max(low, high - 30), high)
    shown = {subscripts(name): shown[name] for name in names if name in shown}
    picture.legend(
        shown.values(), shown, loc="outside right center", fontsize=9, handlelength=3.5
    )
    picture.suptitle(title, x=0.01, ha="left", fontsize=11)
    return _save(picture, path)


def plot_points(panels, path, title, xlabel, ylabel):
    """Draws points, a colour for the first half of their names, a marker for the other.

    Args:
        panels: title of a panel → ((first name, second name) → (x, y)). Panels have
            scales of their own.
        path: the file; its ending says which format.
        title: above the picture.
        xlabel: of all panels.
        ylabel: of all panels.

    Returns:
        The path.
    """
    matplotlib = _matplotlib("plot_points")
    picture, grid = _panels(matplotlib, len(panels), 3.6)
    names = [name for points in panels.values() for name in points]
    colours = {n: COLOURS[i] for i, n in enumerate(dict.fromkeys(a for a, _ in names))}
    markers = {n: MARKERS[i] for i, n in enumerate(dict.fromkeys(b for _, b in names))}
    for axes, (panel, points) in zip(grid.flat, panels.items(), strict=False):
        for (first, second), (x, y) in points.items():
            style = {"color": colours[first], "marker": markers[second]}
            axes.scatter(x, y, s=45, alpha=0.85, **style)
        low = max(axes.get_xlim()[0], axes.get_ylim()[0])
        axes.axline((low, low), slope=1, color="0.6", linewidth=1, zorder=0)
        axes.set_title(panel, loc="left", fontsize=10)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        axes.grid(alpha=0.3)
    shown = [
        matplotlib.patches.Patch(color=colour, label=subscripts(name))
        for name, colour in colours.items()
    ]
    line = {"color": "0.4", "linestyle": ""}
    shown += [
        matplotlib.lines.Line2D([], [], marker=marker, label=name, **line)
        for name, marker in markers.items()
    ]
    picture.legend(handles=shown, loc="outside right center", fontsize=9)
    picture.suptitle(title, x=0.01, ha="left", fontsize=11)
    return _save(picture, path)


def plot_bars(bars, path, title, xlabels, marks=None):
    """Draws horizontal bars: a panel for each quantity, a bar for each name.

    Args:
        bars: name → values, one for each panel; None draws no bar.
        path: the file; its ending says which format.
        title: above the picture.
        xlabels: of the panels.
        marks: for each panel a (value, label) to draw a line at, or None.

    Returns:
        The path.
    """
    matplotlib = _matplotlib("plot_bars")
    height = 1.4 + 0.27 * len(bars)
    picture = matplotlib.figure.Figure(
        figsize=(4.6 * len(xlabels), height), layout="constrained"
    )
    grid = picture.subplots(1, len(xlabels), squeeze=False, sharey=True)[0]
    for number, (axes, xlabel) in enumerate(zip(grid, xlabels, strict=True)):
        values = [row[number] for row in bars.values()]
        places = np.arange(len(values))
        drawn = axes.barh(
            places, [value or 0 for value in values], color=COLOURS[number % 2]
        )
        texts = ["" if value is None else _number(value) for value in values]
        # Beside a bar the text would stand on the line of a mark.
        inside = {"label_type": "center", "color": "white"} if marks else {"padding": 3}
        axes.bar_label(drawn, texts, fontsize=8, **inside)
        missing = ["not run" if value is None else "" for value in values]
        axes.bar_label(drawn, missing, padding=3, fontsize=8)
        axes.set_yticks(places, [subscripts(name) for name in bars], fontsize=9)
        axes.set_xlabel(xlabel)
        axes.margins(x=0.2)
        axes.grid(axis="x", alpha=0.3)
        axes.set_axisbelow(True)
        if marks and marks[number]:
            value, label = marks[number]
            axes.axvline(value, color="black", linestyle="--", linewidth=1.2)
            axes.annotate(
                label,
                (value, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(2, 2),
                textcoords="offset points",
                fontsize=8,
            )
    grid[0].invert_yaxis()
    picture.suptitle(title, x=0.01, ha="left", fontsize=11)
    return _save(picture, path)


def subscripts(name):
    """A name as matplotlib sets it, with what is in braces below the line.

    >>> subscripts("PBP_{0,8}"), subscripts("12-layer")
    ('PBP$_{0,8}$', '12-layer')
    """
    return re.sub(r"_\{[^}]*\}", lambda found: f"${found[0]}$", name)


def _number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _save(picture, path):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path, dpi=110)
    return Path(path)
