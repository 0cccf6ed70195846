import json

import tiny

from bat_tf.metrics.report import Score, TaggingReport, micro, score_spans


def test_spans_match_only_exactly():
    gold = [[(0, 4, "brand"), (6, 9, "product")], []]
    found = [[(0, 4, "product"), (6, 9, "product")], [(1, 2, "brand")]]
    brand, product = score_spans(gold, found)
    assert (brand.correct, brand.predicted, brand.actual) == (0, 1, 1)
    assert (product.correct, product.predicted, product.actual) == (1, 2, 1)
    assert micro([brand, product]).precision == 1 / 3


def test_scores_without_counts_are_zero():
    nothing = Score("none", 0, 0, 0)
    assert (nothing.precision, nothing.recall, nothing.f(2)) == (0, 0, 0)


def test_f2_weighs_recall():
    score = Score("x", correct=6, predicted=10, actual=8)
    assert abs(score.f(2) - 5 * 0.6 * 0.75 / (4 * 0.6 + 0.75)) < 1e-12


def test_report_agrees_with_keras_metrics_and_prints():
    data = tiny.dataset(16)
    model = tiny.tagger(data)
    model.fit(data, epochs=1, verbose=0)
    report = TaggingReport.of(model, data)
    logs = model.evaluate(data, verbose=0, return_dict=True)
    assert abs(report.values["token_macro_f2"] - logs["token_macro_f2"]) < 1e-6
    assert sum(score.actual for score in report.tokens) == sum(model.class_counts)
    text = str(report)
    assert "brand" in text and "predicted" in text and "F2" in text
    assert json.loads(json.dumps(report.to_dict()))["num_texts"] == 16
