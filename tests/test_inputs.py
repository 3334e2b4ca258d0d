"""Inputs: rounded once, reproducible whatever surrounds them, and what their names say."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsbench import distributions, inputs
from lsbench.cases.scalars import Real, resolve
from lsbench.errors import TensorError
from lsbench.formats import BF16, FORMATS, FP16, FP32, Format
from lsbench.inputs import Captured, Drawn, Explicit, Mixture, Source
from lsbench.rounding import Rounding, round_fraction

EVERY = pytest.mark.parametrize("fmt", FORMATS.values(), ids=list(FORMATS))


def bits(fmt: Format, values: np.ndarray) -> list[int]:
    return [int(b) for b in fmt.pattern(np.ascontiguousarray(values)).ravel()]


def draw(fmt: Format, name: str, count: int, seed: int = 1, **parameters: object) -> np.ndarray:
    spec = Drawn(name, tuple(parameters.items()))
    return inputs.generate(Source(spec), fmt, (count,), inputs.stream(seed, "case", "self"))


@EVERY
@given(st.data())
def test_reals_are_rounded_once_to_nearest_even(fmt, data):
    # Midpoints of the format, and doubles next to them, are where a second rounding would show.
    low = data.draw(st.integers(0, fmt.max_bits - 1))
    middle = (fmt.to_fraction(low) + fmt.to_fraction(low + 1)) / 2
    near = float(middle)
    reals = [near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf), -near]
    made = inputs.nearest(fmt, np.array(reals, np.float64))
    for real, found in zip(reals, made.tolist(), strict=True):
        expected = round_fraction(fmt, Fraction(real), Rounding.RNE, negative=real < 0)
        assert found == expected, real.hex()


@EVERY
def test_infinities_nans_zeros_and_overflow_keep_their_meaning(fmt):
    largest = float(fmt.max_finite)
    reals = np.array([math.inf, -math.inf, 0.0, -0.0, largest * 2, 1e308, 5e-324, -5e-324])
    inf, sign = fmt.inf_bits, fmt.sign_bit
    expected = [inf, inf | sign, 0, sign, inf, inf, 0, sign]
    assert inputs.nearest(fmt, reals).tolist() == expected
    assert fmt.is_nan(int(inputs.nearest(fmt, np.array([math.nan]))[0]))


@given(st.floats(width=32, allow_nan=False), st.integers(-3, 3))
def test_rounding_to_odd_never_lands_on_an_even_neighbour(value, steps):
    real = float(value)
    for _ in range(abs(steps)):
        real = math.nextafter(real, math.copysign(math.inf, steps))
    with np.errstate(over="ignore"):
        odd = int(inputs.to_odd_fp32(np.array([real]))[0])
    if math.isinf(real):
        assert FP32.is_inf(odd)
    elif FP32.is_finite(odd) and FP32.to_fraction(odd) != Fraction(real):
        assert odd & 1


@EVERY
@pytest.mark.parametrize("text", ["0.1", "-0.3", "1e-4", "0x1.8p-3", "12345.678", "6e4", "-0", "0"])
def test_an_explicit_number_is_rounded_from_its_text(fmt, text):
    number = resolve(text)
    number = number if isinstance(number, Real) else Real(text, float(text))
    negative = text.startswith("-")
    exact = Fraction(float.fromhex(text)) if "x" in text else Fraction(text)
    expected = round_fraction(fmt, exact, Rounding.RNE, negative=negative)
    assert inputs.number_pattern(fmt, number) == expected


def test_a_decimal_beside_a_midpoint_is_not_rounded_twice():
    # 1 + 2^-11 is half-way between two values of fp16; the double nearest to this text is that
    # midpoint, so that rounding by way of a double would go down to 1.
    text = "1.00048828125000000000000000001"
    assert float(text) == 1 + 2**-11
    assert inputs.number_pattern(FP16, Real(text, float(text))) == 0x3C01


@pytest.mark.parametrize(
    ("fmt", "text", "message"),
    [
        (FP16, "65520", "expected at most 65504 in fp16"),
        (FP32, "-1e39", "in fp32, or inf"),
        (FP32, "1e999999999", "in fp32, or inf"),
        (FP16, "1e-30", "rounds to zero in fp16"),
        (BF16, "1e-999999999", "rounds to zero in bf16"),
    ],
)
def test_a_number_that_its_format_cannot_hold_is_refused(fmt, text, message):
    number = resolve(text)
    assert isinstance(number, Real | int)
    with pytest.raises(TensorError, match=message):
        inputs.number_pattern(fmt, number if isinstance(number, Real) else Real(text, float(text)))


@EVERY
def test_words_name_the_extremes(fmt):
    found = {word: inputs.word_pattern(fmt, word) for word in inputs.WORDS}
    assert fmt.to_fraction(found["max"]) == fmt.max_finite
    assert fmt.to_fraction(found["min_normal"]) == fmt.min_normal
    assert fmt.to_fraction(found["min_subnormal"]) == fmt.min_subnormal
    assert fmt.to_fraction(found["max_subnormal"]) == fmt.min_normal - fmt.min_subnormal
    assert inputs.word_pattern(fmt, "-max") == found["max"] | fmt.sign_bit
    with pytest.raises(TensorError, match="expected a number or one of max"):
        inputs.word_pattern(fmt, "most")


@EVERY
@pytest.mark.parametrize("name", sorted(set(distributions.DISTRIBUTIONS) - {"linspace"}))
def test_a_draw_depends_on_seed_case_and_tensor_alone(fmt, name):
    given = {"low": 0.5, "high": 2.0} if name == "loguniform" else {}
    spec = Source(Drawn(name, tuple(given.items())))

    def made(*key: object) -> list[int]:
        rng = inputs.stream(*key)  # type: ignore[arg-type]
        return bits(fmt, inputs.generate(spec, fmt, (40, 10), rng))

    first = made(1, "a", "self")
    assert made(1, "a", "self") == first
    if name not in ("specials", "every_value"):
        for other in [(2, "a", "self"), (1, "b", "self"), (1, "a", "grad_output")]:
            assert made(*other) != first


def test_known_draws_stay_what_they_are():
    # Recorded results can be reproduced only while these bits never change.
    x = draw(FP32, "normal", 4, seed=7, std=4.0)
    assert bits(FP32, x) == [0xC0119542, 0x402C51F5, 0xC1456CDA, 0xC033EC6D]
    assert bits(FP16, draw(FP16, "exponents", 4, seed=7)) == [0x8D8, 0x88F6, 0xCC78, 0xA2B9]


def test_moments_are_those_named():
    x = draw(FP32, "normal", 200_000, mean=3.0, std=4.0).astype(np.float64)
    assert abs(x.mean() - 3) < 5 * 4 / math.sqrt(200_000)
    assert abs(x.std() - 4) < 0.05
    u = draw(FP32, "uniform", 200_000, low=-2.0, high=6.0).astype(np.float64)
    assert -2 <= u.min() < -1.99
    assert 5.99 < u.max() <= 6
    assert abs(u.mean() - 2) < 0.05


def test_logarithms_are_uniform_and_signs_are_those_asked_for():
    x = draw(FP32, "loguniform", 100_000, low=1e-30, high=1e30, sign="negative")
    logs = np.log10(-x.astype(np.float64))
    assert x.max() < 0
    share, _ = np.histogram(logs, bins=6, range=(-30, 30))
    assert np.all(np.abs(share / 100_000 - 1 / 6) < 0.01)


@EVERY
def test_exponents_reach_every_binade_and_nothing_else(fmt):
    count = 40 * (fmt.emax - fmt.emin + 2)
    patterns = np.array(bits(fmt, draw(fmt, "exponents", count)))
    fields = (patterns & ~fmt.sign_bit) >> (fmt.p - 1)
    assert set(fields.tolist()) == set(range(fmt.emax - fmt.emin + 2))
    narrow = np.array(bits(fmt, draw(fmt, "exponents", 500, low=-1, high=0, sign="positive")))
    values = [fmt.to_fraction(int(b)) for b in narrow]
    assert all(Fraction(1, 2) <= v < 2 for v in values)


@pytest.mark.parametrize("fmt", [FP16, BF16], ids=lambda f: f.name)
def test_every_value_of_a_16_bit_format_is_there_once(fmt):
    assert bits(fmt, draw(fmt, "every_value", 65536)) == list(range(65536))


def test_every_value_of_fp32_is_spaced_over_the_whole_range():
    spread = bits(FP32, draw(FP32, "every_value", 1 << 10))
    assert spread == [i << 22 for i in range(1 << 10)]


@EVERY
def test_specials_hold_every_class_of_value(fmt):
    table = [int(b) for b in distributions.special_patterns(fmt)]
    assert len(table) == len(set(table)) == 24
    assert {b ^ fmt.sign_bit for b in table} == set(table)
    magnitudes = [b for b in table if not fmt.is_negative(b)]
    finite = {fmt.to_fraction(b) for b in magnitudes if fmt.is_finite(b)}
    assert {0, 1, fmt.max_finite, fmt.min_normal, fmt.min_subnormal} <= finite
    assert fmt.inf_bits in magnitudes
    assert sum(fmt.is_nan(b) for b in magnitudes) == 2
    assert bits(fmt, draw(fmt, "specials", 48)) == table * 2


@EVERY
def test_linspace_goes_from_start_to_stop(fmt):
    x = draw(fmt, "linspace", 5, start=-2.0, stop=2.0)
    assert x.astype(np.float64).tolist() == [-2, -1, 0, 1, 2]


def test_a_mixture_takes_its_shares():
    spec = Mixture(
        ((3.0, Drawn("uniform")), (1.0, Drawn("uniform", (("low", 5.0), ("high", 6.0)))))
    )
    x = inputs.generate(Source(spec), FP32, (40_000,), inputs.stream(1, "m", "self"))
    assert abs(float((x > 2).mean()) - 0.25) < 0.02
    assert not ((x > 1) & (x < 5)).any()


def test_an_axis_crosses_values():
    spec = Source(Explicit((1, 2, 3)), axis=0)
    made = inputs.generate(spec, FP16, (3, 2), inputs.stream(0, "", ""))
    assert bits(FP16, made) == [1, 1, 2, 2, 3, 3]
    last = inputs.generate(
        Source(Explicit((1, 2)), axis=-1), FP16, (3, 2), inputs.stream(0, "", "")
    )
    assert bits(FP16, last) == [1, 2, 1, 2, 1, 2]
    with pytest.raises(TensorError, match="axis 2 of 2"):
        inputs.generate(Source(Explicit((1,)), axis=2), FP16, (3, 2), inputs.stream(0, "", ""))


def test_too_few_values_are_cycled_only_where_asked():
    rng = inputs.stream(0, "", "")
    assert bits(FP16, inputs.generate(Source(Explicit((1, 2), True)), FP16, (5,), rng)) == [
        1, 2, 1, 2, 1,
    ]  # fmt: skip
    with pytest.raises(TensorError, match=r"found 2 values for 5 elements.*repeat"):
        inputs.generate(Source(Explicit((1, 2))), FP16, (5,), rng)
    with pytest.raises(TensorError, match="found 0 values for 5"):
        inputs.generate(Source(Explicit((), True)), FP16, (5,), rng)


def test_chunks_leave_no_seam():
    count = 2 * inputs.CHUNK + 7
    x = bits(FP32, draw(FP32, "linspace", count, start=0.0, stop=float(count - 1)))
    assert FP32.to_float(x[inputs.CHUNK]) == inputs.CHUNK
    assert FP32.to_float(x[-1]) == count - 1


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("normal", {"std": -1.0}, "std is -1.0, expected 0 or more"),
        ("uniform", {"low": 2.0, "high": 1.0}, "expected low <= high"),
        ("loguniform", {"low": 0.0, "high": 1.0}, "expected 0 < low"),
        ("student_t", {"df": 0.0}, "expected more than 0"),
        ("exponents", {"low": -200}, "within -15 to 16|within -15 to 15"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(name, parameters, message):
    with pytest.raises(TensorError, match=message):
        draw(FP16, name, 3, **parameters)


class TestFiles:
    """Arrays of .npy and .npz files."""

    def take(self, path, key=None, shape=(2, 3), fmt=FP16, repeat=False):
        spec = Source(Captured(path, key, repeat))
        return inputs.generate(spec, fmt, shape, inputs.stream(0, "", ""))

    @pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4"])
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_values_arrive_rounded_once(self, tmp_path, dtype, order):
        values = np.array([[0.1, -2.5, 3], [4, 1e-3, -0.0]]).astype(dtype)
        np.save(tmp_path / "x.npy", np.asarray(values, order=order))
        np.savez_compressed(tmp_path / "x.npz", a=np.asarray(values, order=order))
        expected = [
            round_fraction(FP16, Fraction(float(v)), Rounding.RNE, negative=bool(np.signbit(v)))
            for v in values.ravel()
        ]
        assert bits(FP16, self.take(tmp_path / "x.npy")) == expected
        assert bits(FP16, self.take(tmp_path / "x.npz", "a")) == expected
        assert bits(FP16, self.take(tmp_path / "x.npz", "a", (3,), repeat=True)) == expected[:3]

    def test_a_flat_array_fills_any_shape_of_its_size(self, tmp_path):
        np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32))
        assert self.take(tmp_path / "x.npy").tolist() == [[0, 1, 2], [3, 4, 5]]

    @pytest.mark.parametrize(
        ("name", "key", "message"),
        [
            ("none.npy", None, "no such file"),
            ("text.npy", None, "neither .npy nor .npz"),
            ("empty.npy", None, "neither .npy nor .npz"),
            ("objects.npy", None, "dtype object, expected float16"),
            ("integers.npy", None, "dtype int64, expected float16"),
            ("complex.npy", None, "dtype complex128, expected float16"),
            ("short.npy", None, "damaged: truncated"),
            ("header.npy", None, "damaged"),
            ("good.npy", "a", "holds one array"),
            ("good.npz", None, "holds a, b, expected 'key:'"),
            ("good.npz", "c", "has no 'c', expected one of a, b"),
            ("good.npz", "b", r"shape \[4\], expected \[2, 3\] or \[6\]"),
            ("cut.npz", "a", "damaged"),
            ("bad.npz", "a", "damaged"),
            (".", None, "cannot be read: Is a directory"),
        ],
    )
    def test_what_cannot_be_taken_is_one_clear_line(self, tmp_path, name, key, message):
        good = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.save(tmp_path / "good.npy", good)
        np.save(tmp_path / "objects.npy", np.array([{}, 1], object), allow_pickle=True)
        np.save(tmp_path / "integers.npy", np.arange(6))
        np.save(tmp_path / "complex.npy", good.astype(complex))
        np.savez(tmp_path / "good.npz", a=good, b=good[0, :1].repeat(4))
        data = (tmp_path / "good.npy").read_bytes()
        archive = (tmp_path / "good.npz").read_bytes()
        (tmp_path / "short.npy").write_bytes(data[:-3])
        (tmp_path / "header.npy").write_bytes(data[:40])
        (tmp_path / "text.npy").write_text("1 2 3")
        (tmp_path / "empty.npy").write_bytes(b"")
        (tmp_path / "cut.npz").write_bytes(archive[: len(archive) // 2])
        place = archive.index(good.tobytes()[4:12])
        (tmp_path / "bad.npz").write_bytes(archive[:place] + b"\xff" + archive[place + 1 :])
        with pytest.raises(TensorError, match=message) as caught:
            self.take(tmp_path / name, key)
        assert "\n" not in str(caught.value)

    def test_a_forged_size_allocates_nothing(self, tmp_path):
        np.save(tmp_path / "x.npy", np.zeros(6, np.float32))
        data = (tmp_path / "x.npy").read_bytes()
        (tmp_path / "x.npy").write_bytes(
            data.replace(b"(6,), }" + b" " * 13, b"(600000000000000,),}")
        )
        with pytest.raises(TensorError, match=r"shape \[600000000000000\]"):
            self.take(tmp_path / "x.npy")
