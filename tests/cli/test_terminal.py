"""Whatever stands at the other end: pipes that break, no terminal, another locale."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

# The whole command with a model that finds nothing, so that TensorFlow is not needed.
CODE = """
import importlib.util, sys, types
sys.argv[0] = "bat-tf"
from bat_tf.cli import main

class Model:
    task = "spans"

    def answer(self, texts, **options):
        return [[] for _ in texts]

for name in ("bat_tf.models", "bat_tf.serving"):
    sys.modules[name] = package = types.ModuleType(name)
    package.__path__ = importlib.util.find_spec("bat_tf").submodule_search_locations
    package.__path__ = [f"{path}/{name[7:]}" for path in package.__path__]
sys.modules["bat_tf.models.load"] = loader = types.ModuleType("bat_tf.models.load")
loader.load = lambda path: Model()
main()
"""
LEFT_OUT = ("LC_", "LANG", "TF_CPP")
PLAIN = {k: v for k, v in os.environ.items() if not k.startswith(LEFT_OUT)}
TEXT = "Café 東京 lamp by Veloria"


def start(*arguments, shell="", **environment):
    """Starts the command; `shell` is what a shell puts behind it."""
    command = [sys.executable, "-c", CODE, "tag", "--jsonl", *arguments]
    if shell:
        command = ["sh", "-c", f'exec "$@" {shell}', "sh", *command]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**PLAIN, **environment},
        # Who runs the tests in the background may have Ctrl-C ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def end_of(process, given=None):
    """Exit code, output and errors of a command."""
    output, errors = (part.decode() for part in process.communicate(given, 120))
    assert "Traceback" not in output + errors and "Exception" not in errors
    return process.returncode, output, errors


@pytest.mark.fault(
    "standard input or output closed",
    'exit code 2: "Error: Standard input is closed. Give texts, or `--input`." or '
    '"Error: Standard output is closed. Give `--output`."',
)
def test_streams_that_are_closed(sees):
    code, _, no_input = end_of(start(shell="<&-"))
    assert code == 2
    code, _, no_output = end_of(start("a lamp", shell=">&-"))
    assert code == 2
    sees(no_input + no_output)
    assert end_of(start("a lamp", shell="2>&-"))[0] == 0


@pytest.mark.parametrize("shell", ["<&-", "<&- >&-", "<&- >&- 2>&-"])
def test_files_need_no_streams(tmp_path, shell):
    """As a job of cron may have none."""
    (tmp_path / "in.txt").write_text("a lamp\n" * 3)
    files = ["-i", tmp_path / "in.txt", "-o", tmp_path / "out.jsonl"]
    assert end_of(start(*files, shell=shell)) == (0, "", "")
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 3


@pytest.mark.fault(
    "nobody reads the output any more (`head -1` behind a pipe)",
    "exit code 1, no words",
)
def test_a_pipe_that_breaks():
    process = start()
    process.stdin.write(b"a lamp\n" * 5_000)
    process.stdin.close()
    assert json.loads(process.stdout.readline())["text"] == "a lamp"
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait(120) == 1


@pytest.mark.fault(
    "C locale, `NO_COLOR`, no terminal or one of 20 columns",
    "the same answers, in UTF-8",
)
def test_any_terminal_gets_the_same_answers():
    expected = end_of(start(TEXT))
    assert expected[0] == 0 and json.loads(expected[1])["text"] == TEXT
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert end_of(start(TEXT, **locale)) == expected
    assert end_of(start(**locale, NO_COLOR="1"), TEXT.encode()) == expected
    assert end_of(start(TEXT, COLUMNS="20", TERM="dumb")) == expected


@pytest.mark.fault("Ctrl-C, once or twice", "exit code 130, no traceback")
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c(times):
    process = start()
    process.stdin.write(b"a lamp\n" * 1024)  # as many as it reads at a time
    process.stdin.flush()
    process.stdout.readline()
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    # Python may be gone so far that the signal itself ends it: for a shell, the same.
    assert end_of(process)[0] in (130, -signal.SIGINT)


def test_ctrl_c_while_it_is_imported():
    code = "import os, sys; sys.argv[0] = 'bat-tf'; import bat_tf; os.kill(0, 2)"
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (process.returncode, process.stderr) == (-signal.SIGINT, b"")
