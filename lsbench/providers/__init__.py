"""Implementations that can be judged; `registry.resolve` finds one by its name."""
