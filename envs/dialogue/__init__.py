"""The `dialogue` environment: a language model plays the user whom the policy serves.

- `options`: which model plays the user, and what a task says of the user.
- `protocol`: what that model is asked, and how its reply is read.
- `user`: the user of one episode, who answers through the endpoint.
- `conversation`: a conversation as one text, for a judge.
- `environment`: sessions, and the verdict by another environment.
"""
