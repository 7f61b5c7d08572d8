"""What the two studies of process rewards share: a task, a model that knows it half, and its samples."""
