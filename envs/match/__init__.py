"""The `match` environment: compares an answer with a reference. Each kind of comparison has its module."""
