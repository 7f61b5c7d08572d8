"""The `dialogue` environment: the policy talks with a user who is played by another language model.

- `options`: which model plays the user, and what a task says about the user.
- `protocol`: the request to the user's model, and how its reply is read.
- `user`: the simulated user of one episode, whose messages come from a chat endpoint.
- `conversation`: a conversation as one text, for a judge.
- `environment`: the sessions; another environment gives the verdict.
"""
