"""The test's side: runs trusted test code against a candidate in another process, and sends the verdict to the supervisor.

The test asks, the candidate answers; `verigym.sandbox.inside.candidate` has the messages. What matters here:

- Names that the test does not define resolve to proxies. Using one sends a request and waits for the answer.
- Answers are untrusted. Plain data arrives by value, as exact built-in types, and is compared here. Exceptions arrive as names
  and are raised as local classes. Other objects arrive as handles, whose special methods send requests.
- No object decides whether it equals a value of the test: `remote_info` has the rules.
- Functions and objects of the test that are passed to the candidate stay here; it calls them back by number.
- A candidate that dies or breaks the protocol is lost, whatever the test does about the exception.
- A test that needs what cannot cross is refused as the test's fault, unless the candidate's answers led it there.

harness          receives a test, runs it, decides the stage that failed, sends the verdict
runners          the forms: assertions, unittest, pytest, checker
namespace        the module in which the test runs; candidate_names, usage: which names are the candidate's, by the text alone
peer             the channel: requests, callbacks, lost candidates; proxies: turns answers into local objects and back
remotes          functions, classes and the module of the candidate; handles: its objects; iterators: its iterators
derived          classes that the test derives from the candidate's
remote_info      what is known of an object, and what it may be asked; snapshots: states compared as plain data
in_process       candidate and test in one process (`trust=shared`)
"""
