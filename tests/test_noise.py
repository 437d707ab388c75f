"""`nox -s noise`: the table it prints, its bound, and that it knows the assertion of every level."""

import re
import subprocess
import sys

import pytest

from dojo import catalog
from tests.controls import module_at

TOOL = catalog.ROOT / "tools" / "noise.py"


@pytest.fixture(scope="module")
def tool():
    return module_at(TOOL)


def test_every_level_with_a_roofline_is_judged(tool):
    for level in catalog.level_names():
        checkpoint = "".join(path.read_text("utf-8") for path in catalog.ROOT.glob(f"levels/{level}/checkpoint/*.py"))
        assert hasattr(tool, level) or "need=NEED" not in checkpoint, f"tools/noise.py does not know {level}'s"


def test_the_bound_is_that_of_clopper_and_pearson(tool):
    """0 errors of n: 1 - 0.05^(1/n), about 3/n. 1 of 20: 21.6% (scipy.stats.beta.ppf(0.95, 2, 19))."""
    assert tool.bound(0, 50) == pytest.approx(1 - 0.05 ** (1 / 50), abs=1e-6)
    assert tool.bound(0, 1000) == pytest.approx(0.00299, abs=1e-4)
    assert tool.bound(1, 20) == pytest.approx(0.2161, abs=1e-3)


@pytest.mark.timeout(180)
def test_it_prints_a_row_for_each_kind_and_an_error_rate():
    command = [sys.executable, str(TOOL), "level02_updates", "--verdicts", "1", "--under", "quiet", "busy1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=catalog.ROOT)
    assert done.returncode == 0, done.stderr
    rows = re.findall(
        r"^level02_updates +(\w+) +(\w+) +(\d) +(\d) +(\d) +[\d.]+ to [\d.]+, need 0.08$", done.stdout, re.M
    )
    assert [row[:2] for row in rows] == [
        ("quiet", "assertion"),
        ("quiet", "control"),
        ("busy1", "assertion"),
        ("busy1", "control"),
    ]
    assert all(sum(map(int, row[2:])) == 1 for row in rows)
    assert "false red: " in done.stdout and " of 2 verdicts; 95% sure that it is below " in done.stdout


def test_an_unknown_level_gets_a_sentence():
    done = subprocess.run([sys.executable, str(TOOL), "level99"], capture_output=True, text=True, cwd=catalog.ROOT)
    assert done.returncode == 2 and "there is no level99; choose from level00, " in done.stderr


def test_rates_are_by_both_clocks(tool):
    cpu, wall = tool.rates(lambda: sum(range(10_000)), 1e6, rounds=3)
    assert cpu > 0 and wall > 0
