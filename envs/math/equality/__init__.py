"""Are two expressions equal? Exact, canonical and probed, in the trusted process, with counted work."""
