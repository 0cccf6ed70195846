"""The house: rooms import in one direction, and Keras' private names have one home."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import bat_tf

PACKAGE = Path(bat_tf.__file__).parent
# A room imports only from rooms before it.
ROOMS = (
    "_internal text data layers encoders heads losses metrics answers thresholds "
    "training models runs serving cli"
).split()
FILES = sorted(
    path for path in PACKAGE.rglob("*.py") if "saved_models" not in path.parts
)
PRIVATE = "_internal/keras_private.py"


def name_of(path):
    """`bat_tf.text.tokenizer` of its file."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in FILES}


def imports(path):
    """The modules of bat_tf that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else node.module for name in whole]
        else:
            continue
        found |= {name for name in names if name in MODULES}
    return found


def room_of(name):
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


# The names of the whole package: the top, and two modules that only pass names on.
FRONT = {"bat_tf", "bat_tf.optimizers", "bat_tf.schedules"}


@pytest.mark.parametrize("name", sorted(set(MODULES) - FRONT))
def test_a_room_imports_only_from_rooms_above_it(name):
    own = ROOMS.index(room_of(name))
    for other in imports(MODULES[name]):
        assert other not in FRONT, f"{name} imports {other}"
        assert ROOMS.index(room_of(other)) <= own, f"{name} imports {other}"


def test_no_file_imports_itself_on_a_detour():
    # What a package passes on belongs to the files inside, not to the package.
    graph = {name: imports(path) for name, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" → ".join(error.args[1])) from None


def private_names(path):
    """Lines with a private name of another library."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names]
            module = getattr(node, "module", None) or ""
            for name in [*names, module]:
                if name.startswith(("keras.src", "tensorflow.python")):
                    yield node.lineno, name
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            if not node.attr.startswith("__"):
                yield node.lineno, node.attr


def own_names():
    """Names with an underscore that bat_tf itself defines."""
    own = set()
    for path in FILES:
        if path.as_posix().endswith(PRIVATE):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                own.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                if isinstance(node.value, ast.Name) and node.value.id in (
                    "self",
                    "cls",
                ):
                    own.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                own.add(node.id)
            elif isinstance(node, ast.alias):
                own.add((node.asname or node.name).rpartition(".")[2])
    return own


# Public in all but name: what Python itself documents.
DOCUMENTED = {"_asdict", "_replace", "_fields", "_exit"}


def test_private_names_of_others_have_one_home():
    own = own_names() | DOCUMENTED
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in FILES
        if not path.as_posix().endswith(PRIVATE)
        for line, name in private_names(path)
        if name not in own
    ]
    assert found == []
