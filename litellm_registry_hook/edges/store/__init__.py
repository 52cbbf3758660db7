"""The state: one SQLite file that the workers of a host share.

`database.py` opens it, `place.py` says where it is; each other module holds the statements of one table.
"""
