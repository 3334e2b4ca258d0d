"""Sweeps: totals that no cut, thread, interruption or lost machine can change."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from users import FATAL

from lsbench import accuracy, cli, results, shards, sweep
from lsbench.errors import ProviderError, ResultsError, UsageError
from lsbench.formats import BF16, FP16, FP32
from lsbench.gates import GateRule
from lsbench.parts import KEY, Part, merge, parts_of, resumable
from lsbench.plan import CHUNK, Plan
from lsbench.providers import processes, registry
from lsbench.providers.base import Prepared, Provider
from lsbench.providers.isolation import Limits
from lsbench.providers.kernels import log_sigmoid_backward
from lsbench.records import Options

USERS = Path(__file__).with_name("users.py")
RANDOM = Plan("random", "bf16", "ascend", Options(), count=5 * CHUNK - 77, shard=CHUNK)
FP32_PLAN = Plan("random", "fp32", f"python:{USERS}:good", Options(), count=5 * CHUNK, shard=CHUNK)


def swept(plan, part=(1, 1), **options):
    return sweep.sweep([Part.begin(plan, part)], **options)


def totals(run):
    """What must be byte-identical: the figures and the tables."""
    entry = dict(run.extra[KEY][0])
    row = run.rows[0]
    return json.dumps([results.encode(row.accuracy), list(row.verdicts), entry["binades"]])


@pytest.fixture(scope="module")
def whole():
    return swept(RANDOM)


@pytest.mark.parametrize("mode", ["rne", "rdn", "sr"])
def test_a_sweep_is_what_a_run_over_all_elements_says(mode):
    """Every x of fp16 for one g, against mpmath over the same tensors."""
    g = 0x5640
    run = swept(Plan("unary", "fp16", "ascend", Options(rounding=mode, seed=4), g=g))
    x = np.arange(1 << 16, dtype=np.uint16)
    tensors = FP16.values(np.full(1 << 16, g, np.uint16)), FP16.values(x)
    y = log_sigmoid_backward(*tensors, kernel="ascend", rounding=mode, seed=4)
    expected = accuracy.judge(FP16, mode, 4, *tensors, y, reference="mpmath")
    found = run.rows[0].accuracy
    for name in ("elements", "measured", "misrounded", "nonfinite", "flushed", "daz", "max_ulp"):
        assert getattr(found, name) == getattr(expected, name)
    assert found.worst == expected.worst
    assert found.mean_ulp == pytest.approx(expected.mean_ulp, abs=2.0**-20)
    assert (found.reference.judged, found.reference.differed) == (1 << 16, 0)
    assert found.reference.audited >= 16
    assert run.exit_code == 0


def test_binades_add_up_to_the_row(whole):
    errors, tables = whole.rows[0].accuracy, whole.extra[KEY][0]["binades"]
    for rows in tables.values():
        assert len(rows) == 512
        assert sum(n for _, n, _, _ in rows) == errors.elements == 5 * CHUNK - 77
        assert sum(wrong for _, _, wrong, _ in rows) == errors.misrounded
        assert max(ulp for *_, ulp in rows) == pytest.approx(errors.max_ulp, rel=1e-6)


def test_threads_leave_no_trace(whole):
    assert totals(swept(RANDOM, threads=3)) == totals(whole)


def test_references_agree(whole):
    plan = replace(RANDOM, count=20_000)
    fast, slow = (swept(replace(plan, reference=name)).rows[0] for name in ("certified", "mpmath"))
    assert fast.accuracy.misrounded == slow.accuracy.misrounded > 0
    assert fast.accuracy.max_ulp == slow.accuracy.max_ulp
    assert fast.accuracy.worst == slow.accuracy.worst


def test_layouts_leave_no_trace():
    plan = replace(RANDOM, count=2 * CHUNK, options=Options(rounding="sr", seed=3))
    layout = {"self": "transposed", "grad_output": "sliced", "grad_input": "padded"}
    strided = swept(replace(plan, layout=layout))
    assert totals(strided) == totals(swept(plan))
    with pytest.raises(UsageError, match="unknown layout 'diagonal'"):
        swept(replace(plan, layout={"self": "diagonal"}))
    with pytest.raises(UsageError, match="holds fewer elements"):
        swept(replace(plan, layout={"self": "expanded"}))


class Interrupting(sweep.Observer):
    """Interrupts the main thread once a number of elements is judged."""

    def __init__(self, after):
        self.after, self.seen, self.lock = after, 0, threading.Lock()

    def judged(self, elements):
        with self.lock:
            before, self.seen = self.seen, self.seen + elements
        if before < self.after <= self.seen:
            os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupted_sweep_goes_on_to_the_same_totals(whole, tmp_path):
    file = tmp_path / "half.json"
    run = swept(RANDOM, threads=1, observer=Interrupting(3 * CHUNK))
    assert (run.complete, run.exit_code) == (False, 130)
    assert 0 < run.rows[0].accuracy.elements < 5 * CHUNK - 77
    assert run.rows[0].accuracy.sampled == run.rows[0].accuracy.elements
    results.save(run, file)
    parts = parts_of(results.load(file), str(file))
    assert 0 < len(parts[0].left) < 5
    assert totals(sweep.sweep(parts)) == totals(whole)


def test_a_sweep_of_several_rows_goes_on_where_it_was_interrupted(tmp_path):
    """The first row is done by then, and stays as it is."""
    file, plans = tmp_path / "half.json", [RANDOM, replace(RANDOM, provider="textbook")]

    def begun():
        return [Part.begin(plan) for plan in plans]

    run = sweep.sweep(begun(), threads=1, observer=Interrupting(7 * CHUNK))
    results.save(run, file)
    parts = parts_of(results.load(file), str(file))
    assert not parts[0].left
    assert 0 < len(parts[1].left) < 5
    parts = [resumable(part, str(file)) for part in parts]
    again, whole = sweep.sweep(parts), sweep.sweep(begun())
    assert again.rows == whole.rows
    assert again.extra == whole.extra
    with pytest.raises(ResultsError, match="this sweep is whole"):
        parts_of(again, "x.json")


def half_done(provider):
    """A part of which shards 0 to 2 are done."""
    plan = replace(FP32_PLAN, provider=provider)
    part = Part.begin(plan)
    for outcome in shards.outcomes(plan, range(3), threads=1):
        part.add(outcome)
    return part


def test_a_sweep_is_not_continued_with_another_version_of_the_provider(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(USERS.read_text())
    part = half_done(f"python:{mine}:good")
    assert resumable(part, "x.json") is part
    mine.write_text(USERS.read_text() + "# changed\n")
    with pytest.raises(ResultsError, match=r"x.json: begun with python:.*good sha256 .* found sha"):
        resumable(part, "x.json")
    mine.unlink()
    with pytest.raises(UsageError, match="no file"):
        resumable(part, "x.json")


def test_a_sweep_is_not_continued_by_another_build_of_lsbench(monkeypatch):
    part = half_done("exact")
    assert resumable(part, "x.json") is part
    monkeypatch.setattr("lsbench.environment.package_digest", lambda: "0.2.0, sha256 abc")
    with pytest.raises(ResultsError, match=r"begun with lsbench .*, found 0\.2\.0, sha256 abc"):
        resumable(part, "x.json")
    begun = resumable(Part.begin(FP32_PLAN), "x.json")
    assert begun.build == "0.2.0, sha256 abc"


def test_a_sweep_whose_provider_is_gone_is_not_continued(planted, monkeypatch):
    part = half_done("doubled")
    monkeypatch.setattr(Doubled, "unavailable", lambda self: "is not installed")
    with pytest.raises(ResultsError, match="doubled did a part of it, and now is not installed"):
        resumable(part, "x.json")


@pytest.mark.parametrize("threads", [1, 2])
def test_a_killed_process_loses_its_running_shards_alone(whole, tmp_path, threads):
    file = tmp_path / "killed.json"
    code = (
        "from lsbench import results, sweep\n"
        "from lsbench.parts import Part\n"
        "from lsbench.plan import Plan\n"
        f"plan = Plan.from_plain({RANDOM.to_plain()!r})\n"
        "def keep(run):\n"
        f"    results.save(run, {str(file)!r})\n"
        "    print('saved', flush=True)\n"
        "    if len(run.extra['sweeps'][0]['done'][0]) and run.rows[0].accuracy.elements > 70000:\n"
        "        import os; os.kill(os.getpid(), 9)\n"
        f"sweep.sweep([Part.begin(plan)], threads={threads}, checkpoint=keep)\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == -9, done.stderr
    parts = parts_of(results.load(file), str(file))
    assert len(parts[0].done) == done.stdout.count("saved") == 2
    assert totals(sweep.sweep(parts)) == totals(whole)


@pytest.mark.parametrize("of", [2, 5, 7])
def test_merged_parts_are_the_sweep_in_one_piece(whole, of):
    documents = []
    for i in range(of, 0, -1):
        run = swept(RANDOM, (i, of))
        documents.append((f"{i}.json", parts_of(run, f"{i}.json")))
    assert totals(sweep.document(merge(documents), (), "")) == totals(whole)


def part(i, of, plan=RANDOM):
    return parts_of(swept(plan, (i, of)), f"{i}.json")


def test_merge_refuses_what_does_not_belong_together():
    one, two = part(1, 2), part(2, 2)
    with pytest.raises(ResultsError, match=r"parts are missing: 2/2 of 2"):
        merge([("1.json", one)])
    with pytest.raises(ResultsError, match=r"again.json: overlaps with 1.json"):
        merge([("1.json", one), ("again.json", one), ("2.json", two)])
    other = part(2, 2, replace(RANDOM, provider="textbook"))
    with pytest.raises(ResultsError, match=r"b.json: provider is 'textbook', not 'ascend'"):
        merge([("a.json", one), ("b.json", other)])
    with pytest.raises(ResultsError, match=r"b.json: one of 3 parts, not of 2"):
        merge([("a.json", one), ("b.json", part(2, 3))])
    seeded = replace(RANDOM, options=Options(seed=1))
    with pytest.raises(ResultsError, match=r"b.json: options is .*not"):
        merge([("a.json", one), ("b.json", part(2, 2, seeded))])
    unfinished = Part.begin(RANDOM, (2, 2))
    with pytest.raises(ResultsError, match=r"b.json: unfinished, 3 of 3 shards are left"):
        merge([("a.json", one), ("b.json", [unfinished])])


def test_a_document_of_another_kind_or_a_whole_sweep_is_not_continued(whole):
    with pytest.raises(ResultsError, match="found a run: expected a sweep"):
        parts_of(replace(whole, kind="run"), "x.json")
    with pytest.raises(ResultsError, match="this sweep is whole"):
        parts_of(whole, "x.json")


@pytest.mark.parametrize("damage", ["done", "state", "plan"])
def test_damage_is_told(damage):
    run = swept(RANDOM, (1, 2))
    entry = run.extra[KEY][0]
    entry[damage] = {"done": [[0, 4]], "state": {}, "plan": {"space": "pairs"}}[damage]
    with pytest.raises(ResultsError, match="damaged"):
        parts_of(run, "x.json")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"space": "all"}, "unknown space 'all'"),
        ({"space": "unary"}, "space unary takes a g"),
        ({"count": None}, "space random takes a count"),
        ({"count": 0}, "count is 0"),
        ({"g": 1}, "space random takes no g"),
        ({"pairs": ((1, 2),)}, "space random takes no pairs"),
        ({"space": "hard", "count": None}, "space hard takes some pairs"),
        ({"shard": 5}, "shard is 5: expected a multiple of 65536"),
        ({"reference": "guess"}, "unknown reference 'guess'"),
    ],
)
def test_bad_plans_are_told(words, message):
    with pytest.raises(UsageError, match=message):
        replace(RANDOM, **words)


class Doubled(Provider):
    """Correct but for one fault: results of one x are doubled."""

    def unavailable(self):
        return None

    def version(self):
        return "1"

    def refuse(self, call):
        return None

    def prepare(self, call):
        class Once(Prepared):
            def run(self):
                g, x, y = call.grad_output, call.self, call.grad_input
                y[...] = log_sigmoid_backward(g, x, kernel="ascend")
                hit = call.fmt.pattern(x) == 0x4049
                y[hit] *= call.fmt.dtype.type(2)

        return Once()


class Infinite(Doubled):
    """Returns infinities."""

    def prepare(self, call):
        class Once(Prepared):
            def run(self):
                call.fmt.pattern(call.grad_input)[...] = call.fmt.inf_bits

        return Once()


class Failing(Doubled):
    """Raises in the third chunk."""

    calls = 0

    def prepare(self, call):
        Failing.calls += 1
        if Failing.calls > 2:
            raise ProviderError("out of luck")
        return super().prepare(call)


@pytest.fixture
def planted(monkeypatch):
    monkeypatch.setitem(registry.BUILTIN, "doubled", f"{__name__}:Doubled")
    monkeypatch.setitem(registry.BUILTIN, "infinite", f"{__name__}:Infinite")
    monkeypatch.setitem(registry.BUILTIN, "failing", f"{__name__}:Failing")
    sys.modules.setdefault(__name__, sys.modules[Doubled.__module__])


def test_one_wrong_binade_is_found_by_its_table_and_gate(planted):
    plan = Plan("unary", "bf16", "doubled", Options(), g=0x3F80)
    run = swept(plan, rules=[GateRule("max_ulp", 1.0)])
    row = run.rows[0]
    assert (run.exit_code, row.verdicts) == (1, ("accuracy",))
    assert [gate.passed for gate in row.gates] == [True, False]
    assert row.accuracy.worst.x.hex == "0x4049"
    wrong = [r for r, _, _, ulp in run.extra[KEY][0]["binades"]["by_x"] if ulp > 1]
    assert wrong == [0x4049 >> (BF16.p - 1)]


def test_a_provider_that_only_fails_is_given_up_and_what_is_done_is_kept(planted):
    run = swept(replace(RANDOM, provider="failing", count=9 * CHUNK), threads=1)
    (row,) = run.rows
    assert (run.complete, run.exit_code) == (True, 3)
    assert "crashed" in row.verdicts
    assert row.reason == "3 of 9 shards lost, 7 left to do: shard 2: out of luck"
    assert row.accuracy.elements == 2 * CHUNK


def deadly(monkeypatch, function, shard=2):
    """A sweep of a user's function that fails on one x, in the middle of one shard."""
    g, x = (np.empty(CHUNK, np.uint32) for _ in range(2))
    FP32_PLAN.open_space().fill(shard * CHUNK, g, x)
    value = FP32.values(x)[CHUNK // 2]
    assert np.isfinite(value)
    monkeypatch.setenv(FATAL, str(value))
    return replace(FP32_PLAN, provider=f"python:{USERS}:{function}")


@pytest.fixture(scope="module")
def unharmed():
    """The totals of the same function without its fault."""
    return totals(swept(FP32_PLAN))


@pytest.mark.parametrize(
    ("function", "limits", "reason"),
    [
        ("segfaults_at", Limits(), "died of SIGSEGV (Segmentation fault)"),
        ("hangs_at", Limits(timeout=1.0), "no answer within 1 s, killed"),
        ("eats_memory_at", Limits(memory=400 << 20), "used "),
        ("raises_at", Limits(), "raises_at: users.py:"),
    ],
)
def test_what_kills_a_users_function_costs_one_shard(
    monkeypatch, tmp_path, unharmed, function, limits, reason
):
    """The others are counted, the lost one is named, and a resumption does it again."""
    file, kept = tmp_path / "lost.json", []
    plan = deadly(monkeypatch, function)
    begun = [Part.begin(plan, limits=limits)]
    run = sweep.sweep(begun, threads=2, limits=limits, checkpoint=kept.append)
    (row,) = run.rows
    assert (run.complete, run.exit_code) == (True, 3)
    assert "crashed" in row.verdicts
    assert row.reason.startswith(f"1 of 5 shards lost, 1 left to do: shard 2: {reason}")
    assert row.accuracy.elements == 4 * CHUNK
    assert any(document.rows[0].accuracy.elements == 4 * CHUNK for document in kept)
    results.save(run, file)
    monkeypatch.setenv(FATAL, "nan")
    again = sweep.sweep(parts_of(results.load(file), str(file)), threads=1)
    assert (again.exit_code, again.rows[0].accuracy.elements) == (0, 5 * CHUNK)
    assert totals(again) == unharmed


def test_a_function_that_dies_before_it_computes_is_a_row(tmp_path):
    (tmp_path / "dead.py").write_text("import os\nos.abort()\n")
    plan = replace(FP32_PLAN, provider=f"python:{tmp_path / 'dead.py'}:f")
    run = sweep.sweep([Part.begin(plan), Part.begin(replace(RANDOM, provider="exact"))])
    assert [row.verdicts for row in run.rows] == [("crashed",), ("pass",)]
    assert run.rows[0].reason == "died of SIGABRT (Aborted)"
    assert run.exit_code == 3


def test_the_command_isolates_a_users_function_and_says_how_to_go_on(monkeypatch, tmp_path):
    """In this process the function would take the test with it."""
    plan, file = deadly(monkeypatch, "segfaults_at"), tmp_path / "lost.json"
    words = ["--space", "random", "--dtype", "fp32", "--provider", plan.provider]
    done = lsbench(*words, "--count", plan.count, "--output", file, "-q")
    assert done.return_value == 3, done.output
    assert f"try them again with lsbench sweep --resume {file}" in done.output
    monkeypatch.setenv(FATAL, "nan")
    done = lsbench("--resume", file, "-q")
    assert done.return_value == 0, done.output
    assert results.load(file).rows[0].accuracy.elements == plan.count


def test_children_of_a_sweep_share_the_memory_that_is_free():
    whole, half = Limits().among(1), Limits().among(2)
    assert whole.memory is None
    assert half.memory is None or 0 < half.memory < processes.limit(None)
    assert Limits(memory=7).among(2).memory == 7


def test_what_a_provider_refuses_is_a_row_of_its_own():
    run = swept(replace(RANDOM, options=Options(arithmetic="fp64")))
    assert run.rows[0].verdicts == ("unsupported",)
    assert "fp64" in run.rows[0].reason


def lsbench(*words):
    return CliRunner().invoke(cli.group, ["sweep", *map(str, words)], standalone_mode=False)


def test_command_line_resume_parts_and_merge(tmp_path):
    base = ["--space", "unary", "--dtype", "fp16", "--kernel", "ascend", "--g", "1", "-0x1p3", "pi"]
    done = lsbench(*base, "--output", tmp_path / "all.json")
    assert done.return_value == 0, done.output
    assert done.output.count("65,536 pairs judged") == 3
    assert "by binade of x" in done.output
    whole = results.load(tmp_path / "all.json")
    assert [row.case for row in whole.rows] == [f"unary g={g}" for g in ("1", "-8", "3.14")]
    files = [tmp_path / f"{i}.json" for i in (1, 2)]
    for i, file in enumerate(files, 1):
        assert lsbench(*base, "--shard", f"{i}/2", "--output", file, "-q").return_value == 0
    merged = tmp_path / "merged.json"
    words = ["merge", *map(str, files), "--output", str(merged)]
    assert CliRunner().invoke(cli.group, words, standalone_mode=False).return_value == 0
    assert results.load(merged).rows == whole.rows
    assert results.load(merged).extra == whole.extra


def test_stored_pairs_are_swept_and_kept_in_the_plan(tmp_path):
    file = tmp_path / "some.csv"
    file.write_text("format,g,x\nfp16,0x3c00,0x0\nfp16,0x3c01,0x4248\n")
    words = ["--space", "hard", "--pairs", file, "--dtype", "fp16", "--kernel", "exact"]
    done = lsbench(*words, "--rounding", "rup", "--output", tmp_path / "hard.json")
    assert done.return_value == 0, done.output
    run = results.load(tmp_path / "hard.json")
    assert (run.rows[0].accuracy.elements, run.rows[0].accuracy.misrounded) == (4, 0)
    assert run.extra[KEY][0]["plan"]["pairs"] == [[0x3C00, 0], [0x3C01, 0x4248]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected --space"),
        (["--space", "pairs", "--dtype", "fp32", "--kernel", "fast"], "2^64 elements"),
        (["--space", "pairs", "--dtype", "fp16", "--kernel", "fats"], "did you mean 'fast'"),
        (["--space", "pairs", "--dtype", "fp16", "--kernel", "fast", "--shard", "3/2"], "I <= N"),
        (["--resume", "nowhere.json"], "nowhere.json"),
        (["--resume", "nowhere.json", "--space", "pairs"], "leave out --space"),
    ],
)
def test_bad_usage_is_one_line(words, message):
    error = lsbench(*words).exception
    assert isinstance(error, UsageError)
    assert message in str(error)


