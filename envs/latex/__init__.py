"""Tables of LaTeX commands and formula words, shared by extraction, `math`, `match` and `process`. Imports no other package.

- `commands`: control sequences and their meaning; those that print nothing, hold text, draw boxes.
- `vocabulary`: functions, constants, Greek letters, connectives, number words; whether letters are a word or a product.
- `units`: units of measurement by canonical name.
- `formatting`: removes commands for fonts, sizes and spacing.
"""
