"""Every kind of verdict, as a learner sees it."""

from types import SimpleNamespace

import pytest

from dojo import outcome
from tests.miniature import changed, screen, solved, then, tidy, written

LEVEL = ("pytest", "levels/level00")
FIRST_ONLY = changed("level00.sums", ("sum(numbers)", "sum(numbers[:1])"))


def total(body: str):
    """Everything in sums.py is right but the body of `total`."""
    return changed("level00.sums", ("    return sum(numbers)", f"    {body}"))


@screen()
def test_an_untouched_level(screen):
    assert screen.code == 1
    assert tidy(screen.text) == tidy("""
level00 · Small sums

  todo        level00.sums.total
  todo        level00.sums.mean
  todo        level00.sums.halves
  todo        level00.shelf.Shelf
  todo        level00.worksheet                        2 answers to work out in levels/level00/worksheet.py
  locked      level00.checkpoint                       clear the katas first

  ᗧ ○ ○ ○ ○ ◉
  0 of 2200 points · next: level00.sums.total
  Open levels/level00/README.md, fill in levels/level00/sums.py, and run nox -s level00 again.
""")


@screen(solved("level00"))
def test_a_cleared_level(screen):
    assert screen.code == 0 and not screen.err
    assert tidy(screen.text) == tidy("""
level00 · Small sums

  cleared     level00.sums.total
  cleared     level00.sums.mean
  cleared     level00.sums.halves
  cleared     level00.shelf.Shelf
  cleared     level00.worksheet.seconds
  cleared     level00.worksheet.kib
  cleared     level00.checkpoint                       1 test on the real model

  · · · · · ᗧ
  2200 of 2200 points · all of it is done
  Compare with the solutions: nox -s compare -- level00; then nox -s level01.
""")
    assert len(screen.project.progress()) == 7


@screen(FIRST_ONLY)
def test_wrong_with_a_named_misconception(screen):
    """`mean` is right, but calls `total`: it is blocked. `halves` does not, and is cleared."""
    assert screen.code == 1
    assert tidy(screen.text) == tidy("""
level00 · Small sums

  wrong       level00.sums.total                       test_all_numbers_count
                total([2, 3, 5])
                yours  2
                right  10
              You return the first number: add all of them.
                (and 1 more red case)
              hint: nox -s hint -- level00.sums.total
  blocked     level00.sums.mean                        by level00.sums.total: fix that first
  cleared     level00.sums.halves
  todo        level00.shelf.Shelf
  todo        level00.worksheet                        2 answers to work out in levels/level00/worksheet.py
  locked      level00.checkpoint                       clear the katas first

  · ᗧ ○ ○ ○ ◉
  250 of 2200 points · next: level00.sums.total
  Mend levels/level00/sums.py, then run nox -s level00 again.
""")
    assert screen.project.progress() == {"level00.sums.halves"}


def block(screen, id: str) -> str:
    """What is said about one id: its line and what is indented under it."""
    lines, found = screen.text.splitlines(), []
    for line in lines:
        if found and not line.startswith(" " * 6):
            break
        if found or f" {id} " in f"{line} ":
            found.append(line.strip() if not found else line[14:])
    return "\n".join(found)


@screen(total("return sum(numbers) + 1"))
def test_wrong_in_a_way_of_its_own(screen):
    """No sentence at all is better than a guess."""
    assert block(screen, "level00.sums.total") == (
        "wrong       level00.sums.total                       test_all_numbers_count\n"
        "  total([2, 3, 5])\n  yours  11\n  right  10\n  (and 2 more red cases)\n"
        "hint: nox -s hint -- level00.sums.total"
    )


@screen(
    changed(
        "level00.sums",
        ("(len(numbers) + 1) // 2", "len(numbers) // 2"),
        ("numbers[:at], numbers[at:]", "numbers[at:], numbers[:at]"),
    )
)
def test_two_misconceptions_at_once(screen):
    said = block(screen, "level00.sums.halves")
    assert "Of an odd number the first half has one more here" in said and "The first half comes first." in said
    assert said.startswith("wrong")  # one of the two is more than a convention


