"""The promise, tested: every wrong program is refused and named, every right one passes, every stub is red."""

import pytest

from dojo import catalog, ghosts
from dojo.gauntlet import gauntlet


@pytest.mark.timeout(900)
@pytest.mark.parametrize("level", catalog.level_names())
def test_nobody_fools_the_tests(level):
    results = list(gauntlet(level))
    wrong = [result.line for result in results if not result.ok]
    assert not wrong, "\n".join(wrong)
    kinds = {result.trial.kind for result in results}
    assert kinds == {"ghost", "alternative", "stub"}
    assert len(results) == len(ghosts.haunts(level)) + len(ghosts.haunts(level, "alternatives")) + 1
