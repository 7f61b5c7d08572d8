"""Parts of `scale.py`."""