@screen(changed("level00.sums", ("(len(numbers) + 1) // 2", "len(numbers) // 2")))
def test_another_convention(screen):
    assert block(screen, "level00.sums.halves") == (
        "convention  level00.sums.halves                      test_halves_make_the_whole\n"
        "  middle([1, 2, 3])\n  yours  1\n  right  2\n"
        "Of an odd number the first half has one more here; you gave it to the second."
    )


@screen(changed("level00.shelf", ("pop()", "pop(0)")))
def test_a_class_is_judged_by_a_story(screen):
    said = block(screen, "level00.shelf.Shelf")
    assert "yours  ['a', 'b', 'c']\n  right  ['c', 'b', 'a']" in said
    assert "You take what was put first: that is a queue." in said


@screen(changed("level00.sums", ("return numbers[:at], numbers[at:]", "return [numbers[:at], numbers[at:]]")))
def test_a_list_for_a_tuple(screen):
    said = block(screen, "level00.sums.halves")
    assert "yours  [[1, 2], [3]]\n  right  ([1, 2], [3])\n         a list, where a tuple is right" in said


VECTORS = changed(
    "level02.vectors",
    ("return x * factor", "return (x * factor).tolist()"),
    ("x.sum(-1)", "x.sum(-1, keepdim=True)"),
    ("x.double()", "x"),
    ("x / x.sum()", "x * float('nan')"),
    ("x + 1 + x.argsort().argsort()", "x + 1"),
)


@screen(VECTORS, "pytest", "levels/level02")
def test_tensors_differ_in_five_ways(screen):
    assert tidy(screen.text).startswith(
        tidy("""
level02 · Vectors

  imports level00, level01: solutions

  wrong       level02.vectors.scaled                   test_each_number_is_scaled
                scaled([1.0, 2.0, 5.0], 2)
                yours  [2.0, 4.0, 10.0]
                right  [2.0, 4.0, 10.0]
                       a list, where a tensor is right
  wrong       level02.vectors.summed                   test_rows_are_summed
                summed([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
                yours  [[3.0], [3.0]]
                right  [3.0, 3.0]
                       shape (2, 1), where (2,) is right
  wrong       level02.vectors.widened                  test_float64
                widened([1.0, 2.0, 5.0])
                yours  [1.0, 2.0, 5.0]
                right  [1.0, 2.0, 5.0] float64
                       dtype float32, where float64 is right
  wrong       level02.vectors.share                    test_shares
                share([1.0, 2.0, 5.0])
                yours  [nan, nan, nan]
                right  [0.125, 0.25, 0.625]
                       has NaN at [0], [1], [2]
  wrong       level02.vectors.counted                  test_a_long_count
                counted(float32 tensor of shape (50,))
                yours  2.0, 3.0, 4.0
                right  3.0, 5.0, 7.0
                       differs at [1], [2], [3] and 46 more places
""")
    )


@screen(total("numbers.sort(); return sum(numbers)"))
def test_an_argument_is_changed(screen):
    said = block(screen, "level00.sums.total")
    assert "your code changed its argument 'numbers': work on a copy" in said
    assert "You sort the caller's list." in said  # a ghost that changes it too


@screen(total("return numbers[5]"))
def test_an_exception_shows_the_learners_own_lines_only(screen):
    assert block(screen, "level00.sums.total") == (
        "error       level00.sums.total                       test_all_numbers_count\n"
        "  total([2, 3, 5])\n  yours  raises IndexError: list index out of range\n  right  10\n"
        "  levels/level00/sums.py:10 in total: return numbers[5]\n  (and 2 more red cases)\n"
        "hint: nox -s hint -- level00.sums.total"
    )
    assert not any(word in screen.text for word in ("Traceback", "expect.py", "pluggy", "_pytest"))


@screen(total("return total(numbers)"))
def test_endless_recursion_is_an_error_like_others(screen):
    said = block(screen, "level00.sums.total")
    assert "RecursionError" in said and said.count("sums.py:10 in total") == 1


@screen(total("import pytest; pytest.skip('later')"))
def test_a_kata_can_not_skip_its_own_tests(screen):
    """Only the clock may leave a question open."""
    assert screen.code == 1 and "level00.sums.total" not in screen.project.progress()
    assert block(screen, "level00.sums.total").startswith("error")
    assert "the test was skipped (later)" in block(screen, "level00.sums.total")


