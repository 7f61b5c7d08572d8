"""Families of generated tasks with levels, one file a family."""
