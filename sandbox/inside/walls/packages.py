"""What of the packages beside a Python a program may import: those named, with what they need, and never verigym.

A package is what `importlib.metadata` knows under a name. Its folders, its modules and its `.dist-info` are shown, in a folder
in which nothing else is; the folders where packages are installed are covered, so nothing else can be opened by path either.
Files named `.pth` and what they bring are left out: this Python runs without `site`, and no folder is shown for them.
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
"""Named where nobody names others: what programs and their tests use, of which what is installed is shown."""

_PLACES = ("lib*/python*/*-packages", "local/lib*/python*/*-packages", "envs/*/lib*/python*/*-packages", "python*/*-packages")
_REQUIRED = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


class NotInstalled(ValueError):
    """A package that was named is not there to be shown."""


def installed_in() -> list[str]:
    """Return the folders from which this Python imports installed packages, but for what their `.pth` files add."""
    import site
    import sysconfig

    found = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        found.append(site.getusersitepackages())
    return [path for path in dict.fromkeys(map(os.path.realpath, found)) if os.path.isdir(path)]


def installed_below(prefixes: Iterable[str]) -> list[str]:
    """Return the folders of installed packages, of whatever Python, at the usual places below these paths."""
    import glob

    found = (path for prefix in prefixes for place in _PLACES for path in glob.glob(f"{glob.escape(prefix)}/{place}"))
    return [path for path in dict.fromkeys(map(os.path.realpath, found)) if os.path.isdir(path)]


def shown(names: Iterable[str], folders: Sequence[str], *, all_there: bool = True) -> dict[str, list[str]]:
    """Return what is shown of each folder for these packages and all that they need: paths in it, none below another.

    Args:
        names: of distributions, as `pip list` has them.
        folders: where packages are installed; the first that has one counts.
        all_there: whether each of the names must be there.

    Raises:
        NotInstalled: one is not, or nothing of it can be shown.
    """
    found: dict[str, set[str]] = {folder: set() for folder in folders}
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
        found[os.path.realpath(str(package.locate_file("")))].update(paths)
        todo += [(need, more, False) for need, more in _needs(package, seen[key])]
    return {folder: list(_outermost(paths)) for folder, paths in found.items()}


def _find(name: str, folders: Sequence[str]) -> Distribution | None:
    from importlib import metadata

    return next(iter(metadata.distributions(name=name, path=list(folders))), None)


def _needs(package: Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """What a package requires, with the extras of it that are asked for. Conditions on platforms are taken as met."""
    head = (package.read_text("METADATA") or "").partition("\n\n")[0]  # the rest, which may be a book, need not be parsed
    lines = re.findall(r"^Requires-Dist:(.*)$", head, re.MULTILINE) if head else package.requires or ()
    for line in lines:
        text, _, condition = line.partition(";")
        wanted = set(_EXTRA.findall(condition))
        match = _REQUIRED.match(text)
        if match and (not wanted or wanted & extras):
            more = frozenset(filter(None, map(str.strip, (match[2] or "").split(","))))
            yield match[1], more


def _paths(package: Distribution) -> set[str]:
    """What a package is, relative to where it is installed: nothing for one whose code is elsewhere, and for ours."""
    import json

    origin = json.loads(package.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        return set()
    files = _files(package)
    holding = {path.rpartition("/")[0] for path in files}
    # At the top all packages put theirs, in `__pycache__` too: these are files of their own. What is outside are scripts.
    found = {path for path in files if path.rpartition("/")[0] in ("", "__pycache__") and path[-4:] != ".pth"}
    for folder in holding - {"", "__pycache__"}:
        first, *rest = folder.split("/")
        while first not in holding and rest:  # a namespace that packages share
            first = f"{first}/{rest.pop(0)}"
        if first[:2] != ".." and first[:1] != "/":
            found.add(first)
    return set() if any(path.partition("/")[0] == OURS for path in found) else found


def _files(package: Distribution) -> list[str]:
    """The files of a package, or as many as tell where they are."""
    import csv

    record = package.read_text("RECORD")
    if record:
        return [row[0] for row in csv.reader(record.splitlines()) if row]
    # Without a list, as Debian installs: what its modules are called, and the folder with its metadata.
    about = os.path.basename(str(getattr(package, "_path", "")))
    names = (package.read_text("top_level.txt") or package.metadata["Name"].replace("-", "_")).split()
    found = [f"{about}/METADATA"]
    for entry in os.scandir(str(package.locate_file(""))):
        if entry.name in names and entry.is_dir():
            found.append(f"{entry.name}/__init__.py")
        elif entry.name.partition(".")[0] in names and entry.name.endswith((".py", ".so")):
            found.append(entry.name)
    return found


def _outermost(paths: set[str]) -> Iterator[str]:
    """The paths, in order, without those below another."""
    last = "/"
    for path in sorted(paths, key=lambda path: path.split("/")):
        if not path.startswith(f"{last}/"):
            last = path
            yield path