@screen(total("raise SystemExit(3)"))
def test_a_call_of_exit_ends_one_test_only(screen):
    assert "SystemExit: 3\n  levels/level00/sums.py:10 in total" in block(screen, "level00.sums.total")
    assert "cleared     level00.sums.halves" in screen.text


@screen(changed("level00.sums", ("    return sum(numbers)", '    raise NotImplementedError("level00.sums.total")')))
def test_an_unfilled_kata_blocks_those_that_call_it(screen):
    assert block(screen, "level00.sums.total") == "todo        level00.sums.total"
    assert "blocked     level00.sums.mean                        by level00.sums.total: fix that first" in screen.text


@screen(total("while True: pass"), *LEVEL, "--timeout", "1", DOJO_SUMMARY="summary")
def test_an_endless_loop_is_stopped_once(screen):
    """Not once for each of its tests, nor for each kata that needs it."""
    assert block(screen, "level00.sums.total") == (
        "endless     level00.sums.total                       test_all_numbers_count\n"
        "  still running after 1 s, so it was stopped\n"
        "  levels/level00/sums.py:10 in total: while True: pass\n"
        "hint: nox -s hint -- level00.sums.total"
    )
    assert "blocked     level00.sums.mean                        by level00.sums.total: fix that first" in screen.text
    assert (screen.project.root / "summary").read_text() == "1 endless, 1 blocked, 1 todo, 2 todo in the worksheet"


FOREVER = 'ghost("level00.sums.total", "forever", "You wait.", change=("return sum(numbers)", "while numbers: pass"))\n'


def add_a_ghost_that_hangs(project):
    path = project.root / "solutions/level00/ghosts/sums.py"
    project.write("solutions/level00/ghosts/sums.py", FOREVER + path.read_text(encoding="utf-8"))


@screen(then(FIRST_ONLY, add_a_ghost_that_hangs), *LEVEL, KATA_PATIENCE="0.5")
def test_a_ghost_that_hangs_is_killed_and_the_others_still_speak(screen):
    assert "You return the first number: add all of them." in block(screen, "level00.sums.total")


@screen(total("print('numbers', numbers); return 3"))
def test_what_the_learner_prints_is_shown(screen):
    assert "printed: numbers [2, 3, 5]" in block(screen, "level00.sums.total")
    assert screen.text.count("printed:") == 1  # not under what is only blocked


@screen(total("print('x\\n' * 20); return 3"))
def test_many_prints_are_cut(screen):
    assert "printed: … and 15 more lines" in block(screen, "level00.sums.total")


@screen(total("return [9] * 100_000"))
def test_a_monstrous_value_is_cut(screen):
    assert "a list, where an int is right" in screen.text and len(screen.text) < 2500


# ---- the worksheet


def sheet(text: str):
    return written("levels/level00/worksheet.py", text)


@screen(sheet("seconds = 60\nkib = ...\n"))
def test_a_slip_is_named(screen):
    assert block(screen, "level00.worksheet.seconds") == (
        "wrong       level00.worksheet.seconds\n  seconds = 60, which is not right within 1%\n"
        "Your number, 60: those are minutes; an hour has 60 of them, each of 60 seconds."
    )
    assert "todo        level00.worksheet                        1 answer to work out in levels/level00/" in screen.text


@screen(sheet("seconds = 61\nkib = 'x'\n"))
def test_the_right_answer_is_not_shown(screen):
    assert "seconds = 61, which is not right within 1%" in screen.text and "3600" not in screen.text
    assert "kib = 'x' is a str: give a number" in screen.text


@screen(sheet("seconds = 3600.0\n"))
def test_a_lost_answer(screen):
    assert "cleared     level00.worksheet.seconds" in screen.text
    assert "kib is gone from the worksheet: put the line `kib = ...` back" in screen.text


@screen(sheet("seconds = 60 * minutes\nkib = 1024\n"))
def test_a_worksheet_that_does_not_run_says_so_once(screen):
    assert "NameError: name 'minutes' is not defined\n" in block(screen, "level00.worksheet.seconds")
    assert "levels/level00/worksheet.py:1 in <module>: seconds = 60 * minutes" in screen.text
    assert "error       level00.worksheet.kib                    for the same reason" in screen.text


