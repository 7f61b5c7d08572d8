"""Parts of `conversations.py` and `turns.py`."""
