"""The `language` environment: rewards text in the language asked for, identified by script and by a small classifier."""
