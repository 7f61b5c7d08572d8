"""The `constraints` environment: checks whether a response follows verifiable instructions (IFEval, IFBench, your own)."""
