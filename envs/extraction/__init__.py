"""Extraction: finds the answer in a completion. The package imports the tables of `latex`, but nothing from `math`.

- `methods`: `extract` finds the answer by box, `####`, "final answer is", label or last number; `strip_thinking`.
- `boxes`: the scanner for LaTeX boxes (the command `boxed`), and rows of boxes that together are one answer.
- `partial`: whether a box holds only a part of a formula; `sides` examines the tokens on either side of it.
- `box_suffix`: the unit, percent sign or base that directly follows a box.
- `fences`: programs in fenced blocks.
- `opened`: what a prompt has already written of the completion, such as `<think>`.
- `gold`: the answer in a gold completion.
- `visible`: whether a text shows anything.
"""
