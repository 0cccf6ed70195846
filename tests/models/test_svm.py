import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import f1_score
from sklearn.svm import LinearSVC

from bat_tf.data import Example, LabelSpace, TextDataset, read
from bat_tf.models.svm import SVMClassifier

ROWS = [
    ("oil and gas prices rise", ["energy", "prices"]),
    ("gas pipeline and oil field", ["energy"]),
    ("heavy rain and wind", ["weather"]),
    ("wind and rain in may", ["weather"]),
    ("prices of bread rise", ["prices"]),
    ("nothing and nobody", []),
] * 3


def data(rows=ROWS):
    return TextDataset(Example(text, labels=labels) for text, labels in rows)


def test_it_learns_names_and_labels_texts():
    model = SVMClassifier.for_data(data())
    assert model.labels == LabelSpace.fit(data().labels) and model.unit == "words"
    assert model.fit(data()) is model and model.threshold == 0
    (found,) = model.label(["gas prices"])
    assert {name for name, _ in found} == {"energy", "prices"}
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True) and min(scores) > 0
    assert model.label("gas prices") == found
    assert model.label(["zzz", ""]) == [[], []] and model.label([]) == []


def test_scores_are_scikit_learns_decision_values():
    model = SVMClassifier.for_data(data(), ngrams=2, min_count=1, C=0.5).fit(data())
    features = TfidfVectorizer(
        sublinear_tf=True, ngram_range=(1, 2), token_pattern=r"\w+"
    )
    matrix = features.fit_transform(data().texts)
    texts = ["rain and prices", "oil"]
    scores = model.scores(texts)
    assert scores.shape == (2, 3) and scores.dtype == np.float32
    for label, name in enumerate(model.labels.names):
        target = [name in labels for labels in data().labels]
        machine = LinearSVC(C=0.5, random_state=0).fit(matrix, target)
        expected = machine.decision_function(features.transform(texts))
        np.testing.assert_allclose(scores[:, label], expected, rtol=1e-4, atol=1e-5)
    assert model.scores([]).shape == (0, 3)


def test_the_order_of_training_does_not_decide_and_a_second_fit_starts_anew():
    model = SVMClassifier.for_data(data()).fit(data())
    before = model.scores(["gas and rain"])
    other = data([("rain in may", ["prices"]), ("oil", ["energy"])] * 2)
    model.fit(other).fit(data())
    np.testing.assert_array_equal(model.scores(["gas and rain"]), before)


def test_labels_without_examples_and_labels_of_every_text():
    space = LabelSpace(["all", "none", "weather"])
    rows = [(text, ["all", *labels]) for text, labels in ROWS]
    model = SVMClassifier(space).fit(data(rows))
    scores = model.scores(["rain", "oil"])
    np.testing.assert_array_equal(scores[:, :2], [[1, -1], [1, -1]])
    assert scores[0, 2] > scores[1, 2]


def test_texts_without_blanks_are_read_by_characters():
    rows = [("天気は雨です", ["天気"]), ("石油の価格", ["経済"])] * 3
    model = SVMClassifier.for_data(data(rows), ngrams=2)
    assert model.unit == "characters"
    assert [name for name, _ in model.fit(data(rows)).label("明日は雨")] == ["天気"]


def micro_f1(truth, chosen):
    hits = (truth * chosen).sum()
    return 2 * hits / max(truth.sum() + chosen.sum(), 1)


def test_validation_data_shifts_the_hyperplane():
    model = SVMClassifier.for_data(data(), C=0.01).fit(data())
    truth = model.labels.multi_hot(data().labels)
    before = micro_f1(truth, model.scores(data().texts) > model.threshold)
    strange = data([*ROWS, ("oil", ["unheard of"])])
    model.fit(data(), validation_data=strange)
    assert model.threshold < 0
    assert micro_f1(truth, model.scores(data().texts) > model.threshold) > before


