"""Records to plain values and back: nothing lost, nothing foreign let in."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import row

from lsbench.codec import INTEGERS, Misfit, decode, encode
from lsbench.records import Row, Run

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
st.register_type_strategy(int, st.integers(INTEGERS[0], INTEGERS[-1]))
st.register_type_strategy(object, PLAIN)


def same(a, b):
    # repr tells -0.0 from 0.0 and one NaN equals another, which == does not.
    return repr(a) == repr(b)


@settings(max_examples=60, deadline=None)
@given(st.from_type(Run))
def test_any_run_survives_json_bit_for_bit(run):
    text = json.dumps(encode(run), allow_nan=False)
    assert same(decode(Run, json.loads(text)), run)


@dataclass(frozen=True)
class One:
    x: float


@given(st.floats())
def test_any_float_survives(value):
    text = json.dumps(encode(One(value)), allow_nan=False)
    back = decode(One, json.loads(text))
    assert math.copysign(1, back.x) == math.copysign(1, value) or math.isnan(value)
    assert same(back.x, value)


def test_bytes_that_are_no_text_are_written_with_escapes():
    broken = b"results/\xff.json".decode("utf-8", "surrogateescape")
    plain = encode(row(reason=broken))
    assert plain["reason"] == r"results/\udcff.json"
    assert decode(Row, plain).reason == r"results/\udcff.json"


@dataclass(frozen=True)
class Leaf:
    n: int
    x: float
    t: str
    b: bool
    maybe: str | None
    pair: tuple[str, str]
    many: tuple[int, ...]
    table: dict[str, float]
    free: dict[str, object] = field(default_factory=dict)


GOOD = {
    "n": 1,
    "x": 0.5,
    "t": "text",
    "b": True,
    "maybe": None,
    "pair": ["a", "b"],
    "many": [1, 2],
    "table": {"k": "inf"},
    "free": {"a": [1, {"b": None}]},
}


def test_the_good_one_is_read():
    assert decode(Leaf, GOOD) == Leaf(
        1, 0.5, "text", True, None, ("a", "b"), (1, 2), {"k": math.inf}, {"a": [1, {"b": None}]}
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n": 1.0}, "n: found 1.0: expected an integer"),
        ({"n": True}, "n: found true: expected an integer"),
        ({"n": "1"}, "n: found '1': expected an integer"),
        ({"n": 2**64}, "n: found an integer beyond 64 bits"),
        ({"x": "0.5"}, "x: found '0.5': expected a number"),
        ({"x": None}, "x: found null: expected a number"),
        ({"x": True}, "x: found true: expected a number"),
        ({"x": 10**400}, "x: found an integer beyond 64 bits"),
        ({"x": math.inf}, "x: found a number beyond the range of a double"),
        ({"t": 5}, "t: found 5: expected text"),
        ({"t": "\ud800"}, "t: found half of a surrogate pair"),
        ({"b": 1}, "b: found 1: expected true or false"),
        ({"maybe": 5}, "maybe: found 5: expected text"),
        ({"pair": ["a"]}, "pair: found 1 items: expected 2"),
        ({"pair": "ab"}, "pair: found 'ab': expected a list"),
        ({"many": [1, "2"]}, r"many\[1\]: found '2': expected an integer"),
        ({"many": {}}, "many: found an object: expected a list"),
        ({"table": []}, "table: found a list: expected an object"),
        ({"table": {"k": []}}, "table.k: found a list: expected a number"),
        ({"free": {"a": [math.inf]}}, r"free.a\[0\]: found a number beyond"),
        ({"t": "long" * 99}, None),
        ({"n": "long" * 99}, r"n: found 'longlong.*\.\.\.: expected an integer"),
        ({"pairs": []}, "unknown key 'pairs': did you mean 'pair'"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(change, said):
    if said is None:
        assert decode(Leaf, GOOD | change).t == change["t"]
        return
    with pytest.raises(Misfit, match=rf"^{said}") as caught:
        decode(Leaf, GOOD | change)
    assert "\n" not in str(caught.value)


def test_a_missing_key_is_an_error_unless_defaults_may_fill_it():
    partial = {k: v for k, v in GOOD.items() if k != "free"}
    with pytest.raises(Misfit, match="the key 'free' is missing"):
        decode(Leaf, partial)
    assert decode(Leaf, partial, fill=True).free == {}
    del partial["n"]
    with pytest.raises(Misfit, match="the key 'n' is missing"):
        decode(Leaf, partial, fill=True)


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, 1j, object()])
def test_a_record_that_json_cannot_hold_is_a_mistake_of_the_writer(value):
    with pytest.raises(TypeError, match="expected JSON's types"):
        encode([value])
