"""`bench` and the times of `compare`: what is printed, drawn and kept, and that every level's benchmarks run."""

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from dojo import bench, catalog, raced
from dojo.raced import Raced
from tests.miniature import Miniature, tidy

pytestmark = pytest.mark.timeout(300)  # each run imports torch
BENCH = "levels/level00/benchmarks/bench_00.py"
TOTAL = '''
    import pytest


    @pytest.mark.kata("level00.sums.total")
    def bench_total(bench):
        """The sum of 1,000 numbers"""
        numbers = list(range(1000))
        bench(
            lambda level: lambda: level.sums.total(numbers),
            naive=("one by one", lambda: [sum(numbers[:i]) for i in range(1000)]),
            library=("the system's", lambda: sum(numbers)),
            flops=1000,
            bytes=8000,
        )


    @pytest.mark.kata("level00.shelf.Shelf")
    def bench_shelf(bench):
        """Putting 10 things"""

        def build(level):
            shelf = level.shelf.Shelf()
            return lambda: [shelf.put(i) for i in range(10)]

        bench(build)
'''
KNOWN = {"KATA_CLOCK": "pass"}  # a machine of 1 GB/s and 1 GFLOP/s


@pytest.fixture
def timed(project) -> Miniature:
    project.write(BENCH, TOTAL)
    return project


def kept(project: Miniature) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((project.root / ".dojo/bench").glob("*-*/*.json"))]


def row(text: str, label: str) -> list[str]:
    [line] = [line for line in text.splitlines() if line.strip().startswith(label)]
    return line.split()


# ---- the command


def test_four_ways_stand_beside_each_other(timed, monkeypatch):
    """Whatever the learner's code prints, and whatever lies about of a run that broke off."""
    timed.solve("level00")
    timed.change("level00.sums", ("return sum(numbers)", "print('noise'); return sum(numbers)"))
    timed.write(".dojo/bench/Linux/0001_level00.json", '{"benchmarks": [')
    done = timed.run("dojo", "bench", "level00", **KNOWN)
    assert done.code == 0 and not done.err
    first, second = done.text.split("  The sum of 1,000 numbers\n")[1].split("  Putting 10 things\n")
    assert re.search(r"ms +GFLOP/s +GB/s +bound by +of roof +x solution +last run\n", first)
    labels = ["yours", "solution", "naive (one by one)", "library (the system's)"]
    assert re.findall(r"^    (\w+(?: \(.*?\))?)  ", first, re.M) == labels
    assert row(first, "solution")[-1] == "1.00" and row(second, "solution")[2:] == ["-", "-", "-", "-", "1.00"]
    ms, gflops, gbytes, bound, share, times = row(first, "library")[3:]
    assert bound == "memory" and share.endswith("%") and float(times) > 0
    assert float(gflops) == pytest.approx(1e-3 / float(ms), abs=0.06)
    assert float(gbytes) == pytest.approx(8e-3 / float(ms), abs=0.06)
    assert float(row(first, "naive")[-1]) > 20, "a thousand times the work"
    assert "noise" not in done.text
    assert (timed.root / "labs-out/bench-level00.png").read_bytes().startswith(b"\x89PNG")
    assert "level00.sums.total is not cleared: fast and wrong is not fast" in first
    kept_well(timed)
    monkeypatch.setattr(catalog, "ROOT", timed.root)
    [(name, intensity, flops)] = raced.points()  # of the picture of `hardware --plot`
    assert (name, intensity) == ("The sum of 1,000 numbers", 1 / 8)
    assert flops == pytest.approx(1000 / kept(timed)[-1]["benchmarks"][0]["stats"]["min"])


def kept_well(timed):
    [run] = kept(timed)
    assert run["machine_info"]["python_version"] and run["version"]
    names = [one["name"] for one in run["benchmarks"]]
    assert names[:4] == [f"bench_total[{who}]" for who in raced.WHO] and len(names) == 6
    assert run["benchmarks"][0]["stats"]["rounds"] >= 2
    assert run["benchmarks"][0]["extra_info"] == {
        "who": "yours",
        "kata": "level00.sums.total",
        "title": "The sum of 1,000 numbers",
        "flops": 1000,
        "bytes": 8000,
    }


def test_the_last_run_stands_beside_this_one(timed):
    """As a ratio to the solution then: a slow day slows both. A run of one module does not hide the others."""
    timed.change("level00.sums", ("return sum(numbers)", "return [sum(numbers) for _ in range(4)][0]"))
    timed.solve("level00.shelf")
    first = timed.run("dojo", "bench", "level00", **KNOWN).text
    assert "last run:" not in first
    then = row(first.partition("Putting")[0], "yours")[-1]
    assert 2.5 < float(then) < 6, "four sums take four times as long as one"
    alone = timed.run("dojo", "bench", "level00.shelf", **KNOWN).text
    assert "10 things" in alone and "1,000 numbers" not in alone
    timed.solve("level00.sums")
    second = timed.run("dojo", "bench", "level00", **KNOWN).text
    assert row(second.partition("Putting")[0], "yours")[-2:][1] == then and "last run: yours then" in second


def test_what_is_not_written_or_breaks_says_so_and_the_rest_is_timed(timed):
    timed.write("levels/level00/shelf.py", "class Shelf:\n    def put(self, thing):\n        return 1 / 0\n")
    text = timed.run("dojo", "bench", "level00", **KNOWN).text
    assert row(text.partition("Putting")[0], "yours")[1:] == ["not", "written", "yet:", "level00.sums.total"]
    assert "yours" + " " * 31 + "ZeroDivisionError: division by zero" in text
    assert text.count("  solution   ") == 2 and "is not cleared" not in text
    timed.write("levels/level00/shelf.py", "def Shelf(:\n")
    assert "SyntaxError: " in timed.run("dojo", "bench", "level00.shelf.Shelf", **KNOWN).text


