import matplotlib.image
import pytest

from bat_tf.data import Example, TextDataset
from bat_tf.runs.tables import Spread
from examples.papers.pictures import cooccurrence, plot_cooccurrence, plot_groups


def documents(rows):
    return TextDataset([Example("text", labels=row) for row in rows], "news")


def test_cooccurrence_counts_pairs():
    data = documents([["corn", "grain"], ["corn", "grain", "usa"], ["usa"], []])
    labels, counts = cooccurrence(data)
    assert labels.names == ("corn", "grain", "usa")
    assert counts.toarray().tolist() == [[2, 2, 1], [2, 2, 1], [1, 1, 2]]


def test_pictures_are_written(tmp_path):
    data = documents([["corn", "grain"], ["usa", "[b]$x"]] * 3)
    path = plot_cooccurrence(data, tmp_path / "new" / "labels.png", most=3)
    assert matplotlib.image.imread(path).std() > 0.01
    spread = Spread.of([0.5, 0.6])
    scores = {f"{name} macro_f1": spread for name in ("head", "medium", "tail")}
    path = plot_groups({"BCE": scores, "DB": scores}, tmp_path / "groups.png", "news")
    assert matplotlib.image.imread(path).std() > 0.01


def test_labels_that_never_meet_are_no_picture(tmp_path):
    with pytest.raises(ValueError, match="No two labels of news meet"):
        plot_cooccurrence(documents([["corn"], ["usa"]]), tmp_path / "x.png")
    with pytest.raises(ValueError, match="`most` must be"):
        plot_cooccurrence(documents([["corn"]]), tmp_path / "x.png", most=1)
