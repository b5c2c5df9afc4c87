"""RLlib's spellings as tables: keys that are renamed, ignored, refused or converted, and the names in other libraries.

Read first: ``aliases.py``
"""
