"""Every public name is documented, tested and, if Keras saves it, registered."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import keras
import pytest

import bat_tf

MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(bat_tf.__path__, "bat_tf.")
    if "saved_models" not in info.name
)
TESTS = Path(__file__).parent


def public_objects():
    for package in (bat_tf, *(getattr(bat_tf, name) for name in bat_tf.__all__)):
        for name in getattr(package, "__all__", ()):
            value = getattr(package, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield name, value


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    result = doctest.testmod(
        importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert result.failed == 0


@pytest.mark.parametrize(("name", "value"), dict(public_objects()).items())
def test_public_names_are_documented_and_tested(name, value):
    assert inspect.getdoc(value), f"{name} has no docstring"
    mentioned = any(name in path.read_text() for path in TESTS.rglob("test_*.py"))
    assert mentioned, f"{name} is in no test file"


def test_what_keras_saves_is_registered():
    kinds = (keras.layers.Layer, keras.losses.Loss, keras.metrics.Metric)
    for name, value in public_objects():
        if inspect.isclass(value) and issubclass(value, kinds):
            registered = keras.saving.get_registered_name(value)
            assert registered == f"bat_tf>{name}"


def test_the_tests_mirror_the_rooms():
    package = Path(bat_tf.__file__).parent
    rooms = {path.parent.name.lstrip("_") for path in package.glob("*/__init__.py")}
    assert rooms <= {path.parent.name for path in TESTS.glob("*/test_*.py")}


def test_import_is_quiet_and_changes_nothing():
    code = (
        "import os, sys, warnings, random\n"
        "import keras, tensorflow\n"
        "before = dict(os.environ), list(warnings.filters), random.getstate()\n"
        "policy = keras.config.dtype_policy().name\n"
        "loaded = set(sys.modules)\n"
        "print('START', flush=True); print('START', file=sys.stderr, flush=True)\n"
        "import bat_tf\n"
        "print('END', flush=True); print('END', file=sys.stderr, flush=True)\n"
        "after = dict(os.environ), list(warnings.filters), random.getstate()\n"
        "assert before == after\n"
        "assert policy == keras.config.dtype_policy().name\n"
        "heavy = 'tensorflow_text tensorflow_datasets keras_hub matplotlib sklearn'\n"
        "heavy = (heavy + ' torch typer tokenizers safetensors').split()\n"
        "heavy += ['starlette', 'uvicorn', 'tensorflow_serving']\n"
        "assert not (set(sys.modules) - loaded) & set(heavy)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    for stream in (process.stdout, process.stderr):
        assert stream.split("START\n")[1].startswith("END")
