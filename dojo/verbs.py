"""The verbs of the command line. Each is a few lines over the module that does the work."""

import importlib.util
import os
import sys
from pathlib import Path

import click

from . import catalog, report, stubs
from .catalog import UnknownId
from .hardware import DTYPES
from .models import ModelMissing
from .progress import Progress

COLOURS = {"good": {"fg": "green"}, "bad": {"fg": "red"}, "warn": {"fg": "yellow"}, "bold": {"bold": True}}
COLOURS |= {"dim": {"dim": True}, "": {}}


def say(lines, wrap: bool = True, err: bool = False) -> None:
    """Print report lines: in colour on a terminal unless NO_COLOR is set, in ASCII where nothing else can be shown."""
    plain = not report.printable(getattr(sys.stdout, "encoding", None) or "ascii")
    colour = None if "NO_COLOR" not in os.environ else False
    for text, style in lines:
        text = report.plain(text) if plain else text
        click.secho(report.wrapped(text) if wrap else text, color=colour, err=err, **COLOURS[style])


class Verbs(click.Group):
    def invoke(self, context):
        """What a user can mend comes as one sentence, not as a traceback."""
        if not catalog.level_names():
            raise click.ClickException(f"there are no levels in {catalog.ROOT}: clone the project again beside it")
        try:
            return super().invoke(context)
        except (UnknownId, ValueError, ModelMissing) as error:
            raise click.ClickException(str(error)) from error
        except FileNotFoundError as error:
            raise click.ClickException(f"{error.filename} is missing: `git status` shows what else is") from error
        except OSError as error:
            raise click.ClickException(f"{error.filename}: {error.strerror}; make that place writable") from error


def whole(what: str) -> str:
    """An id as typed; that of a kata for one of its parts. UnknownId for what is no level, module or kata."""
    parts = what.split(".")
    level = catalog.level_name(parts[0])
    if len(parts) == 1:
        return level
    if len(parts) == 2 and parts[1] in catalog.modules(level):
        return what
    name = ".".join(parts[2:])
    return next((k.id for k in catalog.katas(level) if k.module == parts[1] and name in k.names), what)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def main() -> None:
    """Around the katas. Each verb is a nox session too: nox -s VERB -- ARGUMENTS."""


@main.command()
def maze() -> None:
    """Show all levels, your score, and what comes next."""
    progress = Progress()
    say(report.maze(progress))
    say([(f"  note: {note}", "warn") for note in progress.notes])
    click.echo()


@main.command()
@click.argument("id", required=False)
def hint(id: str | None) -> None:
    """Show the hints of a kata (by default of your next one), one more each time."""
    progress = Progress()
    id = id or next(
        (k.id for level in catalog.level_names() for k in catalog.katas(level) if progress.state(k.id) != "cleared"), ""
    )
    if not id:
        raise click.ClickException("every kata is cleared: name the one whose hints you want, nox -s hint -- ID")
    kata = catalog.kata(whole(id) if id.startswith("level") else id)
    hints = report.hints(kata.id)
    if not hints:
        raise click.ClickException(f"{id} has no hints: read its docstring, and the lesson")
    shown = progress.reveal_hint(kata.id, len(hints))
    click.echo(f"\n{kata.id}: {kata.summary}\n")
    for number, text in enumerate(hints[:shown], 1):
        click.echo(click.wrap_text(f"{number}. {text}", 96, "  ", "     "))
    left = len(hints) - shown
    after = f"{left} more: run it again" if left else f"the last one; the solution: nox -s compare -- {kata.id}"
    click.echo(f"\n  ({after})\n")
    say([(f"  note: {note}", "warn") for note in progress.notes])


@main.command()
@click.argument("what")
def reset(what: str) -> None:
    """Put a kata, a module or a level back to its stub; a copy of your file is kept."""
    what = whole(what)
    for path, text in stubs.fresh(what):
        name = path.relative_to(catalog.ROOT).as_posix()
        name = f"{what} in {name}" if what.count(".") > 1 else name
        if path.is_file() and path.read_bytes() == text.encode():
            click.echo(f"{name} is a stub already")
            continue
        kept = stubs.replace(path, text)
        where = (
            f"; yours is kept as {kept.relative_to(catalog.ROOT).as_posix()}, copy it back to undo this" if kept else ""
        )
        click.echo(f"{name} is a stub again{where}")


@main.command()
@click.argument("what")
@click.option("--no-time", is_flag=True, help="only the difference, not what it buys")
def compare(what: str, no_time: bool) -> None:
    """Show how the solution of a level, a module or a kata differs from yours, and what that buys."""
    what = whole(what)
    if what.count(".") == 1 and what.split(".")[1] not in catalog.modules(what.split(".")[0]):
        raise UnknownId(f"there is no {what!r}; name a level, one of its modules or a kata")
    lines = stubs.compare(what)
    styles = {"-": "bad", "+": "good", "@": "dim"}
    say(((line, "bold" if line[:3] in ("---", "+++") else styles.get(line[:1], "")) for line in lines), wrap=False)
    if not lines:
        click.echo(f"{what}: yours and the solution are the same")
    elif not no_time:
        timed(what)


