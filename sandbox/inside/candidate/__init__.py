"""The candidate's side of calls and tests: runs the untrusted program and answers requests about it.

The candidate is the untrusted program. It exchanges messages with the test's process over one channel, one request at a time
(`verigym.sandbox.inside.testside` is the other end):

- On start the program is loaded, and `loaded` (names, descriptions of functions) or `failed` (exception) is sent.
- Requests come from the test: `{"call": f, args, kwargs}`, `{"get": name}`, `{"op": ..., "h": handle}`. Each gets one answer:
  `value`, `error`, or `cannot` (the result cannot be sent, or is a function or class, which `meta` then describes).
- Plain data is sent by value. Another object is sent as a handle: its number, class names, special methods and state.
- Functions and objects of the test are sent as callback numbers. The program uses stubs for them. Each use of a stub is a
  request to the test, which serves the request while it waits for the answer to its own.
- Lists, dicts and other containers that both sides hold are numbered, and each message carries their changes (`both`).

Nothing here decides a verdict. If the program manipulates this process, only its own answers become wrong.

calls          entry points `run_program` and `serve_calls`, and the server of requests
objects        the table of objects that the test refers to by number, their states, and the operations on them
exceptions     how exceptions are described, and rebuilt from a description
exported       stubs for objects of the test, and which requests a stub may send
prelude_names  names that programs use without importing them
"""
