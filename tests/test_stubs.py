"""dojo.stubs: solutions become stubs, and a learner's work is put back to one without losing anything."""

import ast

import pytest

from dojo import catalog, stubs
from dojo.stubs import BadFence, only_adds_lines, stub

SUMS = '''"""Sums."""

import math


def total(x):
    """Return the sum.

    ● · about 2 lines
    """
    if not x:
        return 0
    # solution:begin add them up
    found = sum(x)
    return found
    # solution:end


def part(x):
    """Return a part.

    ● · about 1 line · part of Pool.take
    """
    # solution:begin which?
    return x
    # solution:end


class Pool:
    """Hold things."""

    TEXT = """
    # solution:begin this is a string
    # solution:end
    """

    @staticmethod
    def size(x):
        """Return the size.

        ● · about 3 lines
        """
        try:
            n = len(x)
            # solution:begin twice
            return 2 * n
            # solution:end
        finally:
            # solution:begin once more
            del x
            # solution:end

    def take(self):
        """Return a thing.

        ● · about 1 line
        """

        def inner():
            # solution:begin inside
            return 1
            # solution:end

        return inner()


def given(x):
    return math.sqrt(x)
'''
WORKSHEET = '''"""By hand."""

from math import pi

# 1. An area?
area = 2 * pi  # r = √2

# 2. Two lines?
sum_ = (
    1
    + 2
)
'''


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "ROOT", tmp_path)
    for tree in ("levels", "solutions"):
        (tmp_path / tree / "level00").mkdir(parents=True)
    for name, text in {"sums.py": SUMS, "worksheet.py": WORKSHEET}.items():
        (tmp_path / "solutions/level00" / name).write_text(text, encoding="utf-8")
    catalog.katas.cache_clear()
    stubs.write("level00", tmp_path / "levels/level00")
    yield tmp_path / "levels/level00"
    catalog.katas.cache_clear()


def kata(body):
    return f'def f(x):\n    """Return.\n\n    ● · about 1 line\n    """\n{body}'


# ---- the stub


@pytest.mark.parametrize("level", catalog.level_names())
def test_every_stub_of_the_repository_follows_the_rule(level):
    """Solving only adds lines; an unfilled kata names itself; nothing of the fences is left."""
    raised = set()
    for module, text in stubs.derive(level).items():
        solution = catalog.read(catalog.ROOT / "solutions" / level / f"{module}.py")
        assert "solution:" not in text
        if module == "worksheet":
            assert [id.rpartition(".")[2] for id in catalog.answers(level)] == emptied(text)
            continue
        assert only_adds_lines(text, solution)
        raised |= {line.split('"')[1] for line in text.splitlines() if "raise NotImplementedError(" in line}
    assert raised == {k.id for k in catalog.katas(level)}


def emptied(text):
    return [ast.unparse(n).removesuffix(" = ...") for n in ast.parse(text).body if isinstance(n, ast.Assign)]


def test_what_stands_between_fences_becomes_a_todo_and_a_raise():
    text = stub(SUMS, "level00", "sums")
    expected = "    if not x:\n        return 0\n    # TODO: add them up\n"
    expected += '    raise NotImplementedError("level00.sums.total")\n\n\ndef part(x):'
    assert expected in text and "found = sum(x)" not in text
    assert "def given(x):\n    return math.sqrt(x)" in text, "what is not fenced is given"


def test_methods_nested_functions_and_parts_name_their_kata():
    text = stub(SUMS, "level00", "sums")
    assert text.count('            raise NotImplementedError("level00.sums.Pool.size")') == 2
    assert '            raise NotImplementedError("level00.sums.Pool.take")' in text
    assert '    # TODO: which?\n    raise NotImplementedError("level00.sums.Pool.take")' in text


def test_a_fence_in_a_string_is_text():
    assert "    # solution:begin this is a string\n" in stub(SUMS, "level00", "sums")


def test_deriving_a_stub_from_a_stub_changes_nothing():
    once = stub(SUMS, "level00", "sums")
    assert stub(once, "level00", "sums") == once
    emptied = stubs.empty_worksheet(WORKSHEET)
    assert stubs.empty_worksheet(emptied) == emptied