# ---- the checkpoint


def timed(project):
    project.solve("level00")
    (project.root / "timed.py").rename(project.root / "levels/level00/checkpoint/test_00_timed.py")


@screen(timed, *LEVEL, KATA_CLOCK="inconclusive", DOJO_SUMMARY="summary")
def test_an_inconclusive_clock_blocks_nothing(screen):
    assert screen.code == 0 and "2200 of 2200 points" in screen.text
    assert "inconclusive: 20% of the reference's speed" in block(screen, "level00.checkpoint")
    assert "try again on a calmer machine" in block(screen, "level00.checkpoint").replace("\n  ", " ")
    assert (screen.project.root / "summary").read_text() == ""


@screen(timed, *LEVEL, KATA_CLOCK="fail", DOJO_SUMMARY="summary")
def test_right_but_slow(screen):
    """The run is red and says so; the level counts as cleared, for the clock never decides about that."""
    assert screen.code == 1 and "level00.checkpoint" in screen.project.progress()
    assert block(screen, "level00.checkpoint").startswith("slow        level00.checkpoint  ")
    assert "a sum: 20% of the reference's speed, 50% needed (best of 3 attempts)" in screen.text
    row = next(line for line in screen.text.splitlines() if line.startswith("    a sum "))
    assert row.split() == ["a", "sum", "1.0", "0.0", "0.0", "compute", "0%", "20%", "50%"] and len(row) <= 79
    assert "It is right, but slower than it need be: the points are yours" in screen.text
    assert (screen.project.root / "summary").read_text() == "1 slow"


def expect_another_mean(project):
    project.solve("level00")
    path = project.root / "levels/level00/checkpoint/test_00_checkpoint.py"
    path.write_text(path.read_text(encoding="utf-8").replace("== 1.5", "== 2.5"), encoding="utf-8")


@screen(expect_another_mean)
def test_red_on_the_real_thing_only(screen):
    assert block(screen, "level00.checkpoint") == (
        "wrong       level00.checkpoint                       test_all_together\n"
        "  the mean of 1 and 2 came back as something else\n  assert 1.5 == 2.5"
    )
    assert "The katas pass alone but not together: read what the checkpoint says above." in screen.text
    assert "1400 of 2200 points · next: level00.checkpoint" in screen.text


def test_the_checkpoint_opens_by_record_and_locks_after_an_edit(project):
    project.solve("level00")
    assert project.run(*LEVEL, "-k", "not together").code == 0
    alone = ("pytest", "levels/level00/checkpoint")
    opened = project.run(*alone)
    assert opened.code == 0 and "cleared     level00.checkpoint  " in opened.text
    project.change("level00.sums", ("sum(numbers)", "sum(list(numbers))"))
    locked = project.run(*alone, DOJO_SUMMARY="summary")
    assert locked.code == 1 and "its katas are not all cleared: run the whole level" in locked.text
    assert (project.root / "summary").read_text() == "the checkpoint is locked"
    assert "level00.checkpoint" in project.progress()  # an edit takes no points away


def test_the_learners_line_is_among_those_shown_however_far_given_code_goes_on(monkeypatch):
    """Messages between ranks, a server's plumbing: the error comes up three calls behind the kata."""
    folder = outcome.catalog.ROOT / "levels" / "level00"
    sources = {"mine": "def kata():\n    send()\n", "given": "def send(n=0):\n    send(n + 1) if n < 3 else 1 / 0\n"}
    names = {}
    for name, source in sources.items():
        exec(compile(source, str(folder / f"{name}.py"), "exec"), names)
    monkeypatch.setattr(outcome.catalog, "katas", lambda level: [SimpleNamespace(id="level00.mine.kata")])
    with pytest.raises(ZeroDivisionError) as caught:
        names["kata"]()
    shown = outcome.frames(caught.tb, [folder])
    assert shown[0].endswith("mine.py:2 in kata: ") and shown[-1].endswith("given.py:2 in send: ")
