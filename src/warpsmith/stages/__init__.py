"""The three stages and the state machine between them. Each stage can be killed and run again: answers are stored."""
