"""The candidate's side of calls and tests: runs the untrusted program and answers requests about it.

The candidate is the untrusted program. It exchanges messages with the test's process over one channel, one request at a time
(`verigym.sandbox.inside.testside` is the other end):

- On start the program is loaded. Then `loaded` (its names and descriptions of functions) or `failed` (the exception) is sent.
- Requests come from the test: `{"call": f, args, kwargs}`, `{"get": name}`, `{"op": ..., "h": handle}`. Each gets one answer:
  `value`, `error`, or `cannot`. `cannot` means that the result cannot be sent. If the result is a function or class, the field
  `meta` of the answer describes it.
- Plain data is sent by value. Another object is sent as a handle: its number, class names, special methods and state.
- Functions and objects of the test are sent as callback numbers. The program uses stubs for them. Each use of a stub is a
  request in the other direction, from the program to the test. The test serves it while it waits for the program's answer.
- Lists, dicts and other containers that both sides hold are numbered. The field `both` of each message carries their changes.

Nothing here decides a verdict. If the program manipulates this process, only its own answers become wrong.

calls          entry points `run_program` and `serve_calls`, and the server of requests
objects        the table of objects that the test refers to by number, their states, and the operations on them
exceptions     how exceptions are described, and rebuilt from a description
exported       stubs for objects of the test, and which requests a stub may send
prelude_names  names that programs use without importing them
"""