def test_a_kata_without_benchmarks_says_which_command_has_some(timed):
    done = timed.run("dojo", "bench", "level00.sums.mean", **KNOWN)
    assert done.code == 1
    assert done.err == "Error: level00.sums.mean has no benchmarks: try its level, nox -s bench -- level00\n"


def test_a_level_without_benchmarks_says_so(project):
    done = project.run("dojo", "bench", "level00")
    assert done.code == 1 and "level00 has no benchmarks" in done.err


def test_a_benchmark_that_is_wrong_itself_is_not_just_missing(timed):
    timed.write(BENCH, TOTAL.replace("numbers = list", "numbers = lists"))
    done = timed.run("dojo", "bench", "level00", **KNOWN)
    assert done.code == 1
    assert done.err.startswith(
        "Error: a benchmark of level00 can't be run: bench_total[yours]: NameError: name 'lists'"
    )


# ---- compare, hardware


def test_compare_shows_the_difference_and_what_it_buys(timed):
    text = timed.run("dojo", "compare", "level00.sums.total", **KNOWN).text
    difference, _, times = text.partition("  The sum of 1,000 numbers\n")
    assert "+    return sum(numbers)" in difference and "x solution" in times and "10 things" not in text
    assert "x solution" not in timed.run("dojo", "compare", "level00.sums.total", "--no-time").text


def test_compare_of_what_is_the_same_times_nothing(timed):
    timed.solve("level00.sums")
    assert tidy(timed.run("dojo", "compare", "level00.sums").text).endswith("yours and the solution are the same")


# ---- the clock, and the picture


def test_calls_are_timed_in_turn_until_the_time_is_up(monkeypatch):
    calls = []
    monkeypatch.setattr(bench, "SECONDS", 0)
    makers = {who: lambda who=who: lambda: calls.append(who) for who in ("yours", "naive")}
    monkeypatch.setattr(bench, "_round", lambda call, repeats: call() or 1.0)
    seconds, why = bench.race(makers)
    assert seconds == {"yours": [1.0, 1.0], "naive": [1.0, 1.0]} and why == {}, "two rounds at least"
    assert [sorted(calls[i : i + 2]) for i in (4, 6)] == [["naive", "yours"]] * 2


def test_a_call_that_is_stopped_does_not_stop_the_others(monkeypatch):
    """pytest-timeout ends an endless loop with an exception that is no Exception."""
    monkeypatch.setattr(bench, "SECONDS", 0)

    def stopped():
        pytest.fail("Timeout >20.0s")

    seconds, why = bench.race({"yours": lambda: stopped, "solution": lambda: int})
    assert why == {"yours": "Failed: Timeout >20.0s"} and len(seconds["solution"]) == 2


def test_the_picture_names_every_benchmark_and_every_way(tmp_path, monkeypatch):
    from dojo.roofline import Machine

    monkeypatch.setattr(raced, "machine", lambda: Machine(20e9, 100e9))
    ways = {"yours": [2e-3], "solution": [1e-3], "library": [1e-3]}
    one = Raced("A product", "level00.layers.linear", 2e6, 1e5, {}, ways, {}, None)
    other = Raced("A sum", "level00.layers.softmax", 1e3, 4e3, {}, ways, {}, None)
    counted = Raced("A count", "level00.bpe.decode", 0, 0, {}, ways, {}, None)
    assert raced.draw([one, other, counted], tmp_path / "new/roof.svg")
    words = "\n".join(re.findall(r"<!-- (.+?) -->", (tmp_path / "new/roof.svg").read_text()))
    assert all(text in words for text in ("A product", "A sum", "yours", "naive", "roof, one thread", "GFLOP/s"))
    assert "A count" not in words
    assert not raced.draw([counted], tmp_path / "none.svg") and not (tmp_path / "none.svg").exists()


# ---- the levels' own


def solved_clone(root) -> None:
    """The levels as somebody has them who took the solutions."""
    for name in ("levels", "solutions"):
        shutil.copytree(catalog.ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(catalog.ROOT / name, root / name)
    for level in catalog.level_names():
        for module in catalog.modules(level):
            shutil.copy(root / f"solutions/{level}/{module}.py", root / f"levels/{level}/{module}.py")


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict:
    """level -> (what `bench` did, the benchmarks it kept), two levels at a time."""
    root = tmp_path_factory.mktemp("solved")
    solved_clone(root)
    env = os.environ | {"DOJO_ROOT": str(root), "PYTHONPATH": str(catalog.ROOT), "COLUMNS": "110"}

    def one(level):
        command = [sys.executable, "-m", "dojo", "bench", level]
        return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=300)

    with ThreadPoolExecutor(2) as pool:
        done = dict(zip(catalog.level_names(), pool.map(one, catalog.level_names())))
    files = {path.stem[5:]: path for path in (root / ".dojo/bench").glob("*/*.json")}
    return {level: (done[level], json.loads(files[level].read_text())["benchmarks"]) for level in files}


@pytest.mark.parametrize("level", catalog.level_names())
def test_the_benchmarks_of_a_level_run(level, runs):
    done, kept = runs[level]
    assert done.returncode == 0, done.stdout + done.stderr
    ways = {one["group"]: [o["extra_info"]["who"] for o in kept if o["group"] == one["group"]] for one in kept}
    assert ways and not re.search(r"\w(Error|Exception|Failed): ", done.stdout)
    for group, whose in ways.items():
        assert whose[:2] == ["yours", "solution"] and len(whose) > 2, f"{group}: nothing to compare with"
    katas = {one["extra_info"]["kata"] for one in kept}
    assert katas <= {kata.id for kata in catalog.katas(level)}
