"""Lines for people: verdicts, the maze, the score, the next step. Pure text: (line, style) pairs, printed by others."""

import re
import shutil
import textwrap
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import catalog
from .progress import Progress

Line = tuple[str, str]  # text, style: "good" "bad" "warn" "dim" "bold" ""
STYLES = {"cleared": "good", "todo": "dim", "locked": "dim", "blocked": "dim", "inconclusive": "warn"}
SYMBOLS = {"ᗧ": "C", "·": ".", "●": "*", "○": "o", "◉": "O", "…": "...", "²": "2", "→": "->", "ᵀ": "T", "√": "sqrt"}
WIDTH = 12  # of the state, before the id
COLUMNS = 110  # lines are never longer, however wide the terminal


def printable(encoding: str) -> bool:
    """Can a terminal of this encoding show the symbols?"""
    try:
        return bool("".join(SYMBOLS).encode(encoding))
    except (UnicodeEncodeError, LookupError):
        return False


def plain(text: str) -> str:
    """The text in ASCII."""
    return text.translate(str.maketrans(SYMBOLS)).encode("ascii", "replace").decode()


def wrapped(text: str) -> str:
    """The text in lines that fit the terminal; those after the first stand under the second column, if there is one."""
    width = min(COLUMNS, shutil.get_terminal_size((COLUMNS, 24)).columns)
    if len(text) <= width:
        return text
    text = re.sub(r"nox -s \S+(?: -- \S+)?", lambda command: command[0].replace(" ", "\0"), text)  # stay in one piece
    indent = " " * len(re.match(r"(\s*(?:\S+\s{2,})?)", text)[0])
    how = {"width": width, "subsequent_indent": indent, "break_long_words": False, "break_on_hyphens": False}
    if columns := re.match(r"(\s*\S+\s{2,}\S+)\s{2,}(\S.*)", text):  # a verdict: its remark goes to the next line
        lines = [columns[1], *textwrap.wrap(columns[2], initial_indent=indent, **how)]
    else:
        lines = textwrap.wrap(text, **how)
    return "\n".join(lines).replace("\0", " ")


@dataclass
class Verdict:
    """What a run says about one id."""

    id: str
    state: str  # cleared todo wrong convention error endless blocked locked slow inconclusive
    test: str = ""  # the first red test, or a remark
    lines: list[str] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    more: int = 0  # further red cases

    @property
    def red(self) -> bool:
        return self.state in ("wrong", "convention", "error", "endless", "slow")


def verdict_lines(verdict: Verdict) -> list[Line]:
    """One line, and for a red kata what was called, what came of it, and what it means."""
    style = STYLES.get(verdict.state, "bad")
    remark = "" if "worksheet" in verdict.id and verdict.red and verdict.lines else verdict.test
    lines = [(f"  {verdict.state:<{WIDTH}}{verdict.id:<40} {remark}".rstrip(), style)]
    pad = " " * (WIDTH + 2)
    lines += [(pad + "  " + line, "") for line in verdict.lines]
    yours = "Your number, " if ".worksheet." in verdict.id else ""  # a slip's sentence begins with it
    lines += [(pad + yours + line, "bold") for line in verdict.sentences]
    if verdict.red and verdict.more:
        lines.append((f"{pad}  (and {verdict.more} more red case{'s' * (verdict.more > 1)})", "dim"))
    lines += [(f"{pad}  printed: {line}", "dim") for line in verdict.printed]
    if verdict.red and verdict.lines and verdict.test and hints(verdict.id):
        lines.append((f"{pad}hint: nox -s hint -- {verdict.id}", "dim"))
    return lines


def header(level: str) -> list[Line]:
    return [("", ""), (f"{level} · {catalog.title(level)}".rstrip("· "), "bold"), ("", "")]


def imports(yours: list[str], earlier: list[str]) -> list[Line]:
    """Whose code the earlier levels are: the learner's where a level is cleared, else the solution's."""
    theirs = [level for level in earlier if level not in yours]
    parts = [f"{', '.join(levels)}: {whose}" for levels, whose in ((yours, "yours"), (theirs, "solutions")) if levels]
    return [(f"  imports {' · '.join(parts)}", "dim"), ("", "")]


