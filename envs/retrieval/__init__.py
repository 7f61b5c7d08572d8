"""The `retrieval` environment: questions whose answers stand in documents, and tools to search and read these.

- `corpus`: documents in JSONL files, checked row by row and read again from where they stand.
- `index`: BM25 over documents, made once per process and kept on disk where it is large.
- `tools`: `search` and `open`, as the model calls them.
- `world`: documents on invented people, towns and companies, and questions on them.
- `environment`: all of it as an environment, judged as `match` or `math` judges.
"""
