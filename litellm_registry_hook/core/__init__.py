"""Decisions: functions of (registry, facts, request). No I/O, no clock, no logging."""
