"""Finds the installed packages that a program may import: the named packages with their requirements, and never verigym.

A package is a distribution known to `importlib.metadata`. The folders where packages are installed are masked: in them programs
see only the folders, modules and `.dist-info` of these packages, and cannot open other files by path. `.pth` files and the
folders that they add are left out, because the sandbox's Python runs without `site`.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from importlib.metadata import Distribution

OURS = "verigym"
USUAL = (
    "numpy scipy pandas polars sympy mpmath gmpy2 networkx numba torch torchvision scikit-learn scikit-image statsmodels "
    "xgboost tensorflow keras matplotlib seaborn plotly folium shapely geopandas geopy pillow opencv-python "
    "opencv-python-headless soundfile librosa wordcloud pytesseract sortedcontainers more-itertools toolz bitarray blist "
    "bintrees python-dateutil pytz tzdata holidays natsort prettytable texttable tabulate tqdm regex chardet levenshtein "
    "python-levenshtein nltk textblob gensim wordninja unidecode faker pyyaml toml lxml beautifulsoup4 html5lib xmltodict "
    "pyquery mechanize openpyxl xlrd xlwt python-docx docxtpl jsonschema attrs pydantic typing-extensions requests "
    "requests-mock responses dnspython flask flask-login flask-mail flask-restful flask-wtf wtforms werkzeug django "
    "selenium sendgrid python-http-client wikipedia cryptography pycryptodome rsa blake3 psutil pyfakefs pytest "
    "pytest-asyncio pytest-mock mock parameterized freezegun hypothesis"
).split()
"""The default packages, which programs and their tests commonly use. Programs can import those that are installed."""

_PLACES = ("lib*/python*/*-packages", "local/lib*/python*/*-packages", "envs/*/lib*/python*/*-packages", "python*/*-packages")
_REQUIRED = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


class NotInstalled(ValueError):
    """A named package is not installed or cannot be shown."""


def installed_in() -> list[str]:
    """Return the folders from which this Python imports installed packages, without folders that `.pth` files add."""
    import site
    import sysconfig

    paths = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        paths.append(site.getusersitepackages())
    return [path for path in dict.fromkeys(map(os.path.realpath, paths)) if os.path.isdir(path)]


def installed_below(prefixes: Iterable[str]) -> list[str]:
    """Return the folders of installed packages, of any Python version, at the usual places below the paths `prefixes`."""
    import glob

    matches = (path for prefix in prefixes for place in _PLACES for path in glob.glob(f"{glob.escape(prefix)}/{place}"))
    return [path for path in dict.fromkeys(map(os.path.realpath, matches)) if os.path.isdir(path)]


def shown(names: Iterable[str], folders: Sequence[str], *, all_there: bool = True) -> dict[str, list[str]]:
    """Return, for each of `folders`, the paths in it that belong to the packages `names` and their requirements.

    No returned path lies below another.

    Args:
        names: distribution names as in `pip list`.
        folders: where packages are installed; the first folder that has a package is used.
        all_there: whether every named package must be installed.

    Raises:
        NotInstalled: a package is not installed, or none of its files can be shown.
    """
    by_folder: dict[str, set[str]] = {folder: set() for folder in folders}
    todo = [(name, frozenset[str](), all_there) for name in names]
    seen: dict[str, frozenset[str]] = {}
    while todo:
        name, extras, needed = todo.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        known = seen.get(key)
        if known is not None and extras <= known and not needed:
            continue
        seen[key] = extras | (known or frozenset())
        if key == OURS:
            if needed:
                raise NotInstalled(f"packages: programs never import {OURS}, whose environments hold solutions")
            continue
        package = _find(name, folders)
        if package is None:
            if needed:
                raise NotInstalled(
                    f"packages: {name!r} is not installed in {', '.join(folders) or 'any folder of packages'}. Names are those "
                    "that `pip list` has"
                )
            continue
        paths = _paths(package)
        if not paths:
            if needed:
                raise NotInstalled(f"packages: {name!r} is brought by a .pth file, as editable installs are: install it")
            continue
        by_folder[os.path.realpath(str(package.locate_file("")))].update(paths)
        todo += [(need, more, False) for need, more in _needs(package, seen[key])]
    return {folder: list(_outermost(paths)) for folder, paths in by_folder.items()}


def _find(name: str, folders: Sequence[str]) -> Distribution | None:
    from importlib import metadata

    return next(iter(metadata.distributions(name=name, path=list(folders))), None)


def _needs(package: Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """The requirements of a package with these extras. Platform conditions are assumed to hold."""
    head = (package.read_text("METADATA") or "").partition("\n\n")[0]  # the rest can be very long
    lines = re.findall(r"^Requires-Dist:(.*)$", head, re.MULTILINE) if head else package.requires or ()
    for line in lines:
        text, _, condition = line.partition(";")
        wanted = set(_EXTRA.findall(condition))
        match = _REQUIRED.match(text)
        if match and (not wanted or wanted & extras):
            more = frozenset(filter(None, map(str.strip, (match[2] or "").split(","))))
            yield match[1], more


def _paths(package: Distribution) -> set[str]:
    """The paths of a package, relative to where it is installed; empty for editable installs and for verigym."""
    import json

    origin = json.loads(package.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        return set()
    files = _files(package)
    holding = {path.rpartition("/")[0] for path in files}
    # The top folder and its `__pycache__` are shared by all packages: list single files there. Paths outside are scripts.
    paths = {path for path in files if path.rpartition("/")[0] in ("", "__pycache__") and path[-4:] != ".pth"}
    for folder in holding - {"", "__pycache__"}:
        first, *rest = folder.split("/")
        while first not in holding and rest:  # a namespace package
            first = f"{first}/{rest.pop(0)}"
        if first[:2] != ".." and first[:1] != "/":
            paths.add(first)
    return set() if any(path.partition("/")[0] == OURS for path in paths) else paths


def _files(package: Distribution) -> list[str]:
    """The files of a package, or enough of them to locate it."""
    import csv

    record = package.read_text("RECORD")
    if record:
        return [row[0] for row in csv.reader(record.splitlines()) if row]
    # Debian installs no RECORD: use the names of top-level modules and the metadata folder.
    about = os.path.basename(str(getattr(package, "_path", "")))
    names = (package.read_text("top_level.txt") or package.metadata["Name"].replace("-", "_")).split()
    files = [f"{about}/METADATA"]
    for entry in os.scandir(str(package.locate_file(""))):
        if entry.name in names and entry.is_dir():
            files.append(f"{entry.name}/__init__.py")
        elif entry.name.partition(".")[0] in names and entry.name.endswith((".py", ".so")):
            files.append(entry.name)
    return files


def _outermost(paths: set[str]) -> Iterator[str]:
    """Yield the paths in order, without those below another."""
    last = "/"
    for path in sorted(paths, key=lambda path: path.split("/")):
        if not path.startswith(f"{last}/"):
            last = path
            yield path
