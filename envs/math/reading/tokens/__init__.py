"""Text to tokens in one linear pass: `characters` normalises Unicode, `tokens` is the lexer, `commands` and `runs` read control
sequences and letters. `cursor` walks through the tokens; the whole grammar extends it.
"""
