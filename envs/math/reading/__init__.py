"""Text to a tree. `parse` is the entry; `spelling` normalises texts for the first tier and mends damaged ones.

The grammar is one class, put together from mix-ins, outermost first: `lists`, `relations`, `quantities/`, `sums`, `atoms`, and
what atoms begin with: `brackets`, `calls`, `big_operators`, `environments`. `tokens/` is the lexer.
"""