FENCES = {
    "unclosed": (kata("    # solution:begin a\n    return x\n"), "line 6: this fence is never closed"),
    "nested": (kata("    # solution:begin a\n    # solution:begin b\n    return x\n"), "line 7: .* pair up"),
    "closed only": (kata("    return x\n    # solution:end\n"), "line 7: this fence does not pair up"),
    "outside": ("# solution:begin a\nx = 1\n# solution:end\n", "line 1: a fence outside any kata"),
    "in no kata": (
        "def f():\n    # solution:begin a\n    return 1\n    # solution:end\n",
        "line 2: a fence outside any",
    ),
    "without a hint": (kata("    # solution:begin\n    return x\n    # solution:end\n"), "line 6: write"),
    "misspelt": (kata("    #solution:begin a\n    return x\n    #solution:end\n"), "line 6: write"),
    "capital": (kata("    # Solution:Begin a\n    return x\n    # Solution:End\n"), "line 6: write"),
    "misnamed": (kata("    # solution:start a\n    return x\n    # solution:stop\n"), "line 6: write"),
    "behind code": (kata("    y = x  # solution:begin a\n    return x\n    # solution:end\n"), "line 6: write"),
    "half a statement": (
        kata("    if x:\n    # solution:begin a\n        return x\n    # solution:end\n"),
        "not parse",
    ),
}


@pytest.mark.parametrize("source, why", FENCES.values(), ids=FENCES)
def test_a_bad_fence_is_refused_and_never_gives_the_solution_away(source, why):
    with pytest.raises(BadFence, match=why):
        stub(source, "level00", "sums")


def test_the_last_line_may_lack_its_end_and_strings_may_hold_any_character():
    source = kata('    y = "\x0c\u2028\x1c"\n    # solution:begin a\n    return y\n    # solution:end')
    text = stub(source, "level00", "sums")
    assert text.endswith('    y = "\x0c\u2028\x1c"\n    # TODO: a\n    raise NotImplementedError("level00.sums.f")\n')


def test_a_worksheet_keeps_its_questions_and_loses_its_answers():
    text = stub(WORKSHEET, "level00", "worksheet")
    assert text == '"""By hand."""\n\nfrom math import pi\n\n# 1. An area?\narea = ...\n\n# 2. Two lines?\nsum_ = ...\n'
    with pytest.raises(BadFence, match="line 1: an answer is `name = value`"):
        stub("area: float = 3\n", "level00", "worksheet")


def test_the_rule_sees_changed_moved_and_extra_lines():
    text = stub(SUMS, "level00", "sums")
    assert only_adds_lines(text, SUMS)
    for old, new in [("return 0", "return 1"), ("import math\n", "import math\nimport sys\n"), ("Hold things", "Hold")]:
        assert not only_adds_lines(text.replace(old, new), SUMS)


# ---- the learner's files


def test_writing_twice_changes_nothing_and_line_ends_do_not_matter(project):
    assert stubs.write("level00", project) == [] and stubs.differences("level00", project) == []
    path = project / "sums.py"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert stubs.write("level00", project) == [] and stubs.differences("level00", project) == []
    path.write_bytes(b"\xff\xfe")
    assert stubs.differences("level00", project)
    assert stubs.write("level00", project) == [path]


def test_a_replaced_file_is_kept_even_twice_within_a_second(project):
    path, kept = project / "sums.py", []
    for i in range(4):
        path.write_text(f"x = {i}\n", encoding="utf-8")
        kept.append(stubs.replace(path, "y = 1\n"))
    assert [p.read_text(encoding="utf-8") for p in kept] == [f"x = {i}\n" for i in range(4)]
    assert len(set(kept)) == 4 and kept[0].name.startswith("level00.sums.")
    assert path.read_text(encoding="utf-8") == "y = 1\n" and sorted(project.glob("*.tmp")) == []


def test_nothing_is_replaced_when_no_copy_can_be_kept(project, monkeypatch):
    path = project / "sums.py"
    path.write_text("mine = 1\n", encoding="utf-8")
    monkeypatch.setattr(stubs.shutil, "copy2", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError):
        stubs.replace(path, "y = 1\n")
    assert path.read_text(encoding="utf-8") == "mine = 1\n"


