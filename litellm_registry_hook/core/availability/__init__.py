"""Whether a model can be used now: what was read and what calls have taught, and the decision made of it."""
