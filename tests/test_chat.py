"""`python -m dojo chat`: whose code talks, what stdout gets, and one sentence for what goes wrong."""

from itertools import pairwise

import pytest
import torch

from dojo import catalog, models
from tests.controls import solutions_of
from tests.miniature import screen, solved, then, written

# a conversation without a model: it says what it was asked, backwards, and fails when asked to
TALK = """
from time import perf_counter

PARTS = {"sums": "level00", "more": "level01"}


class Conversation:
    def __init__(self, model, **settings):
        self.settings, self.heard = settings, []

    def clear(self):
        self.heard = []

    def answer(self, text):
        self.heard.append(text)
        self.times = []
        if text == "fail":
            [][0]
        if text == "long":
            raise ValueError("that does not fit: start a new one")
        for letter in reversed(text):
            self.times.append(perf_counter())
            yield letter
        yield f" {len(self.heard)} {self.settings['temperature']}"

    def bytes_per_token(self):
        return 2e6, 3e6
"""
TALKING = written("solutions/level01/chat.py", TALK)
CHAT = ("dojo", "chat")


def cleared(project):
    """level00 is cleared by its learner."""
    TALKING(project)
    project.solve("level00")
    project.run("pytest", "levels/level00")


@screen(TALKING, *CHAT, "--once", "abc", "--temperature", "0.5")
def test_one_answer_goes_to_stdout_alone(screen):
    """A script can use it: what is said about the answer stands on stderr."""
    assert screen.code == 0 and screen.text == "cba 1 0.5\n"
    assert "  3 tokens · " in screen.err and "MB per token: 2 predicted · 3 counted · " in screen.err
    assert screen.err.endswith("  sums: solution · more: solution\n")


@screen(cleared, *CHAT, input="ab\n\n/help\nx\n/clear\nlong\ny\n/quit\nz\n")
def test_a_conversation_says_whose_code_talks(screen):
    head, _, rest = screen.text.partition("\n")
    assert head == "SmolLM2-135M-Instruct · sums: yours · more: solution" and screen.code == 0
    assert "ba 1 0.2\n  2 tokens · " in rest and "x 2 0.2\n  1 token\n" in rest
    assert "  that does not fit: start a new one\n" in rest and "y 2 0.2\n" in rest and "z" not in rest
    assert screen.text.count("Ctrl-C stops an answer") == 2, "/help is no message to the model"


@screen(cleared, *CHAT, "--once", "a", "--impl", "solutions")
def test_the_solutions_talk_when_asked_to(screen):
    assert screen.text == "a 1 0.2\n" and "sums: solution" in screen.err


@screen(TALKING, *CHAT, "--once", "fail")
def test_a_failure_of_a_level_is_one_sentence(screen):
    line = next(n for n, text in enumerate(TALK.lstrip("\n").splitlines(), 1) if "[][0]" in text)
    said = f"Error: solutions/level01/chat.py, line {line}: IndexError: list index out of range; "
    assert screen.code == 1 and screen.err.startswith(said + "`nox -s level01` judges it") and not screen.text.strip()


BAD = {
    "nothing": (TALKING, ("--once", " "), 'there is nothing to answer: --once "What is the capital of France?"'),
    "range": (TALKING, ("--once", "a", "--top-p", "0"), "0.0 is not in the range 0<x<=1"),
    "no level": (lambda project: None, ("--once", "a"), "no level has a chat.py"),
    "long": (TALKING, ("--once", "long"), "that does not fit: start a new one"),
}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [pytest.param(a, s, id=n, marks=screen(setup, *CHAT, *a)) for n, (setup, a, s) in BAD.items()],
)
def test_bad_input_is_one_sentence(screen, arguments, said):
    assert screen.code and said in " ".join(screen.err.split()) and "Traceback" not in screen.err


@screen(then(TALKING, solved("level00")), *CHAT, "--once", "a", KATA_MODEL="nowhere.gguf", KATA_CACHE="empty")
def test_without_the_model_it_says_how_to_get_it(screen):
    assert screen.code == 1 and "KATA_MODEL names nowhere.gguf, which is not a file" in screen.err


# ---- the conversation of the levels themselves


@pytest.fixture(scope="module", params=["level03", "level07", "level12"])
def chat(request):
    """The conversation as level 03 makes it, and with the parts that later levels put in."""
    import importlib

    with solutions_of(*(name for name in catalog.level_names() if name <= request.param)):
        yield importlib.import_module(f"{request.param}.chat")


def greedy(chat, **settings):
    return chat.Conversation(models.load(), temperature=0.0, **settings)


def test_a_second_message_costs_its_own_tokens_only(chat):
    """The tokens that run are the new ones; the answer is the one that the whole conversation gets from scratch."""
    talk, fresh = greedy(chat, max_tokens=6), greedy(chat, max_tokens=6)
    first = "".join(talk.answer("My name is Bob."))
    held = talk.cache.length
    second = "".join(talk.answer("What is my name?"))
    fresh.messages = [{"role": "user", "content": "My name is Bob."}, {"role": "assistant", "content": first}]
    assert "".join(fresh.answer("What is my name?")) == second
    assert talk.ids == fresh.ids and talk.cache.length == fresh.cache.length > held
    prompt = fresh.tokenizer.encode_chat(talk.messages[:3])
    assert talk.ids[:held] == prompt[:held], "this answer is tokenized again as it was made, so all of it is reused"


def test_other_parts_say_the_same(chat):
    """Whatever holds the keys and values, and however attention is computed: the text is the model's."""
    talk = greedy(chat, max_tokens=12, room=128)
    assert "".join(talk.answer("What is the capital of France?")) == "The capital of France is Paris."
    assert set(chat.PARTS) >= {"forward", "loop", "cache", "sampler"}


def test_what_was_stopped_or_does_not_fit_does_no_harm(chat):
    talk = greedy(chat, max_tokens=8, room=64)
    pieces = talk.answer("Count from 1 to 9.")
    said = next(pieces) + next(pieces)
    pieces.close()
    assert talk.messages[-1] == {"role": "assistant", "content": said}
    with pytest.raises(ValueError, match="do not fit into a conversation of 64"):
        list(talk.answer("again " * 60))
    assert len(talk.messages) == 2
    talk.clear()
    assert "".join(talk.answer("Count from 1 to 9.")).startswith(said)


def test_a_stop_string_ends_the_answer_and_is_not_shown(chat):
    whole = "".join(greedy(chat, max_tokens=12).answer("Count from 1 to 9."))
    stop = whole[len(whole) // 2 :][:3]
    assert "".join(greedy(chat, max_tokens=12, stop=(stop,)).answer("Count from 1 to 9.")) == whole.split(stop)[0]


def test_the_same_seed_gives_the_same_answer(chat):
    texts = [
        "".join(chat.Conversation(models.load(), max_tokens=8, temperature=1.5, seed=seed).answer("Hi"))
        for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_the_bytes_of_a_token_are_predicted_and_counted(chat):
    talk = greedy(chat, max_tokens=3)
    list(talk.answer("Hi"))
    held = talk.cache.length
    predicted, counted = talk.bytes_per_token()
    weights = sum(w.nbytes for w in talk.params.values())
    assert weights < predicted < counted < 1.1 * predicted
    assert talk.cache.length == held and all(b >= a for a, b in pairwise(talk.times))
    with torch.inference_mode():
        assert predicted == weights + held * 2 * 30 * 3 * 64 * 4
