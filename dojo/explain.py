"""What an id's outcomes add up to, and what they mean: the misconception, or another kata that stands in the way."""

from functools import partial

from . import catalog, outcome, report
from .ghosts import Ghost, Medium, suspects
from .outcome import Outcome

SLOW = 0.01  # seconds of a case that is tried on a ghost after all quick ones: most are out by then


class Explainer:
    """Makes the verdicts of one run; what was said about one kata bears on the next."""

    def __init__(self, levels: list[str], medium: Medium):
        self.medium = medium
        self.needs = {kata.id: kata.needs for level in levels for kata in catalog.katas(level)}
        self.verdicts: dict[str, report.Verdict] = {}
        self.broken: dict[str, list[str]] = {}  # id -> why its tests can't be imported
        self.blockers: dict[str, str] = {}  # blocked id -> the one to fix first
        self.hung: set[str] = set()  # endless, or in need of what is
        self.told: dict[tuple[str, ...], str] = {}  # the lines of an error -> the id that tells them

    def waits_for(self, id: str) -> str:
        """A kata that never ends and that `id` needs; "" if there is none."""
        return next((need for need in self.needs.get(id, ()) if need in self.hung), "")

    def decide(self, id: str, outcomes: list[Outcome], partial: bool) -> report.Verdict:
        """The verdict on an id. `partial`: only some of its tests ran."""
        red = sorted((one for one in outcomes if one.red), key=lambda one: outcome.RANK.index(one.kind))
        verdict = report.Verdict(id, "cleared")
        if red:
            first = red[0]  # the one that is shown
            verdict.state, verdict.test, verdict.lines = first.kind, first.test, first.lines
            verdict.more = sum(one.lines != [outcome.STOPPED] for one in red) - 1
            verdict.printed = first.printed
            self.explain(verdict, red, outcomes)
        elif partial:
            verdict.test = "only some of its tests ran, so this is not recorded"
        elif id.endswith("checkpoint"):
            verdict.test = f"{len(outcomes)} test{'s' * (len(outcomes) > 1)} on the real model"
        if not red:
            verdict.lines = [one.lines[0] for one in outcomes if one.kind == "inconclusive"]
        self.verdicts[id] = verdict
        return verdict

    def explain(self, verdict: report.Verdict, red: list[Outcome], outcomes: list[Outcome]) -> None:
        """Name the misconception; a kata that fails only because another one does is blocked by it."""
        if verdict.state == "todo":
            verdict.test, verdict.lines = "", []
        elif verdict.state == "locked":
            judged = any(id in self.verdicts for id in self.needs)
            verdict.test = "clear the katas first" if judged else "its katas are not all cleared: run the whole level"
            verdict.lines = []
        elif verdict.state == "blocked":
            self.block(verdict, verdict.lines[0])
        elif "worksheet" in verdict.id:
            verdict.sentences = red[0].sentences
        elif verdict.id in self.needs and verdict.id not in self.broken:
            self.accuse(verdict, *self.guilty(verdict.id, red, outcomes))
        if verdict.state == "endless":
            self.hung.add(verdict.id)
        if verdict.state == "error" and self.told.setdefault(tuple(verdict.lines), verdict.id) != verdict.id:
            verdict.test, verdict.lines = "for the same reason", []

    def accuse(self, verdict: report.Verdict, guilty: list[Ghost], wholly: bool) -> None:
        """Say what the ghosts say; where they explain only the case shown, another kata may still be the reason."""
        verdict.sentences = [ghost.sentence if wholly else f"In the case shown: {ghost.sentence}" for ghost in guilty]
        if guilty and wholly and all(ghost.convention for ghost in guilty):
            verdict.state = "convention"
        all_needs = catalog.all_needs(verdict.id)
        needs = [id for id, earlier in self.verdicts.items() if id in all_needs and earlier.state != "cleared"]
        if needs and not wholly:
            verdict.sentences = []
            self.block(verdict, needs[0])

    def block(self, verdict: report.Verdict, by: str) -> None:
        """Blocked by `by`, or by what blocks that."""
        root = by
        while root in self.blockers:
            root = self.blockers[root]
        if root != verdict.id:
            by = self.blockers[verdict.id] = root
        if self.waits_for(verdict.id):
            self.hung.add(verdict.id)
        verdict.state, verdict.test, verdict.lines, verdict.printed = "blocked", f"by {by}: fix that first", [], []

    def guilty(self, id: str, red: list[Outcome], outcomes: list[Outcome]) -> tuple[list[Ghost], bool]:
        """The ghosts that do what the learner's code does, in the red cases and in the green ones; see suspects."""
        pickles = [one.case and one.case.pickled() for one in red]
        if not all(pickles):
            return [], False
        # all are pickled before any ghost is mounted: in this process functions are no longer found by name afterwards
        seen = [case for one in outcomes for case in one.seen]
        green = [(case, pickle) for case in seen[-(self.medium.greens or len(seen)) :] if (pickle := case.pickled())]
        cases = [*((one.case, pickle) for one, pickle in zip(red, pickles)), *green]
        order = [pickle for _, pickle in sorted(cases, key=lambda case: case[0].seconds > SLOW)]
        found = [], False
        # nobody does the very same? whose counts differ where more than one is right may have the same idea
        for lenient in (False, True) if any(case.check for case, _ in green) else (False,):
            ask = partial(self.medium.ask, lenient=lenient)
            found = suspects(id, pickles, [pickle for _, pickle in green], ask, order, self.medium.budget)
            if found[0]:
                break
        return found
