"""Install pip into the virtual environment that runs this: Debian's python3 alone brings no ensurepip (that is python3-venv).

The wheel comes from the package index and must have the hash written here, so nothing else can be installed.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

WHEEL = "pip-26.3-py3-none-any.whl"
SHA256 = "f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13"
INDEX = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")


def main() -> None:
    """Fetch, verify, install.

    Raises:
        SystemExit: the index cannot be reached, does not have the wheel, or sent another file.
    """
    instead = "install Debian's python3-venv instead"
    page = f"{INDEX}/pip/"
    try:
        with urllib.request.urlopen(page, timeout=60) as answer:
            links = re.findall(r'href="([^"#]+)', answer.read().decode())
        link = next((link for link in links if link.endswith(f"/{WHEEL}")), None)
        if link is None:
            sys.exit(f"{page} lists no {WHEEL}; {instead}")
        with urllib.request.urlopen(urllib.parse.urljoin(page, link), timeout=60) as answer:
            content = answer.read()
    except OSError as error:
        sys.exit(f"{page} cannot be read: {error}; {instead}")
    if hashlib.sha256(content).hexdigest() != SHA256:
        sys.exit(f"{link} is not the {WHEEL} that {Path(__file__).name} names: its sha256 differs; {instead}")
    with tempfile.TemporaryDirectory() as folder:
        wheel = Path(folder, WHEEL)
        wheel.write_bytes(content)
        subprocess.run([sys.executable, wheel / "pip", "install", "-qq", "--no-index", wheel], check=True)


if __name__ == "__main__":
    main()
