//! Nothing: the manifest of this package, which `scripts/features.py` writes, unifies features.
