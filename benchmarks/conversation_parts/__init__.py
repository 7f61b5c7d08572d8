"""Parts of `conversations.py`."""
