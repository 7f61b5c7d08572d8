"""Is the answer the gold? Typed by the gold, with the matters of taste as options."""
