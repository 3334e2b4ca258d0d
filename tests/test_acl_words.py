"""What the C interface takes and says: formats, configurations, declarations, words."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
from acl_calls import INVALID, INVALID_PARAM, OK, initialised

from lsbench import _acl

NAMES = {"grad_output": "gradOutput", "self": "self", "grad_input": "gradInput"}


@pytest.fixture
def acl():
    with initialised() as made:
        yield made


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "configPath is empty: expected NULL or a file to read"),
        ("/", "configPath is /, a directory: expected NULL or a file to read"),
        ("/no/such.json", "configPath is /no/such.json: expected NULL or a file to read"),
    ],
)
def test_a_configuration_that_is_no_file_is_named(path, said):
    with initialised() as acl:
        acl.call("aclFinalize")
        assert acl.call("aclInit", ctypes.c_char_p(path.encode())) == 100003
        assert acl.message() == said
        assert acl.call("aclInit", ctypes.c_char_p(__file__.encode())) == OK


@pytest.mark.parametrize("name", NAMES)
def test_formats_that_strides_do_not_describe_are_refused(acl, name):
    header = (_acl.INCLUDE / "acl" / "acl_base.h").read_text()
    known = {int(number) for number in re.findall(r"ACL_F[A-Z]+_\w+ = (-?\d+)", header)}
    plain = {0, 1, 2, 16, 27, 30, 35, 47}
    assert plain < known
    assert {-1, 3, 4, 12, 29, 32, 33} < known
    for number in sorted(known | {5, 1000}):
        tensors = acl.set(**{name: acl.tensor(acl.malloc(64), form=number)})
        status = acl.first(tensors)[0]
        assert status == (OK if number in plain else INVALID)
        message = acl.message()
        assert status == OK or message == (
            f"{NAMES[name]} has format {number}: expected 2 (ACL_FORMAT_ND), "
            "or another that strides describe"
        )


def test_the_format_of_the_buffer_is_not_looked_at_and_formats_come_after_shapes(acl):
    odd = acl.tensor(acl.malloc(64), form=29)
    assert acl.first(acl.set(buffer=odd))[0] == OK
    assert acl.first(acl.set(self=acl.tensor(acl.malloc(64), (9,), form=29)))[0] == INVALID
    assert "shape" in acl.message()


def test_the_stride_of_a_single_index_may_be_any_number(acl):
    """It is never taken: nothing is multiplied by it."""
    data = acl.malloc(64)
    acl.upload(data, np.ones(6, np.float32))
    odd = acl.tensor(data, (1, 6), strides=((1 << 63) - 1, 1), storage=6)
    status, _, executor = acl.first([odd, odd, odd, odd])
    assert status == OK
    assert acl.second(executor) == OK
    acl.wait()
    found = np.zeros(6, np.float32)
    acl.download(found, data)
    assert np.allclose(found, 0.26894143)


def test_one_of_a_thing_is_not_many(acl):
    data = acl.malloc(64)
    outside = acl.tensor(data, storage=1)
    assert acl.first(acl.set(self=outside))[0] == INVALID
    assert acl.message().endswith("inside its storage of 1 element")
    assert acl.call("aclrtFree", data + 1) == INVALID_PARAM
    assert "points 1 byte into" in acl.message()
    assert acl.call("aclrtMemset", data + 64 - 1, 9, 0, 2) == INVALID_PARAM
    assert "devPtr reaches 2 bytes" in acl.message()


PROTOTYPES = {
    "aclnnLogSigmoidBackwardGetWorkspaceSize": (
        "const aclTensor *gradOutput, const aclTensor *self, const aclTensor *buffer, "
        "aclTensor *gradInput, uint64_t *workspaceSize, aclOpExecutor **executor"
    ),
    "aclnnLogSigmoidBackward": (
        "void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream"
    ),
}
"""As the page of the operator has them."""


@pytest.mark.parametrize("name", PROTOTYPES)
def test_the_two_phases_are_declared_as_the_page_does(name):
    header = (_acl.INCLUDE / "aclnnop" / "aclnn_logsigmoid_backward.h").read_text()
    found = re.search(rf"aclnnStatus {name}\(([^)]*)\)", header)
    assert found is not None
    assert " ".join(found[1].split()) == PROTOTYPES[name]
