"""`verigym serve`: verdicts and episodes over HTTP.

- `settings`: what the service runs with; `catalog`: the environments that it serves, and tasks made for them.
- `schemas`: what requests and responses hold; `problems`: how a request is refused; `reading`: bodies to requests.
- `tokens`, `guard`, `protocol`: who may ask, how much and how slowly.
- `answers`, `desk`: idempotency keys, and accepted items on their way through the Grader.
- `batches`, `episodes`: streams of verdicts, and sessions with turns.
- `app`, `openapi`, `metrics`: routes, their description and counters; `server`: the process, and how it drains.
"""
