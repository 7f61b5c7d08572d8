"""What `benchmarks/trainer.py` measures, by side. In a folder of its own, so that `make bench` does not run it."""
