"""Renders the HTML page: a single file with its own scripts and styles, which loads nothing and never treats data as markup.

- `render` puts the parts together; `policy` makes a content security policy that allows only these scripts and styles, by hash
- the parts are `page.html`, `style.css` and the scripts in the order of `SCRIPTS`; `uplot.min.*` is uPlot 1.6.32 (MIT,
  `uplot.LICENSE`)
"""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.resources
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SCRIPTS = ("dom", "store", "charts", "overview", "curves", "detail", "samples", "comparison", "main")
STYLES = ("uplot.min.css", "style.css")
_ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


def render(head: Mapping[str, Any], chunks: Sequence[str]) -> Iterator[str]:
    """Yield the page piece by piece: first the HTML with `head` and the scripts, then `chunks`, which the browser loads last.

    Args:
        head: the data that the page needs at the start.
        chunks: compressed texts in base64; see `packing`.
    """
    style = "\n".join(map(_asset, STYLES))
    own = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    script = f'{_asset("uplot.min.js")}\n(() => {{\n"use strict";\n{own}}})();\n'
    parts = {
        "{{policy}}": policy(script, style),
        "{{title}}": html.escape(str(head["title"])),
        "{{style}}": style,
        "{{head}}": data_block(head),
        "{{script}}": script,
    }
    frame, chunks_mark, end = _asset("page.html").partition("{{chunks}}")
    for mark, value in parts.items():
        before, _, frame = frame.partition(mark)
        yield before + value
    yield frame
    for number, chunk in enumerate(chunks):
        yield f'<script type="text/plain" id="chunk-{number}">{chunk}</script>\n'
    yield end


def policy(script: str, style: str) -> str:
    """Return the page's content security policy, which allows only this script and this style and no loading from elsewhere."""
    allowed = [f"{kind}-src '{_digest(content)}'" for kind, content in (("script", script), ("style", style))]
    return "; ".join(["default-src 'none'", *allowed, "img-src data:", "base-uri 'none'", "form-action 'none'"])


def data_block(value: Any) -> str:
    """Return `value` as JSON that is safe inside a script element: ASCII, with `<`, `>` and `&` escaped."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def _digest(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def _asset(name: str) -> str:
    return importlib.resources.files("verigym.report.page").joinpath(name).read_text(encoding="utf-8")
