from pathlib import Path

import pytest
import yaml

from bat_tf.experiments import stand_ins

CONFIGS = Path(__file__).parent.parent / "examples" / "configs"


@pytest.mark.parametrize("name", ["reuters", "goemotions", "cooking"])
def test_light_models_are_those_of_the_examples(name):
    values = yaml.safe_load((CONFIGS / f"{name}_light.yaml").read_text())
    found = getattr(stand_ins, name.upper())
    assert {"loss": "zlpr", **found} == values


def test_tags_are_plain_classes_of_characters():
    values = yaml.safe_load((CONFIGS / "phantom.yaml").read_text())
    assert stand_ins.PHANTOM.items() <= values.items()
    assert stand_ins.JA_WIKIPEDIA["scheme"] == "plain"
