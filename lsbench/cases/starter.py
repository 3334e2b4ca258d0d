"""The case file that ``lsbench init`` writes."""

STARTER = """\
# Cases for lsbench: what to compute, with what, and how good is good enough.
# Run them:    lsbench run cases.yaml
# All keys:    lsbench schema          (an editor completes from it)
# All names:   lsbench list kernels, providers, figures, layouts, inputs
schema: 1

# What every case below shares; a case that says otherwise wins.
defaults:
  seed: 7                        # each tensor's values derive from seed, case and tensor name
  providers: [fast, exact]       # or torch, jax, python:my_module:my_function, ...
  gates:                         # the run fails (exit status 1) if a figure is worse
    max_ulp: 1.0
    nonfinite: 0
    deterministic.threads: true  # one axis; "deterministic" is all of them, builds included
    deterministic.layout: true
    dtypes:                      # nearer rules win: dtype, then provider
      fp16: {max_ulp: 0.51}
      bf16: {max_ulp: 0.51}
    providers:
      exact: {misrounded: 0, deterministic: true}

cases:
  # One entry, many cases: every combination of the matrix, named plain[dtype=fp16,shape=1000].
  - name: plain
    matrix:
      dtype: [fp32, fp16, bf16]
      shape: [[1000], [64, 48]]
    input:
      self: {normal: {mean: 0, std: 4}}
      grad_output: {uniform: {low: -1, high: 1}}

  # Any strides: by name, as steps, or explicit. Gaps of the output are watched.
  - name: strided
    dtype: fp32
    shape: [64, 48]
    layout:
      self: transposed
      grad_output: {slice: [null, 2]}
      grad_input: {strides: [1, 1024], offset: 3}

  # Single values as people write them: 6e4, 0x1.8p-3, inf, nan, max, {bits: 0x7c01}.
  - name: pairs
    dtype: fp16
    shape: [4]
    input:
      self: {values: [20.015625, -0.0, inf, 0x1.8p-3]}
      grad_output: {values: [6e4, 1, max, {bits: 0x0001}]}

  # A negative case: the operator must refuse it with this status.
  - name: null-buffer
    dtype: fp32
    shape: [2, 2]
    buffer: null
    expect: 161001
"""
"""Text of the file; it is loaded and run by the tests."""
