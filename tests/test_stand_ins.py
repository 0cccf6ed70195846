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


@pytest.mark.parametrize(
    ("name", "file"),
    [("XML-CNN", "xml_cnn"), ("AttnXML", "attention_xml"), ("LightXML", "light_xml")],
)
def test_baselines_of_extreme_labels_are_those_of_the_examples(name, file):
    values = yaml.safe_load((CONFIGS / f"yso_{file}.yaml").read_text())
    found = stand_ins.XML_BASELINES[name]
    shared = ("encoder", "model_settings", "loss", "learning_rate", "epochs")
    assert {key: found[key] for key in shared} == {key: values[key] for key in shared}
    # LightXML's encoder is frozen here.
    assert values["encoder_settings"].items() <= found["encoder_settings"].items()
