"""One attempt at a task, from lease to verdict."""
