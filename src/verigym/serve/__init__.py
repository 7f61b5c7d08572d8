"""`verigym serve`: verdicts and episodes over HTTP.

- `settings`: the configuration of the service; `catalog`: the environments that it serves, and tasks made for them.
- `schemas`: fields of requests and responses; `problems`: refusals of requests; `reading`: parses the bodies of requests.
- `tokens`, `guard`, `protocol`: check access tokens, and limit the size of requests and the time that a client may take.
- `answers`, `desk`: store answers by idempotency key, and pass accepted items through the `Grader`.
- `batches`, `episodes`: stream the verdicts of a batch, and run sessions with several turns.
- `app`, `openapi`, `metrics`: routes, their description, and counters; `server`: the process, and how it shuts down.
"""
