"""Sections of keys that several algorithms share; an algorithm's schema combines them and overrides defaults.

Read first: ``common.py``
"""
