"""Extraction: where the answer stands in a completion. Imports the tables of `latex`, and nothing of `math`.

- `methods`: `extract`, by box, `####`, "final answer is", label or last number; `strip_thinking`.
- `boxes`: the scanner of boxes, and rows of boxes that are one answer.
- `partial`: whether a box holds only a part of a formula; `sides` examines the tokens on either side of it.
- `box_suffix`: the unit, percent sign or base that directly follows a box.
- `fences`: programs in fenced blocks.
- `gold`: the answer in a gold completion.
- `visible`: whether a text shows anything.
"""
