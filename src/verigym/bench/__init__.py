"""`verigym bench`: graders beside one another on labelled answers. Nothing here is needed for grading."""
