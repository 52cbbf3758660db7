"""`litellm-registry serve --demo`: the registry on one machine, a stand-in for whatever is not there.

A stand-in is a small real HTTP server on 127.0.0.1 that speaks the form of what it stands for. The demo never calls a
subscription or a paid API, and needs no key of one.
"""
