import itertools
import json
import sys

import cases
import numpy as np
import pytest
import scipy.sparse
import sklearn.metrics
from label_cases import as_ids

import bat_tf
from bat_tf.metrics import LabelReport
from bat_tf.metrics.label_report import Group
from bat_tf.thresholds import Thresholds

NAMES = ["earn", "acq", "[crude]", "trade", "wheat", "corn"]
SPACE = bat_tf.LabelSpace(NAMES, counts=[400, 90, 35, 34, 9, 8], num_examples=500)


def data(rows=40, seed=0):
    random = np.random.default_rng(seed)
    labels = random.random((rows, 6)) < [0.5, 0.3, 0.3, 0.2, 0.1, 0.1]
    labels[:2] = False
    scores = labels * 2 - 1 + random.normal(0, 1, labels.shape)
    return np.round(scores, 1), labels


def f1(labels, chosen, average, zero_division=0.0):
    return sklearn.metrics.f1_score(
        labels, chosen, average=average, zero_division=zero_division
    )


def test_headline_numbers_are_those_of_scikit_learn():
    scores, labels = data()
    chosen = scores > 0.2
    report = LabelReport.of_scores(scores, labels, SPACE, 0.2, data="news")
    y = labels.astype(int)
    average_precision = sklearn.metrics.label_ranking_average_precision_score(y, scores)
    empty = (~labels.any(axis=1)).mean()  # 1 there, 0 here
    expected = {
        "micro_f1": f1(y, chosen, "micro"),
        "macro_f1": f1(y, chosen, "macro"),
        "subset_accuracy": sklearn.metrics.accuracy_score(y, chosen),
        "mlc_f1": f1(y, chosen, "samples", 1.0),
        "jaccard": sklearn.metrics.jaccard_score(
            y, chosen, average="samples", zero_division=1.0
        ),
        "average_precision": average_precision - empty,
        "ranking_loss": sklearn.metrics.label_ranking_loss(y, scores),
    }
    best = np.argsort(-scores, axis=1)
    for k in (1, 3, 5):
        hits = np.take_along_axis(y, best[:, :k], axis=1)
        expected[f"precision_at_{k}"] = hits.sum() / len(y) / k
    assert list(report.values) == list(expected)
    cases.close([*report.values.values()], [*expected.values()], 1e-6)
    table = sklearn.metrics.precision_recall_fscore_support(y, chosen, zero_division=0)
    found = [(s.precision, s.recall, s.f(), s.actual) for s in report.labels]
    cases.close(found, np.transpose(table), 1e-9)
    assert report.num_rows == 40 and report.threshold == 0.2


def test_vectors(vectors):
    case = vectors["metrics/multilabel"]
    inputs, expected = case["inputs"], case["expected"]
    report = LabelReport.of_scores(
        np.array(inputs["scores"]),
        np.array(inputs["y_true"], bool),
        label_counts=inputs["train_freq"],
    )
    for group, name in zip(report.label_groups, case["params"]["groups"], strict=True):
        assert group.name.startswith(name)
        assert group.size == len(case["params"]["groups"][name])
        cases.close(group.micro_f1, expected[f"micro_f1_{name}"], 1e-8)
        cases.close(group.macro_f1, expected[f"macro_f1_{name}"], 1e-8)
    values = report.values
    cases.close(values["average_precision"], expected["avg_precision_empty_zero"], 1e-6)
    cases.close(values["ranking_loss"], expected["ranking_loss_tie1"], 1e-6)
    one = LabelReport.of_scores(
        *(np.array(inputs["scores"]), np.array(inputs["y_true"], bool)),
        zero_division=1.0,
    )
    cases.close(one.values["macro_f1"], expected["macro_f1_zd1"], 1e-8)
    assert one.label_groups == [] and one.labels[8].name == "8"


def test_groups_of_documents_keep_all_labels():
    scores, labels = data()
    size = labels.sum(axis=1)
    report = LabelReport.of_scores(scores, labels, SPACE)
    names = ["no label", "1 label", "2 labels and more"]
    assert [group.name for group in report.row_groups] == names
    members = (size == 0, size == 1, size > 1)
    for group, rows in zip(report.row_groups, members, strict=True):
        part, chosen = labels[rows], scores[rows] > 0
        expected = Group(
            group.name, rows.sum(), f1(part, chosen, "micro"), f1(part, chosen, "macro")
        )
        assert group.size == expected.size
        cases.close(group.micro_f1, expected.micro_f1, 1e-9)
        cases.close(group.macro_f1, expected.macro_f1, 1e-9)
    report = LabelReport.of_scores(
        scores[size > 0], labels[size > 0], SPACE, row_bounds=(1, 3)
    )
    names = ["1 label", "2 to 3 labels", "4 labels and more"]
    assert [group.name for group in report.row_groups] == names
    assert sum(group.size for group in report.row_groups) == (size > 0).sum()


def test_chunks_and_every_shape_of_labels_are_the_same(monkeypatch):
    scores, labels = data()
    threshold = Thresholds(np.linspace(-0.5, 0.5, 6))
    expected = LabelReport.of_scores(scores, labels, SPACE, threshold)
    for same in (as_ids(labels), scipy.sparse.csr_array(labels, dtype=float)):
        assert LabelReport.of_scores(scores, same, SPACE, threshold) == expected
    cuts = [0, 7, 7, 30, 40]
    chunks = ((scores[a:b], labels[a:b]) for a, b in itertools.pairwise(cuts))
    assert LabelReport.of_chunks(chunks, SPACE, threshold) == expected
    monkeypatch.setattr("bat_tf._internal.numerics.MOST_SCORES", 50)
    assert LabelReport.of_scores(scores, labels, SPACE, threshold) == expected


