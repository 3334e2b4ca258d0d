"""TensorFlow on the bench: the gradient of tf.math.log_sigmoid, as a provider of one function.

lsbench run cases/peers.yaml --provider python:examples/tensorflow_peer.py:log_sigmoid_backward
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf


def log_sigmoid_backward(grad_output: np.ndarray, self: np.ndarray) -> np.ndarray:
    """NumPy arrays in, the gradient of the same shape and dtype out."""
    x = tf.constant(self)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.math.log_sigmoid(x)
    return tape.gradient(y, x, output_gradients=tf.constant(grad_output)).numpy()