def test_a_lost_worker_changes_nothing(whole):
    """Two worker processes, one of them killed while the sweep runs."""
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        victims = list(client.run(os.getpid).values())
        plan = replace(RANDOM, count=40 * CHUNK, shard=CHUNK)
        killed = []

        def kill_one(run):
            if not killed and run.rows[0].accuracy.elements >= 2 * CHUNK:
                os.kill(victims[0], signal.SIGKILL)
                killed.append(run.rows[0].accuracy.elements)

        run = swept(plan, dask=cluster.scheduler_address, checkpoint=kill_one)
    assert killed[0] < plan.count / 2
    assert totals(run) == totals(swept(plan))


def test_a_scheduler_that_does_not_answer_is_told():
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with pytest.raises(UsageError, match="no Dask scheduler answers"):
        swept(RANDOM, dask="nonsense://nowhere")


def test_the_largest_error_is_kept_beside_the_first_nonfinite_result(planted):
    plan = Plan("unary", "bf16", "infinite", Options(), g=0x3F80)
    run = swept(plan)
    errors, largest = run.rows[0].accuracy, run.extra[KEY][0]["largest"]
    assert errors.nonfinite == errors.elements
    assert errors.worst.index == 0
    assert float(largest["x"]["decimal"]) > 80
    assert largest["ulp"] == errors.max_ulp > 2**260


def test_counts_are_read_as_people_write_them(tmp_path):
    words = ["--space", "random", "--dtype", "fp16", "--kernel", "ascend", "--count"]
    done = lsbench(*words, "1e3", "--output", tmp_path / "x.json", "-q")
    assert done.return_value == 0, done.output
    assert "1,000 elements judged" in done.output
    for bad in ("0", "1.5", "many", "1e40"):
        assert "expected a whole number" in str(lsbench(*words, bad).exception)
