"""The test's side: runs trusted test code against a candidate in another process, and sends the verdict to the supervisor.

The candidate is the untrusted program. The test sends requests and the candidate answers;
`verigym.sandbox.inside.candidate` describes the messages. The rules:

- Names that the test does not define resolve to proxies. Using a proxy sends a request and waits for the answer.
- Answers are untrusted. Plain data arrives by value, as exact built-in types, and is compared here. Exceptions arrive as names
  and are raised as local classes. Other objects arrive as handles (references by number); their proxies send requests.
- No object of the candidate decides whether it equals a value of the test: `remote_info` has the rules.
- Functions and objects of the test that are passed to the candidate stay here. The candidate calls them back by number.
- A candidate that dies or breaks the protocol fails the test, even if the test code catches the exception.
- If a test needs an object that cannot be sent to another process, it is refused, and the test is at fault. If the candidate's
  answers led the test to this need, the candidate is at fault.

harness          receives a test, runs it, decides which stage failed, sends the verdict
runners          runs the forms of tests: assertions, unittest, pytest, checker
namespace        the module in which the test runs; candidate_names, usage: find the candidate's names in the test's text
peer             the channel: requests, callbacks, candidates that died; proxies: converts answers to local objects and back
remotes          functions, classes and the module of the candidate; handles: its objects; iterators: its iterators
derived          classes that the test derives from the candidate's
remote_info      what is known of an object, and which requests it may get; snapshots: states compared as plain data
in_process       candidate and test in one process, if the caller accepts that (`trust=shared`)
"""
