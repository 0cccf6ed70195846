import json
import shutil
import warnings
import zipfile

import pytest
import served

import bat_tf
from bat_tf._internal.version import VERSION, warn_if_newer


@pytest.mark.parametrize("version", [None, "", "0.1", "0.2", "0.2.0", VERSION])
def test_no_word_about_older_releases(version):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_newer(version, "The model")


def exported(folder):
    """An export that says that a later release wrote it."""
    shutil.copytree(served.folder("pages"), folder / "1")
    path = folder / "1" / "assets.extra" / "bat_tf.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "bat_tf": "0.10.1"}))
    return folder / "1"


def saved(folder):
    """A `.keras` file that says so."""
    served.model("pages").save(folder / "here.keras")
    with (
        zipfile.ZipFile(folder / "here.keras") as here,
        zipfile.ZipFile(folder / "later.keras", "w") as later,
    ):
        for name in here.namelist():
            content = here.read(name)
            if name == "config.json":
                assert content.count(f'"bat_tf": "{VERSION}"'.encode()) == 1
                content = content.replace(VERSION.encode(), b"0.10.1")
            later.writestr(name, content)
    return folder / "later.keras"


@pytest.mark.fault(
    "model of a newer release",
    'a warning: "… was written by bat_tf …, and this is …: it may not load, or answer '
    'otherwise. Install that release: python -m pip install --upgrade bat-tf"',
)
@pytest.mark.parametrize("write", [exported, saved])
def test_a_newer_release_is_said_on_load(write, tmp_path, sees):
    path = write(tmp_path)
    with pytest.warns(UserWarning, match=r"by bat_tf 0\.10\.1") as caught:
        model = bat_tf.load(path)
    sees(" ".join(str(warning.message) for warning in caught))
    assert len(model.tag(["a lamp"])) == 1
