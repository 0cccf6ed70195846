"""What `load` makes of files."""

import pytest
import served

import bat_tf
from bat_tf.models import ServedClassifier, ServedTagger, export_model


@pytest.mark.parametrize(
    ("name", "kind"), [("pages", ServedTagger), ("news", ServedClassifier)]
)
def test_an_export_answers_and_knows_what_it_is(name, kind, tmp_path):
    model = served.model(name)
    folder = export_model(model, tmp_path / name / "1", check=False)
    again = bat_tf.load(folder)
    assert type(again) is kind
    assert (again.task, again.names, again.exported) == (model.task, model.names, True)


def test_an_older_export_takes_no_options(monkeypatch):
    again = bat_tf.load(served.folder("news"))
    kept = {"serving_default": again._signatures["serving_default"]}
    monkeypatch.setattr(again, "_signatures", kept)
    assert again.label("oil and gas prices") is not None
    with pytest.raises(ValueError, match="exported by an older release. Export it"):
        again.label("oil", top_k=1)
