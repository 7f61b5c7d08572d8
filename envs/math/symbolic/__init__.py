"""SymPy and Math-Verify, in a process that can be killed."""
