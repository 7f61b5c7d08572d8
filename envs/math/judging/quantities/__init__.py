"""Units and decimals.

- `measured`: separates a value from its unit; `measures` compares units, `conversions` converts them.
- `decimals`: when a decimal stands for another number.
"""