@main.command()
@click.argument("level")
def bench(level: str) -> None:
    """Time yours beside the solution, a naive way and a library's; each run is kept, and the last one shown."""
    from .raced import draw

    what = whole(level)
    if not (found := timed(what)):
        raise click.ClickException(f"{what} has no benchmarks: try its level, nox -s bench -- {what.split('.')[0]}")
    path = catalog.ROOT / "labs-out" / f"bench-{what}.png"
    if draw(found, path):
        click.echo(f"  wrote {path}\n")


def timed(what: str) -> list:
    """Run the benchmarks of a level, a module or a kata, and print their tables."""
    from . import raced

    level = what.split(".")[0]
    if not raced.has_benchmarks(level):
        return []
    from . import bench as timing  # brings pytest, which takes half a second

    found = timing.run(level, what, lambda one: say(raced.lines(one), wrap=False))
    say([*(raced.legend(found) if found else ()), ("", "")])
    return found


@main.command()
@click.argument("level")
def watch(level: str) -> None:
    """Judge your level at each save: what the saved file may have changed, within a second or two. Ctrl-C ends it."""
    from .watch import watch as follow

    level = catalog.level_name(level)
    say([(f"watching levels/{level}: save a file, or Ctrl-C", "bold")])
    follow(level, lambda text: say([("", ""), (text, "bold")]))


@main.command()
def doctor() -> None:
    """Look at the machine, the environment and the model; each fault comes with its fix."""
    from .doctor import faults, findings

    say(findings())
    sys.exit(1 if faults() else 0)


@main.command()
@click.argument("level")
@click.option("--from", "file", type=click.Path(exists=True, dir_okay=False), help="your own GHOSTS and ALTERNATIVES")
@click.option("--workers", type=int, help="processes; by default one for each core")
@click.option("-k", "words", default="", help="only programs whose id and name contain these words")
def gauntlet(level: str, file: str | None, workers: int | None, words: str) -> None:
    """Try to fool a level's tests: every wrong program must be killed, every right one pass."""
    from .gauntlet import gauntlet as results

    level = catalog.level_name(level)
    if file:
        readable(file)
    bad = total = 0
    for result in results(level, file or "", workers, words):
        total, bad = total + 1, bad + (not result.ok)
        say([(result.line, "" if result.ok else "bad")], wrap=False)
    if not total:
        raise click.ClickException(f"no program's id and name contain {words!r}: try without -k")
    programs = "1 program" if total == 1 else f"{total} programs"
    say([(f"{programs}, {bad} of them not as they should be", "bad" if bad else "good")])
    sys.exit(1 if bad else 0)


def readable(file: str) -> None:
    """Can an outsider's file be used? Else one sentence, before any worker is started."""
    from .gauntlet import outsiders

    try:
        programs = outsiders(file)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise click.ClickException(f"{file} can't be run ({said}): mend it, then try again") from error
    if not any(programs.values()):
        raise click.ClickException(
            f'{file} is empty to me: write GHOSTS = {{"module.kata": {{"name": function}}}} in it'
        )


@main.command("stubs")
@click.option("--check", is_flag=True, help="compare only; exit 1 if a stub differs from its solution")
@click.argument("levels", nargs=-1)
def write_stubs(check: bool, levels: tuple[str, ...]) -> None:
    """Derive the stubs in levels/ from the solutions. For contributors: a filled stub would be replaced (and kept)."""
    names = [catalog.level_name(name) for name in levels] or catalog.level_names()
    if check:
        lines = [line for level in names for line in stubs.differences(level, catalog.ROOT / "levels" / level)]
        click.echo("\n".join(lines) or f"the stubs of {len(names)} level(s) are what their solutions say")
        sys.exit(1 if lines else 0)
    for level in names:
        for path in stubs.write(level, catalog.ROOT / "levels" / level):
            click.echo(f"wrote {path.relative_to(catalog.ROOT)}")


@main.command("solutions_branch")
def solutions_branch() -> None:
    """Make a local git branch `solutions`, in which the stubs are replaced by their solutions."""
    click.echo(stubs.solutions_branch())


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("level")
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def lab(level: str, name: str | None, arguments: tuple[str, ...]) -> None:
    """Run a level's lab on your code (the solution's, for levels that are not cleared). --help after NAME helps."""
    from .mount import mount_all, plan

    level = catalog.level_name(level)
    labs = sorted(path.stem for path in (catalog.ROOT / "levels" / level / "labs").glob("*.py"))
    if not labs:
        raise click.ClickException(f"{level} has no labs: see the other levels")
    if name not in labs:
        raise click.ClickException(f"{level} has the labs {', '.join(labs)}: nox -s lab -- {level} {labs[0]}")
    table = plan([], "levels", Progress())
    mount_all(table)
    whose = "your code" if table[level].parent.name == "levels" else f"the solution, until {level} is cleared"
    click.echo(f"{level} lab {name}, on {whose}")
    path = catalog.ROOT / "levels" / level / "labs" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"lab_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(list(arguments))


