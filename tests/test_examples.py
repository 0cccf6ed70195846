"""Every notebook of examples/ runs as it stands."""

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("name", sorted(p.name for p in EXAMPLES.glob("*.ipynb")))
def test_notebook_runs(name, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=180, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [
        cell.get("outputs") for cell in notebook.cells if cell.cell_type == "code"
    ]
    assert all(outputs), "every code cell of a notebook shows something"
