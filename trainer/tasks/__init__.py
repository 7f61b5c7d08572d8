"""Tasks: decides which prompt a run samples next.

- `mixture`: draws from sources by weight, and loads a source; `curriculum`: repeats known tasks by their pass rates
- `answer_forms`: templates that ask for the form in which answers are read; `chat_prompts`: system messages by source
- `canaries`: tasks that no answer solves; `too_long`: leaves out prompts that are too long
"""
