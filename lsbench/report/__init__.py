"""Reports: a run in words, one module per form; a report says, and computes nothing."""
