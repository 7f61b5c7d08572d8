"""`verigym grade`: saved model outputs in, verdicts and a summary out, without any trainer."""
