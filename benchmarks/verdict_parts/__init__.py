"""Parts of `benchmarks/verdicts.py`."""