def nothing(levels: Sequence[str]) -> list[Line]:
    """When no test was selected."""
    see = f"pytest --collect-only -q levels/{levels[0]}"
    return [(f"  No test of {', '.join(levels)} matches; see their names with `{see}`.", "bold")]


def pellets(level: str, done: set[str]) -> str:
    """The level as a corridor: eaten pellets behind the player, those left in front, the power pellet at its end."""
    katas = [k.id for k in catalog.katas(level)]
    eaten = sum(id in done for id in katas)
    if eaten == len(katas) and f"{level}.checkpoint" in done:
        return " ".join([*("·" * (eaten + 1)), "ᗧ"])
    power = "·" if f"{level}.checkpoint" in done else "◉"
    return " ".join([*("·" * eaten), "ᗧ", *("○" * (len(katas) - eaten)), power])


def footer(level: str, done: set[str], left: Sequence[str]) -> list[Line]:
    """The level's corridor, its points, and the first thing that is left."""
    points = catalog.points(level)
    won, total = sum(n for id, n in points.items() if id in done), sum(points.values())
    what = f"next: {left[0]}" if left else "all of it is done"
    return [
        ("", ""),
        (f"  {pellets(level, done)}", "warn"),
        (f"  {won} of {total} points · {what}", "bold"),
    ]


def worksheet_left(level: str, verdicts: Sequence[Verdict]) -> list[Line]:
    """One line for all answers that are still `...`."""
    left = sum("worksheet" in v.id and v.state == "todo" for v in verdicts)
    answers = f"{left} answer{'s' * (left > 1)} to work out in levels/{level}/worksheet.py"
    return [(f"  {'todo':<{WIDTH}}{level + '.worksheet':<40} {answers}", "dim")] if left else []


def advice(verdicts: Iterable[Verdict], level: str, left: Sequence[str]) -> str:
    """What to do next, in one sentence. `left`: what is not cleared, in this run or before."""
    by_state: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_state.setdefault("red" if verdict.red else verdict.state, []).append(verdict)
    if red := [v for v in by_state.get("red", []) if "worksheet" not in v.id]:
        module = red[0].id.split(".")[1]
        if module != "checkpoint":
            return f"Mend levels/{level}/{module}.py, then run nox -s {level} again."
        return ALONE.get(red[0].state, "The katas pass alone but not together: read what the checkpoint says above.")
    if todo := [v for v in by_state.get("todo", []) if "worksheet" not in v.id]:
        module = todo[0].id.split(".")[1]
        return f"Open levels/{level}/README.md, fill in levels/{level}/{module}.py, and run nox -s {level} again."
    if left and "worksheet" not in left[0]:
        return f"Run the whole level: nox -s {level}."
    if left or "red" in by_state:
        return f"The worksheet is left: levels/{level}/worksheet.py."
    following = next((f"; then nox -s {name}." for name in catalog.level_names() if name > level), ".")
    return f"Compare with the solutions: nox -s compare -- {level}{following}"


ALONE = {  # only the checkpoint is red
    "slow": "It is right, but slower than it need be: the points are yours, and the table above shows the gap.",
    "error": "Only the checkpoint is left: mend what it says above.",
}


def summary(verdicts: Collection[Verdict]) -> str:
    """ "12 todo, 3 wrong": what keeps a run from being green, for nox's last line."""
    counts: dict[str, int] = {}
    for verdict in verdicts:
        if verdict.state not in ("cleared", "locked", "inconclusive"):
            said = verdict.state + (" in the worksheet" if "worksheet" in verdict.id else "")
            counts[said] = counts.get(said, 0) + 1
    locked = "the checkpoint is locked" if any(verdict.state == "locked" for verdict in verdicts) else ""
    return ", ".join(f"{n} {state}" for state, n in counts.items()) or locked


