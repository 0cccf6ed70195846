"""The page of a run: what it shows is what the model does, and nothing in it runs."""

import json
from html.parser import HTMLParser

import pytest
import tiny
from label_cases import documents

from bat_tf.data import Example, TextDataset
from bat_tf.runs.page import page, write_page
from bat_tf.runs.run import run
from bat_tf.runs.settings import Settings

HOSTILE = "<script>alert(1)</script>"


class Parsed(HTMLParser):
    """Tags and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "line", "polyline"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("line", "polyline"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def trained(tmp_path, data, **settings):
    data.save(tmp_path / "train.jsonl")
    files = {"train": str(tmp_path / "train.jsonl"), "valid_fraction": 0.3}
    budget = {"epochs": 2}
    output = str(tmp_path / "run")
    run(
        Settings.of(
            data=files, encoder=tiny.ENCODER, budget=budget, output=output, **settings
        ),
        verbose=0,
    )
    return tmp_path / "run"


def checked(folder):
    path = write_page(folder)
    text = path.read_text(encoding="utf-8")
    shown = Parsed(text)
    assert not shown.open, "every element is closed"
    names = {tag for tag, _ in shown.tags}
    assert not names & {"script", "img", "link", "iframe"}
    assert not any("src" in attrs or "href" in attrs for _, attrs in shown.tags)
    found = json.loads(path.with_suffix(".figures.json").read_text(encoding="utf-8"))
    return found, "".join(shown.words)


def test_a_tagger_s_page(tmp_path):
    rows = [Example(f"{HOSTILE} Zurten lamp {n}", spans=[]) for n in range(6)]
    folder = trained(tmp_path, TextDataset([*tiny.dataset(30), *rows]))
    found, words = checked(folder)
    report = json.loads((folder / "report.json").read_text())
    value, low, high = found["scores"]["micro_f1"]
    assert value == pytest.approx(report["valid"]["values"]["span_f1"])
    assert low <= value <= high
    assert found["part"] == "valid" and len(found["history"]["loss"]) == 2
    assert f"{100 * value:.1f}" in words and "Learning curves" in words
    assert {row[0] for row in found["classes"]} >= {"brand", "product"}


@pytest.mark.slow
def test_a_labeller_s_page(tmp_path):
    folder = trained(tmp_path, documents(60), model="classifier", loss="r-fl")
    found, words = checked(folder)
    mu = found["loss"]["rebalance_mu"]
    assert 0 < mu < 1 and f"rebalance_mu of the loss: {mu:.4g}." in words
    report = json.loads((folder / "report.json").read_text())
    assert found["scores"]["micro_f1"][0] == pytest.approx(
        report["valid"]["values"]["micro_f1"]
    )
    recalls = [recall for _, _, recall in found["curve"]]
    assert recalls == sorted(recalls, reverse=True) and recalls[0] > 0
    assert "Precision and recall by threshold" in words


def test_texts_of_others_are_text(tmp_path):
    found = {
        "task": "labels",
        "folder": HOSTILE,
        "part": "test",
        "data": HOSTILE,
        "texts": 1,
        "trained_on": 1,
        "loss": {HOSTILE: 0.5},
        "best": {"epoch": 1},
        "settings": {"name": HOSTILE},
        "scores": {"micro_f1": [0.5, 0.1, 0.9]},
        "values": {HOSTILE: 0.5},
        "baseline": {"values": {HOSTILE: 0.5}},
        "history": {HOSTILE: [0.1, 0.2]},
        "curve": [[0.5, 0.5, 0.5], [0.6, None, 0.2]],
        "chosen": [0.5, 0.5],
        "classes": [[HOSTILE, 0.1, 0.1, 0.1, 1, 2]],
        "confused": [[HOSTILE, HOSTILE, 3]],
        "unknown_labels": [[HOSTILE, 2]],
        "errors": [{"text": HOSTILE, "gold": [HOSTILE], "found": []}],
    }
    shown = Parsed(page(found))
    assert not any(tag == "script" for tag, _ in shown.tags)
    assert "".join(shown.words).count(HOSTILE) >= 10
    spans = {"text": HOSTILE, "gold": [[0, 8, HOSTILE]], "found": [[1, 3, "a"]]}
    shown = Parsed(page({**found, "task": "spans", "errors": [spans]}))
    assert not any(tag == "script" for tag, _ in shown.tags)


@pytest.mark.slow
@pytest.mark.parametrize("wide", [320, 1200])
def test_a_browser_shows_it_from_disk(browser, tmp_path, wide):
    data = documents(24)
    data = TextDataset([*data, Example(HOSTILE, labels=data[0].labels)])
    folder = trained(tmp_path, data, model="classifier")
    path = write_page(folder, part="valid")
    page = browser.new_page(viewport={"width": wide, "height": 900})
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    assert complaints == [] and asked == [path.as_uri()]
    assert page.locator("svg").count() >= 2 and page.locator(".card").count() >= 2
    assert page.locator("h2", has_text="Learning curves").is_visible()
    # Nothing sticks out to the side.
    assert page.evaluate("document.documentElement.scrollWidth") <= wide
    page.close()
