"""Implementations that can be judged; :func:`lsbench.providers.registry.resolve` finds one by name."""
