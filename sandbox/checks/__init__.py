"""Checks that a user runs against the machine and the sandbox.

doctor      which layers of isolation this machine offers, and how to get those it lacks
selfcheck   runs the panel of hostile and honest programs against an open sandbox
panel/      the programs: forgeries, resource exhaustion, escapes, honest programs that careless graders reject
"""
