"""Turns text into tokens in one linear pass.

`characters` normalises Unicode, `tokens` is the lexer, `commands` reads control sequences, and `runs` reads runs of letters.
The class in `cursor` walks through the tokens; all parts of the grammar extend it.
"""