def test_confused_pairs():
    chosen = np.zeros((4, 6), bool)
    labels = np.zeros((4, 6), bool)
    labels[:3, 4], chosen[:3, 5] = True, True  # wheat is taken for corn, three times
    labels[3, 0], chosen[3, 1] = True, True
    labels[3, 2], chosen[3, 2] = True, True  # right
    scores = np.where(chosen, 1.0, -1.0)
    report = LabelReport.of_scores(scores, labels, SPACE)
    assert report.confused == [("corn", "wheat", 3), ("acq", "earn", 1)]
    fewer = LabelReport.of_scores(scores, labels, SPACE, num_confused=1)
    assert fewer.confused == report.confused[:1]
    assert LabelReport.of_scores(scores, labels, SPACE, num_confused=0).confused == []


def test_choosing_everything_confuses_nothing():
    report = LabelReport.of_scores(np.ones((3, 300)), [[0], [1], [2]])
    assert report.confused == [] and report.values["micro_f1"] > 0


def test_without_a_threshold_only_the_order_is_reported(tmp_path):
    scores, labels = data()
    report = LabelReport.of_scores(scores, labels, SPACE, threshold=None)
    assert list(report.values)[:2] == ["average_precision", "ranking_loss"]
    whole = LabelReport.of_scores(scores, labels, SPACE)
    assert report.values.items() <= whole.values.items()
    assert not (report.labels or report.label_groups or report.row_groups)
    assert not report.confused and report.threshold is None
    assert "average_precision" in str(report) and "micro" not in str(report)
    with pytest.raises(ValueError, match="no F1 to draw.*threshold"):
        report.plot(tmp_path / "plot.png")


def test_text_and_json():
    report = LabelReport.of_scores(*data(), SPACE, data="news")
    text = str(report)
    for part in ("head (≥ 35)", "tail (≤ 8)", "1 label", "[crude]", "trained on"):
        assert part in text
    assert f"micro_f1 {100 * report.values['micro_f1']:.2f}" in text
    everything = json.loads(json.dumps(report.to_dict()))
    assert everything["labels"][0]["name"] == "earn"
    assert everything["label_counts"] == SPACE.counts.tolist()
    assert everything["label_groups"][2]["size"] == 1
    own = LabelReport.of_scores(*data(), SPACE, [0.0] * 6)
    assert json.loads(json.dumps(own.to_dict()))["threshold"] == [0.0] * 6


def test_long_lists_are_cut():
    text = str(LabelReport.of_scores(np.ones((3, 300)), [[0], [1], [2]]))
    assert "20 most frequent of 300" in text and len(text.splitlines()) < 60


def test_plot(tmp_path):
    for counts in (None, [0, 3, 9, 30, 200, 4000]):
        space = bat_tf.LabelSpace(NAMES, counts)
        report = LabelReport.of_scores(*data(), space, data="news")
        path = report.plot(tmp_path / "made" / "plot.png")
        assert path.read_bytes()[:4] == b"\x89PNG"


def test_plot_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    report = LabelReport.of_scores(*data(), SPACE)
    with pytest.raises(ImportError, match=r"bat-tf\[plots\]"):
        report.plot(tmp_path / "plot.png")


class TestSentences:
    @pytest.mark.parametrize(
        ("scores", "labels", "settings", "message"),
        [
            (np.zeros((2, 5)), np.zeros((2, 5)), {}, r"`scores`.*\[N, 6\].*\(2, 5\)"),
            (np.zeros((2, 6)), np.zeros((3, 6)), {}, "`labels`.*rows.*2.*3"),
            (np.zeros((2, 6)), np.zeros((2, 7)), {}, "`labels`.*6 labels"),
            (np.full((2, 6), np.nan), np.zeros((2, 6)), {}, "`scores`.*NaN"),
            (np.zeros((0, 6)), np.zeros((0, 6)), {}, "no documents to report on"),
            (*data(3), {"threshold": [1.0, 2.0]}, "`threshold`.*6 numbers"),
            (
                *data(3),
                {"label_counts": [1]},
                "`label_counts`.*6 numbers of training documents",
            ),
            (*data(3), {"label_bounds": (9, 3)}, "`label_bounds`"),
            (*data(3), {"row_bounds": (0, 3)}, "`row_bounds`.*from 1 on"),
        ],
    )
    def test_data_and_settings(self, scores, labels, settings, message):
        with pytest.raises(ValueError, match=message):
            LabelReport.of_scores(scores, labels, SPACE, **settings)

    def test_no_chunks(self):
        with pytest.raises(ValueError, match="no documents to report on"):
            LabelReport.of_chunks([], SPACE)


def test_labels_that_no_column_stands_for_count_as_missed():
    scores, truth = [[1.0, -1.0], [1.0, 1.0]], [[1, 0], [1, 1]]
    known = LabelReport.of_scores(scores, truth, ["a", "b"])
    report = LabelReport.of_scores(scores, truth, ["a", "b"], unknown={"c": 2})
    assert known.values["micro_f1"] == known.values["macro_f1"] == 1.0
    assert report.values["micro_f1"] == pytest.approx(2 * 3 / (3 + 5))
    assert report.values["macro_f1"] == pytest.approx(2 / 3)
    assert [(one.name, one.actual) for one in report.labels] == [
        *(("a", 2), ("b", 1)),
        ("c", 2),
    ]
