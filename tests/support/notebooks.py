"""Runs a notebook of the documentation in a folder, and says what its cells print.

`python tests/support/notebooks.py` runs docs/quickstart.ipynb and writes its outputs into it.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "docs/quickstart.ipynb"


def executed(notebook: Path, folder: Path, timeout_s: float = 1800) -> Any:
    """Return the notebook with the outputs of a run in `folder`; only what cells print on standard output is kept.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell fails.
    """
    import nbformat
    from jupyter_client.manager import KernelManager
    from nbclient import NotebookClient

    content = nbformat.read(notebook, as_version=4)
    with tempfile.TemporaryDirectory() as sockets:
        # Sockets in a folder rather than ports, which every account of the machine could reach.
        manager = KernelManager(transport="ipc", ip=f"{sockets}/kernel")
        # The interpreter that runs the tests, whatever kernels this machine has registered.
        manager.kernel_spec.argv[0] = sys.executable
        resources = {"metadata": {"path": str(folder)}}
        client = NotebookClient(content, km=manager, timeout=timeout_s, startup_timeout=300, resources=resources)
        try:
            client.execute(cleanup_kc=True)
        finally:
            manager.shutdown_kernel(now=True)
    for cell in content.cells:
        if cell.cell_type == "code":
            cell.metadata.clear()
            cell.outputs = [one for one in cell.outputs if one.output_type == "stream" and one.name == "stdout"]
    return content


def printed(content: Any) -> dict[str, str]:
    """Return what each cell printed, by the cell's id."""
    return {cell.id: "".join(one.text for one in cell.outputs) for cell in content.cells if cell.cell_type == "code"}


def accuracies(text: str) -> dict[str, float]:
    """Return the held-out accuracies that the quickstart prints, by stage."""
    found = re.findall(r"^held-out accuracy,? ?(untrained|after the cold start|after GRPO) +([\d.]+)$", text, re.MULTILINE)
    return {stage: float(value) for stage, value in found}


def main() -> None:
    """Write the outputs of a run into the quickstart's notebook."""
    import nbformat

    with tempfile.TemporaryDirectory() as folder:
        content = executed(QUICKSTART, Path(folder))
    nbformat.write(content, QUICKSTART)
    print(*printed(content).values(), sep="\n")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
