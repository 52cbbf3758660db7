"""One thing of the outside world per module."""
