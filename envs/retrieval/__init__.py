"""The `retrieval` environment: questions to be answered from documents, and tools to search and read the documents.

- `corpus`: documents in JSONL files, checked row by row; each is read from its file when it is needed.
- `index`: BM25 index over documents, made once per process and stored on disk if it is large.
- `tools`: `search` and `open`, as the model calls them.
- `world`: documents on invented people, towns and companies, and questions on them.
- `environment`: all of it as an environment, judged as `match` or `math` judges.
"""
