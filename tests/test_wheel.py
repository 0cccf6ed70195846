"""What is installed is whole: the wheel, outside the checkout, in an empty folder."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE")
PIP = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of a copy of the checkout, so that no older build is in it."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        shutil.copy(ROOT / name, source)
    for name in ("bat_tf", "saved_models"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    options = ["--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run(
        [*PIP, "wheel", *options, "-w", str(folder), str(source)], check=True
    )
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def run(wheel, tmp_path_factory):
    """Runs Python in an empty folder, with the wheel in place of the checkout."""
    site = tmp_path_factory.mktemp("site")
    options = ["--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([*PIP, "install", *options, str(wheel)], check=True)
    empty = tmp_path_factory.mktemp("empty")
    environment = {**os.environ, "PYTHONPATH": str(site)}

    def call(*arguments):
        command = [sys.executable, *(a.replace("SITE", str(site)) for a in arguments)]
        done = subprocess.run(
            command, cwd=empty, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


def files(folder):
    """What is in a folder of the checkout, without what Python leaves there."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_nothing_of_the_package_is_left_out(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    found = {name for name in names if ".dist-info/" not in name}
    models = {f"bat_tf/{name}" for name in files(ROOT / "saved_models")}
    assert found == files(ROOT / "bat_tf") | models


def test_the_installed_command_tags(run):
    answer = run("SITE/bin/bat-tf", "tag", "A brass desk lamp by Zurten")
    assert "[Zurten](brand)" in answer


def test_the_installed_package_brings_its_data(run):
    code = (
        "import bat_tf; print(bat_tf.__file__, bat_tf.__version__); "
        "print(len(bat_tf.data.read('product_pages/en', split='test')))"
    )
    where, rows = run("-c", code).splitlines()
    assert "site" in where and str(ROOT) not in where
    assert int(rows) > 0