@main.command()
@click.argument("level")
@click.option("--again", is_flag=True, help="all questions, not only those that you have not had yet")
def quiz(level: str, again: bool) -> None:
    """Ask a level's checkpoint questions, one at a time; the answer comes after Enter, and you grade yourself."""
    level, progress = catalog.level_name(level), Progress()
    questions = report.questions(level)
    if not questions:
        raise click.ClickException(f"{level} has no questions: see the other levels")
    for number, (question, answer) in enumerate(questions, 1):
        if progress.had(level, question) and not again:
            continue
        click.echo(f"\n{click.wrap_text(f'{number}. {question}', 96, '', '   ')}")
        try:
            if click.prompt("  Enter shows the answer, q ends", default="", show_default=False).strip() == "q":
                break
            click.echo(f"\n{click.wrap_text(answer, 96, '  ', '  ', preserve_paragraphs=True)}\n")
            progress.grade(level, question, click.confirm("  Did you have it?", default=True))
        except click.Abort:  # Ctrl-C, or the end of the input
            break
    had = sum(progress.had(level, question) for question, _ in questions)
    more = "--again asks them once more" if had == len(questions) else "the others come next time"
    click.echo(f"\nYou have {had} of {len(questions)}; {more}.")
    say([(f"  note: {note}", "warn") for note in progress.notes])


PART, COUNT = click.FloatRange(0, 1), click.IntRange(0)
CHOSEN = {"temperature": (click.FloatRange(0), 0.2), "top-k": (COUNT, 0), "min-p": (PART, 0.0)}
CHOSEN |= {"top-p": (click.FloatRange(0, 1, min_open=True), 0.9), "max-tokens": (COUNT, 256), "room": (COUNT, 2048)}
CHOSEN |= {"repetition-penalty": (click.FloatRange(0, min_open=True), 1.1), "seed": (int, None)}
CHOSEN |= {"presence-penalty": (float, 0.0), "frequency-penalty": (float, 0.0)}


def settings(command):
    """The options that say how tokens are chosen: a conversation takes them by these names."""
    command = click.option("--stop", multiple=True, help="ends an answer before this text; may be given again")(command)
    for name, (kind, default) in reversed(CHOSEN.items()):
        command = click.option(f"--{name}", type=kind, default=default, show_default=True)(command)
    return command


@main.command()
@click.option("--once", metavar="TEXT", help="answer this one text on stdout, and what is said about it on stderr")
@click.option("--impl", type=click.Choice(["levels", "solutions"]), default="levels", help="whose code talks")
@settings
def chat(once: str | None, impl: str, **chosen) -> None:
    """Talk to the model, on the levels that you have cleared and on the solutions of the others."""
    from . import chat as conversation

    if once is None:
        conversation.talk(impl, chosen, say)
    else:
        say(((line, "dim") for line in conversation.once(once, impl, chosen)), err=True)


def program(name: str, text: str) -> None:
    """A verb that a level's module of the same name performs, with the words behind it."""

    @main.command(name, help=text, context_settings={"ignore_unknown_options": True, "help_option_names": []})
    @click.option("--impl", type=click.Choice(["levels", "solutions"]), default="levels", help="whose code runs")
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def verb(impl: str, words: tuple[str, ...]) -> None:
        from .chat import assemble

        module, parts = assemble(impl, name)
        module.main(list(words), parts)


program("serve", "Put the model behind an OpenAI-compatible endpoint, on this machine only. Ctrl-C ends it.")
program("load", "Send open-loop load to any OpenAI-compatible server, and report its latencies. --help helps.")

PICTURE = "labs-out/hardware.png"


@main.command()
@click.argument("words", nargs=-1)
@click.option("--dtype", type=click.Choice(DTYPES), default="bf16", show_default=True, help="of the rates and ridges")
@click.option("--sort", "by", type=click.Choice(["ridge", "bandwidth", "memory", "year", "rate", "name"]))
@click.option("--no-measure", is_flag=True, help="leave this machine out")
@click.option("--plot", is_flag=False, flag_value=PICTURE, metavar="[FILE.png]", help=f"draw them [default: {PICTURE}]")
def hardware(words: tuple[str, ...], dtype: str, by: str | None, no_measure: bool, plot: str | None) -> None:
    """Show accelerators with their two roofs and the ridge (all, or those that WORDS name), and this machine."""
    from . import machine
    from .hardware import load
    from .raced import points

    if plot and not plot.lower().endswith((".png", ".svg", ".pdf")):
        words, plot = (*words, plot), PICTURE  # `--plot h100`: that was a word
    chips = machine.ordered(machine.chosen(load(), words), by, dtype)
    drawn = machine.drawable(chips, dtype) if plot else []
    here = None if no_measure else machine.measure()
    say(machine.table(chips, dtype, here), wrap=False)
    say([*machine.disturbed(here), *machine.notes(chips, dtype)])
    if plot:
        path = catalog.ROOT / PICTURE if plot == PICTURE else Path(plot)
        machine.draw(drawn, dtype, here, list(points()), path)
        click.echo(f"  wrote {path}\n")
