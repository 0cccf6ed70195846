"""The main job as a new user sees it, on fewer pages."""

from io import StringIO

import pytest
from rich.console import Console

from bat_tf.runs.demo import demo


@pytest.mark.slow
def test_demo_trains_scores_tags_exports_and_reloads(tmp_path):
    output = StringIO()
    demo(Console(file=output, width=100), tmp_path, epochs=1, size=90)
    text = output.getvalue()
    for heading in ("tokens", "keywords", "dictionary", "SavedModel in"):
        assert heading in text
    for language in ("en", "zh", "ja"):
        assert f"│ {language} " in text
    assert "the same tags" in " ".join(text.split())
    assert (tmp_path / "saved_model" / "1" / "saved_model.pb").exists()
