"""Parses an answer's text into a tree. `parse` is the entry; `spelling` normalises texts to compare them as text.

The grammar is one class, put together from mix-ins. From the outermost level inwards, these are `lists`, `relations`,
`quantities/`, `sums` and `atoms`; `brackets`, `calls`, `big_operators` and `environments` read kinds of atoms. `tokens/` is the
lexer.
"""
