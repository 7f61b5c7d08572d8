"""Text to a tree: characters, tokens, grammar."""
