"""Mathematical answers: text to a typed tree, trees to values, and whether an answer says what the gold says.

`reading.parse` makes a tree (`tree.py`) of LaTeX or plain text; `equality.values` compares two expressions from cheap and
certain to costly; `judging.compare` compares two answers by the gold's type; `symbolic` asks SymPy, in another process. No text
reaches a parser of SymPy's but by the option `math_verify`, in a process of its own.
"""
