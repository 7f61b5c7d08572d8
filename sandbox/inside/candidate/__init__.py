"""The candidate's side of calls and tests: runs the untrusted program and answers requests about it.

The protocol, one request at a time over one channel (`verigym.sandbox.inside.testside` is the other end):

- On start the program is loaded, and `loaded` (names, descriptions of functions) or `failed` (exception) is sent.
- Requests come from the test: `{"call": f, args, kwargs}`, `{"get": name}`, `{"op": ..., "h": handle}`. Each gets one answer:
  `value`, `error`, or `cannot` (the result cannot cross, or is a function or class: then `meta` describes it).
- Plain data crosses by value. Other objects cross as a handle: a number, class names, special methods and a state.
- Functions and objects of the test cross as callback numbers. The program uses stubs; each use is a request to the test,
  which serves it while it waits for its own answer.
- Lists, dicts and the like that both sides hold are numbered, and each message carries the changes (`both`).

Nothing here decides a verdict: whatever the program does to this process can only spoil its own answers.

calls          entry points `run_program` and `serve_calls`, and the server of requests
objects        the table of objects held by number, their states, and the operations on them
exceptions     how exceptions are described, and rebuilt from a description
exported       stubs for objects of the test, and what a stub may ask for
prelude_names  names that programs use without importing them
"""