def test_a_new_file_leaves_no_copy(project):
    assert stubs.replace(project / "new.py", "y = 1\n") is None


def solved(project, *pairs):
    path, text = project / "sums.py", SUMS
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return path


def test_resetting_a_kata_keeps_the_others_and_the_learners_helpers(project):
    helper = "def mine(x):\n    return x + 1\n\n\ndef total"
    solved(project, ("def total", helper), ("return math.sqrt(x)", "return mine(x)"))
    text = stubs.reset_kata("level00.sums.total")
    assert 'raise NotImplementedError("level00.sums.total")' in text and text.count("NotImplementedError") == 1
    for kept in (helper, "return 2 * n", "return x\n", "return mine(x)"):
        assert kept in text
    ast.parse(text)


def test_resetting_a_kata_resets_its_parts_and_methods_with_decorators(project):
    solved(project)
    text = stubs.reset_kata("level00.sums.Pool.take")
    assert text.count('NotImplementedError("level00.sums.Pool.take")') == 2 and "return 2 * n" in text
    solved(project, ("    @staticmethod\n", "    @staticmethod\n    @abs\n"))
    text = stubs.reset_kata("level00.sums.Pool.size")
    assert text.count("@staticmethod") == 1 and "@abs" not in text and text.count("Pool.size") == 2
    ast.parse(text)


def test_resetting_everything_gives_the_stub(project):
    path = solved(project)
    for kata in catalog.katas("level00"):
        path.write_text(stubs.reset_kata(kata.id), encoding="utf-8")
    expected = stub(SUMS, "level00", "sums")
    assert [x for x in path.read_text(encoding="utf-8").splitlines() if "# solution:" not in x] == [
        x for x in expected.splitlines() if "# solution:" not in x
    ]


def test_crlf_and_a_missing_last_line_end_survive_a_reset(project):
    """A learner on Windows: the file keeps its line ends, and its other lines are what they were."""
    path = project / "sums.py"
    path.write_bytes(SUMS.rstrip("\n").replace("\n", "\r\n").encode())
    stubs.replace(path, stubs.reset_kata("level00.sums.total"))
    data = path.read_bytes()
    assert data.count(b"\r\n") == data.count(b"\n") and b"\r\r" not in data and b"level00.sums.total" in data
    assert data.endswith(b"return math.sqrt(x)\r\n")


@pytest.mark.parametrize("spoilt", ["def total(x:\n", "x = 1\n", "if 1:\n    def total(x): ...\n", None, b"\xe9 = 1"])
def test_a_file_that_can_not_be_taken_apart_says_what_to_do(project, spoilt):
    path = project / "sums.py"
    path.unlink() if spoilt is None else path.write_bytes(spoilt if isinstance(spoilt, bytes) else spoilt.encode())
    with pytest.raises(ValueError, match=r"reset the whole file with `nox -s reset -- level00\.sums`"):
        stubs.reset_kata("level00.sums.total")
    assert [p.name for p, _ in stubs.fresh("level00.sums")] == ["sums.py"]


def test_a_reset_may_name_a_level_a_module_or_a_kata(project):
    assert [p.name for p, _ in stubs.fresh("0")] == ["sums.py", "worksheet.py"]
    assert [text for _, text in stubs.fresh("level00.sums")] == [stub(SUMS, "level00", "sums")]
    assert len(stubs.fresh("level00.sums.total")) == 1
    for wrong in ("level07", "level00.smus", "level00.sums.totl", "", "level07.sums.total"):
        with pytest.raises(catalog.UnknownId):
            stubs.fresh(wrong)


def test_a_comparison_shows_code_and_neither_docstrings_nor_fences(project):
    lines = stubs.compare("level00.sums.total")
    added = [line for line in lines if line.startswith("+") and not line.startswith("+++")]
    assert added == ["+    found = sum(x)", "+    return found"]
    solved(project)
    assert stubs.compare("level00.sums") == [] and stubs.compare("level00")
