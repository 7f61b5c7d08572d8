"""Checkpoints and the record of how a run was made.

- `store`: atomic checkpoints with a manifest of hashes; the lock on a run's folder.
- `input_hashes`: hashes of model, data and code, so that no run resumes with other inputs.
- `tensors`: saves tensors with torch.
- `run_record`: command line, versions and input hashes of each start, in `run.json`.
"""
