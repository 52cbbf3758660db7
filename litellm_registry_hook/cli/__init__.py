"""The command line. Commands parse, call, and answer with an exit code: 0 yes, 1 no, 2 error."""