def maze(progress: Progress) -> list[Line]:
    """All levels with their pellets and points, the whole score, and what next."""
    lines: list[Line] = [("", "")]
    total = won = 0
    following = ""
    for level in catalog.level_names():
        states = {id: progress.state(id) for id in catalog.ids(level)}
        done = {id for id, state in states.items() if state != "open"}
        points, full = progress.score(level), sum(catalog.points(level).values())
        total, won = total + full, won + points
        mark = "cleared" if progress.level_cleared(level) else ""
        lines.append((f"  {level}  {catalog.title(level):<34} {points:>5} of {full}  {mark}".rstrip(), "bold"))
        lines.append((f"           {pellets(level, done)}", "warn"))
        edited = [id for id, state in states.items() if state == "edited"]
        if edited:
            lines.append((f"           {len(edited)} edited since cleared: nox -s {level} judges them again", "dim"))
        if not following and any(state == "open" for id, state in states.items() if "worksheet" not in id):
            following = level
    what = f"next: nox -s {following}" if following else "every level is cleared"
    lines += [("", ""), (f"  {won} of {total} points · {what}", "bold")]
    return lines


def questions(level: str) -> list[tuple[str, str]]:
    """(question, answer) of a level's checkpoint, from `## 1. …?` in its answers.md."""
    path = catalog.ROOT / "solutions" / level / "answers.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    sections = [section.partition("\n") for section in f"\n{text}".split("\n## ")[1:]]
    return [(re.sub(r"^\d+\. ", "", question), answer.strip()) for question, _, answer in sections]


def hints(id: str) -> list[str]:
    """The staged hints of a kata, from the solutions' hints.md."""
    level = id.split(".")[0]
    path = catalog.ROOT / "solutions" / level / "hints.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    _, _, rest = f"\n{text}".partition(f"\n## {id}\n")
    section = rest.partition("\n## ")[0]
    found: list[str] = []
    for line in section.splitlines():
        number, dot, body = line.partition(". ")
        if dot and number.strip().isdigit():
            found.append(body.strip())
        elif line.strip() and found:
            found[-1] += " " + line.strip()
    return found


@dataclass
class Measured:
    """A judged call: what it moved and computed, how the clock judged it, and remarks for the table."""

    row: Any  # roofline.Row
    verdict: Any  # roofline.Verdict
    notes: list[str]


def table(measured: Sequence[Measured]) -> list[Line]:
    """The roofline table: the rates of each judged call, the roof that binds it, and its share of its own sweep."""
    if not measured:
        return []
    lines: list[Line] = [("", ""), ("  roofline: one thread, CPU time, best round", "bold")]
    head = f"    {'':<20}{'ms':>7}{'GFLOP/s':>8}{'GB/s':>6}{'bound by':>9}{'of roof':>8}{'of sweep':>9}{'need':>5}"
    lines.append((head, "dim"))
    for one in measured:
        row, verdict = one.row, one.verdict
        rates = f"{1e3 * row.seconds:>7.1f}{row.flops / row.seconds / 1e9:>8.1f}{row.bytes / row.seconds / 1e9:>6.1f}"
        shares = f"{row.bound:>9}{row.percent:>7.0f}%{100 * verdict.fraction:>8.0f}%{100 * verdict.need:>4.0f}%"
        style = {"pass": "good", "fail": "bad"}.get(verdict.state, "warn")
        lines.append((f"    {row.name:<20}{rates}{shares}", style))
        lines += [(f"      {note}", "dim") for note in one.notes]
    return lines


def as_json(measured: Measured) -> dict[str, float | str]:
    """What the benchmark's JSON keeps of a judged call."""
    row, verdict = measured.row, measured.verdict
    return {
        "flops": row.flops,
        "bytes": row.bytes,
        "seconds": row.seconds,
        "bound": row.bound,
        "percent_of_roof": row.percent,
        "fraction_of_sweep": verdict.fraction,
        "need": verdict.need,
        "state": verdict.state,
    }
