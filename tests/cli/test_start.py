"""What is imported when: all in Python, what a verb needs on the command line."""

import os
import subprocess
import sys

import pytest
import served

from bat_tf._internal.version import VERSION

HEAVY = "tensorflow keras numpy scipy yaml".split()
NAMES = "{name for name in keras.saving.get_custom_objects() if 'bat_tf>' in name}"
# Of a console script, what counts is its name.
COMMAND = "import sys; sys.argv[0] = '/usr/bin/bat-tf'; from bat_tf.cli import main; "


def python(code, *arguments, **environment):
    """Runs code in a fresh process, without what the tests say about logs."""
    kept = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**kept, **environment},
    )


def bat_tf(*arguments, **environment):
    return python(COMMAND + "main()", *arguments, **environment)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["keras", "bat_tf"])
def test_models_load_in_every_order_of_the_imports(first, tmp_path):
    path = tmp_path / "pages.keras"
    served.model("pages").save(path)
    others = [name for name in ("bat_tf", "keras") if name != first]
    code = "import sys; path = sys.argv[1]\n" + "\n".join(
        f"import {name}" for name in (first, *others)
    )
    done = python(f"{code}\nprint(keras.saving.load_model(path).name)", path)
    assert done.returncode == 0, done.stderr


def test_the_command_line_registers_what_the_library_registers():
    lines = f"import keras; print(sorted({NAMES}))"
    whole = python(f"import bat_tf; {lines}")
    opened = "from bat_tf.models import load; load.register()"
    light = python(COMMAND + f"{opened}; {lines}")
    assert light.returncode == 0, light.stderr
    assert whole.stdout == light.stdout != "[]\n"


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], *([v, "--help"] for v in ("tag", "train", "serve"))],
)
def test_help_and_version_import_nothing_heavy(arguments):
    code = (
        f"import atexit; atexit.register(lambda: print({HEAVY} & sys.modules.keys()))"
    )
    code = code.replace(str(HEAVY), str(set(HEAVY)))
    done = python(f"{COMMAND}{code}; main()", *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("set()\n")


def test_completion_imports_nothing_heavy():
    done = bat_tf(
        _BAT_TF_COMPLETE="complete_bash", COMP_WORDS="bat-tf t", COMP_CWORD="1"
    )
    assert done.stdout.split() == ["train", "tune", "tag"]


def test_version():
    assert bat_tf("--version").stdout == f"bat_tf {VERSION}\n"


def test_logs_are_shown_to_those_who_ask_only():
    """Warnings and errors of Python, and what else goes to stderr, are not logs."""
    text = "A brass desk lamp by Zurten"
    done = bat_tf("tag", text)
    assert done.returncode == 0 and "[Zurten](brand)" in done.stdout
    assert done.stderr == ""
    assert "oneDNN" in bat_tf("--verbose", "tag", text).stderr


def test_what_is_no_log_line_is_passed_on():
    lines = (
        "WARNING: All log messages before absl::InitializeLog() is called are written",
        "I0000 00:00:1795036042.858574    7451 cudart_stub.cc:31] Could not find cuda",
        "E0000 00:00:1795036046.058798    7451 cuda_platform.cc:52] failed call",
        "F0000 00:00:1795036046.058798    7451 tensor.cc:733] Check failed",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "no line end",
    )
    code = (
        "import os, sys; from bat_tf.cli.quiet import hide_logs; hide_logs(); "
        "os.write(2, sys.argv[1].encode()); os.abort()"
    )
    code = COMMAND.rpartition("from")[0] + code
    done = python(code, "\n".join(lines))
    assert done.stderr.split("\n") == list(lines[3:])
    assert done.returncode == -6


def test_python_writes_to_the_terminal_itself():
    done = bat_tf("tag", "--model", "nowhere", "text")
    assert done.returncode == 2
    assert done.stderr.startswith("Error: There is no model at nowhere.")
