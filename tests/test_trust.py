"""What comes from outside may be wrong or hostile; see SECURITY in the README."""

import inspect
import io
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest
import scipy.sparse

import bat_tf
from bat_tf import cli
from bat_tf._internal.validation import DataError
from bat_tf.serving.server import Server

SOURCE = Path(bat_tf.__file__).parent


def test_a_keras_file_with_code_inside_is_not_run(tmp_path):
    inputs = keras.Input((1,))
    path = tmp_path / "model.keras"
    keras.Model(inputs, keras.layers.Lambda(lambda x: x + 1)(inputs)).save(path)
    with pytest.raises(OSError, match="could not be read as a Keras model.*[Ll]ambda"):
        bat_tf.load(path)


def test_nothing_in_the_package_unpickles_evaluates_or_leaves_safe_mode():
    forbidden = re.compile(
        r"\bpickle\b(?!=False)|\beval\(|\bexec\(|shell=True|safe_mode=False|"
        r"yaml\.load\(|yaml\.unsafe|enable_unsafe_deserialization|"
        r"\.extract(all)?\(|unpack_archive|os\.system|joblib|\bdill\b"
    )
    found = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if forbidden.search(line)
    ]
    assert found == []


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


def test_arrays_with_objects_inside_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "X.trn.txt").write_text("a text\n")
    objects = np.array([Bomb()], object)
    np.savez(tmp_path / "Y.trn.npz", data=objects, format=np.array("csr"))
    with pytest.raises(DataError, match="is not a SciPy matrix"):
        bat_tf.data.read(tmp_path / "X.trn.txt")
    assert not (tmp_path / "exploded").exists()
    scipy.sparse.save_npz(tmp_path / "Y.trn.npz", scipy.sparse.csr_matrix([[1.0]]))
    assert len(bat_tf.data.read(tmp_path / "X.trn.txt")) == 1


def hostile_zip():
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        for stem in ("1", "../../outside", "/tmp/outside"):
            archive.writestr(f"{stem}.abstr", "An abstract about oil")
            archive.writestr(f"{stem}.uncontr", "oil")
    return inner.getvalue()


def test_archives_do_not_leave_their_folder(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "inspec_keyphrase"
    folder.mkdir(parents=True)
    with tarfile.open(folder / "Hulth2003.tar.gz", "w:gz") as archive:
        content = hostile_zip()
        names = ("Hulth2003/Test.zip", "../../escaped.txt", str(tmp_path / "root.txt"))
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("Hulth2003/passwords.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    monkeypatch.setenv("BAT_TF_DATA", str(tmp_path / "data"))
    dataset = bat_tf.data.read("inspec_keyphrase", split="test")
    assert dataset.texts == ["An abstract about oil"] * 3
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_the_server_listens_to_this_machine_alone_unless_told():
    for function in (Server, cli.serve.serve):
        default = inspect.signature(function).parameters["host"].default
        assert default == "127.0.0.1"


def test_importing_bat_tf_needs_nothing_of_the_server():
    code = (
        "import sys\n"
        "for name in 'starlette uvicorn prometheus_client'.split():\n"
        "    sys.modules[name] = None\n"
        "import bat_tf\n"
        "bat_tf.serving.Client('http://127.0.0.1:1', 'x')\n"
        "from bat_tf import cli\n"
        "from typer.testing import CliRunner\n"
        "print(CliRunner().invoke(cli.app, ['serve']).exception)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    assert "`bat-tf serve` needs the package `starlette`" in process.stdout
    assert 'pip install "bat-tf[serve]"' in process.stdout
