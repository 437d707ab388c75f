"""A conversation in the terminal, on the learner's code where a level is cleared and on the solutions elsewhere.

The conversation itself is a module `chat` of a level; the last level that has one provides it. Its PARTS say which
level each part comes from; its Conversation answers in pieces, notes when each token was known, and what it moves.
"""

import contextlib
import importlib
import sys
import traceback
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from types import ModuleType

import click

from . import catalog, models, roofline
from .mount import mount_all, plan
from .progress import Progress

HELP = "Enter sends, Ctrl-C stops an answer, /clear forgets the conversation, /quit or Ctrl-D leaves."


def assemble(impl: str, name: str = "chat") -> tuple[ModuleType, str]:
    """Mount all levels; return the last one's module of that name, and "forward: yours · cache: solution"."""
    having = [level for level in catalog.level_names() if (catalog.ROOT / f"solutions/{level}/{name}.py").is_file()]
    if not having:
        raise ValueError(f"no level has a {name}.py: `git status` shows what is missing")
    table = plan([], impl, Progress())
    mount_all(table)
    module = importlib.import_module(f"{having[-1]}.{name}")
    yours = {level for level, folder in table.items() if folder.parent.name == "levels"}
    whose = [f"{part}: {'yours' if level in yours else 'solution'}" for part, level in module.PARTS.items()]
    return module, " · ".join(whose)


def write(pieces) -> None:
    """Print the pieces as they come. Ctrl-C ends the answer; a failure of a level's code becomes one sentence."""
    try:
        for piece in pieces:
            click.echo(piece, nl=False)
            sys.stdout.flush()
    except KeyboardInterrupt:
        click.echo(" (stopped)", nl=False)
    except Exception as error:
        click.echo()
        places = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).is_relative_to(catalog.ROOT)]
        inside = [f for f in places if Path(f.filename).relative_to(catalog.ROOT).parts[0] in ("levels", "solutions")]
        if not inside or isinstance(error, ValueError) and Path(inside[-1].filename).stem == "chat":
            raise
        path, line = Path(inside[-1].filename).relative_to(catalog.ROOT), inside[-1].lineno
        raise ValueError(
            f"{path.as_posix()}, line {line}: {type(error).__name__}: {error}; `nox -s {path.parts[1]}` judges it, "
            "and --impl solutions talks on the solutions"
        ) from error
    click.echo()


class Speed:
    """What the last answer came to: tokens a second, and the bytes of a token."""

    def __init__(self, params):
        self.sweep = roofline.Sweep(models.matrices(params))

    def measure(self) -> float:
        """Bytes a second over the weights themselves, with as many threads as the answer had, and right after it."""
        times = [perf_counter()]
        for _ in range(4):
            self.sweep()
            times.append(perf_counter())
        return self.sweep.bytes / min(after - before for before, after in pairwise(times))

    def lines(self, conversation) -> list[str]:
        """The footer of an answer, for what came after its first token."""
        n = len(conversation.times)
        if n < 2:
            return [f"  {n} token" + "s" * (n != 1)]
        seconds = (conversation.times[-1] - conversation.times[0]) / (n - 1)
        predicted, counted = conversation.bytes_per_token()
        bandwidth = self.measure()
        roof = bandwidth / predicted
        return [
            f"  {n} tokens · {1 / seconds:.1f} tokens/s, {1 / seconds / roof:.0%} of the {roof:.1f} that reading "
            f"{bandwidth / 1e9:.1f} GB/s allows",
            f"  MB per token: {predicted / 1e6:.0f} predicted · {counted / 1e6:.0f} counted · "
            f"{seconds * bandwidth / 1e6:.0f} in the time that was measured",
        ]


def once(text: str, impl: str, settings: dict) -> list[str]:
    """Print the answer to one text; return the lines to say after it."""
    sys.stdout.reconfigure(errors="replace")  # a model may write what a terminal can't show
    if not text.strip():
        raise ValueError('there is nothing to answer: --once "What is the capital of France?"')
    module, parts = assemble(impl)
    model = models.load()
    conversation = module.Conversation(model, **settings)
    write(conversation.answer(text))
    return [*Speed(model[1]).lines(conversation), f"  {parts}"]


def talk(impl: str, settings: dict, say) -> None:
    """Hold a conversation, until its reader leaves. `say` prints (text, style) lines."""
    sys.stdout.reconfigure(errors="replace")
    module, parts = assemble(impl)
    model = models.load()
    conversation, speed = module.Conversation(model, **settings), Speed(model[1])
    say([(f"{models.NAME} · {parts}", "bold"), (HELP, "dim")])
    while (text := heard()) not in (None, "/quit"):
        if text == "/clear":
            conversation.clear()
        elif text.startswith("/"):
            say([(HELP, "dim")])
        elif text:
            try:
                write(conversation.answer(text))
                say((line, "dim") for line in speed.lines(conversation))
            except ValueError as error:
                say([(f"  {error}", "bad")])


def heard() -> str | None:
    """The next line of the reader's, or None at the end. Ctrl-C while typing leaves as well."""
    with contextlib.suppress(ImportError):  # arrow keys and a history, where Python has them
        import readline  # noqa: F401
    try:
        return input("\n> " if sys.stdin.isatty() else "").strip()
    except (EOFError, KeyboardInterrupt):
        click.echo()
        return None