@pytest.mark.parametrize(
    "settings, reason",
    [
        ({"unit": "letters"}, "`unit` must be one of 'words', 'characters'"),
        ({"ngrams": 0}, "`ngrams` must be an integer >= 1"),
        ({"min_count": 0}, "`min_count` must be an integer >= 1"),
        ({"C": 0}, "`C` must be a number > 0"),
        ({"threshold": None}, "`threshold` must be a number"),
        ({"labels": []}, "`labels` must name one label at least"),
    ],
)
def test_bad_settings_are_sentences(settings, reason):
    with pytest.raises(ValueError, match=reason):
        SVMClassifier.for_data(data(), **settings)


def test_bad_data_are_sentences():
    spans = TextDataset([Example("hat", spans=[])])
    model = SVMClassifier.for_data(data())
    with pytest.raises(TypeError, match="`train` must be a TextDataset whose examples"):
        SVMClassifier.for_data(spans)
    with pytest.raises(TypeError, match="`train` must be a TextDataset"):
        model.fit(["text"])
    with pytest.raises(TypeError, match="`validation_data` must be a TextDataset"):
        model.fit(data(), validation_data=spans)
    with pytest.raises(RuntimeError, match="not fitted: call `fit` first"):
        model.label(["text"])
    for few in ([("one", ["weather"])], [("...", []), ("!", [])]):
        with pytest.raises(ValueError, match="no words that occur in 2 texts"):
            model.fit(data(few))
    with pytest.raises(TypeError, match="`texts` must be a list of strings"):
        model.fit(data()).scores("text")


@pytest.mark.slow
def test_reuters_is_near_the_published_row(data_folder):
    """S1 has 87.60 micro-F1 and 51.63 macro-F1; like it, 1,000 texts are set aside.

    Which ones moves macro-F1 a lot, since 28 labels have 8 training texts at most:
    seeds 0 to 3 give 47.8, 45.6, 44.3 and 46.1, at a micro-F1 of 87.8 to 88.2.
    """
    whole, test = read("reuters21578"), read("reuters21578", "test")
    train, valid = whole.split(1000 / len(whole), seed=0)
    model = SVMClassifier.for_data(train, labels=LabelSpace.fit(whole.labels))
    model.fit(train, validation_data=valid)
    truth = model.labels.multi_hot(test.labels)
    chosen = model.scores(test.texts) > model.threshold
    f1 = [
        100 * f1_score(truth, chosen, average=average, zero_division=0)
        for average in ("micro", "macro")
    ]
    np.testing.assert_allclose(f1, [88.2, 47.8], atol=0.5)


def test_a_report_takes_metrics_of_rankings_by_name():
    model = SVMClassifier.for_data(data()).fit(data())
    report = model.evaluate_report(data(), metrics=["precision_at_1", "psp_at_1"])
    scores, truth = model.scores(data().texts), model.labels.multi_hot(data().labels)
    hits = truth[np.arange(len(truth)), scores.argmax(axis=1)]
    assert report.values["precision_at_1"] == pytest.approx(hits.mean())
    assert 0 < report.values["psp_at_1"] <= 1


def test_the_cost_of_errors_is_searched_on_validation_data():
    valid = data([("oil", ["energy"]), ("may", ["weather"]), ("bread", ["prices"])])
    costs = [1e-4, 0.01, 10.0]
    found = SVMClassifier.for_data(data(), C=costs).fit(data(), valid)
    truth = found.labels.csr(valid.labels).toarray()
    scores = {}
    for cost in costs:
        one = SVMClassifier.for_data(data(), C=cost).fit(data(), valid)
        chosen = one.scores(valid.texts) > one.threshold
        scores[cost] = f1_score(truth, chosen, average="micro")
        if cost == found.C:
            np.testing.assert_array_equal(found.weights, one.weights)
            assert found.threshold == one.threshold
    assert found.C == max(costs, key=scores.get) and found.describe()["C"] == found.C
    with pytest.raises(ValueError, match="`validation_data` must be .* several `C`"):
        SVMClassifier.for_data(data(), C=costs).fit(data())
    for wrong in ([], [1.0, 0]):
        with pytest.raises(ValueError, match="`C` must be"):
            SVMClassifier.for_data(data(), C=wrong)
