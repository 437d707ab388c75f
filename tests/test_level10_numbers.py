"""Every number in the lesson of level 10, computed again: a claim is built here and must stand there verbatim.

Nothing here comes from the solutions but where the server itself, right or wrong, is run.
"""

import asyncio
import json
import re
from contextlib import aclosing
from math import log, prod
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dojo import catalog, hardware, models, report
from dojo.models import Config
from tests.controls import checkpoint_of, solutions_of

ROOT = Path(__file__).resolve().parent.parent
LESSON = (ROOT / "levels/level10/README.md").read_text(encoding="utf-8")
ANSWERS = (ROOT / "solutions/level10/answers.md").read_text(encoding="utf-8")
PARTS = {section.partition(" ")[0]: section for section in LESSON.split("\n## ")[1:]}
LEVELS = tuple(f"level{n:02}" for n in range(11))

SMOL = models.SMOLLM2
LLAMA = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)  # Llama-3.1-8B
[H100] = [machine for machine in hardware.load() if machine.name == "H100 SXM5"]
PEAK = 1e12 * H100.dense["bf16"].value


def matrices(config):
    """Numbers in what is multiplied for a token: a table of embeddings that is not the head as well is only read."""
    shapes = models.shapes(config)
    unused = () if config.tie_embeddings else ("model.embed_tokens.weight",)
    return sum(prod(shape) for name, shape in shapes.items() if len(shape) == 2 and name not in unused)


def event(text):
    """A chunk of a completion on the wire, its id and its date as long as those of the server."""
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": None}
    chunk = {"id": "cmpl-" + 32 * "0", "object": "text_completion", "created": 1767225600, "model": models.NAME}
    return len(f"data: {json.dumps(chunk | {'choices': [choice]}, separators=(',', ':'))}\n\n".encode())


PROMPT, KV = 4000, 2 * LLAMA.n_layers * LLAMA.n_kv_heads * LLAMA.head_dim * 2
SCORES = sum(4 * LLAMA.n_layers * LLAMA.n_heads * LLAMA.head_dim * seen for seen in range(1, PROMPT + 1))
SECONDS = (2 * matrices(LLAMA) * PROMPT + SCORES) / (PEAK / 2)
NOTED = [1] * 5000 + [50_000]  # ms
DUE = [50_000 - t if t < 50_000 else 1 for t in range(0, 100_000, 10)]  # the stall is at the start


def shown(ms):
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def percent(values, digits):
    return f"{100 * np.mean(np.array(values) > 1000):.{digits}f}%"


def stalled(name, values, digits):
    """A row of the table of concept 2."""
    p75, p99 = np.percentile(values, [75, 99])
    return f"| {name} | {len(values):,} | {shown(p75)} | {shown(p99)} | {percent(values, digits)} |"


DAYS = np.arange(100)
RATES = {rate: sum(n * (rate / 10) ** n for n in range(5000)) * (1 - rate / 10) for rate in (8, 9.5)}  # requests there
CLAIMS = [
    # the big idea
    f"| the weights that are read for it | {4 * matrices(SMOL):,} |",
    f"| its logits | {4 * SMOL.vocab_size:,} |",
    f'| its text, " Paris" | {len(" Paris")} |',
    f"| its event on the wire | {event(' Paris')} |",
    f"An event has {event(' Paris') // len(' Paris')} times the bytes of its text",
    # the concepts
    f"the {len('🐈'.encode())} bytes of 🐈",
    stalled("as noted", NOTED, 2),
    stalled("omitted ones put back", DUE, 0),
    f"the mean TPOT is {(1 + 0.1) / 2:.2f} s, the mean ITL {(1 + 10 * 0.1) / 11:.3f}",
    f"12 of 16 in 2 s are {12 / 2:.0f}/s",
    f"That is {10 / 0.01:,.0f} for p99 and {10 / 0.001:,.0f} for p99.9",
    f"it is {DAYS.mean():.1f} ± {1.96 * DAYS.std() / 10:.2f}",
    f"8 requests/s take {RATES[8] / 8:.1f} s each, and 9.5 take {RATES[9.5] / 9.5:.0f} s: {100 * 1.5 / 8:.0f}% more "
    f"load, four times the time, and a p99 of {log(100) * 2:.2f} s",
    f"how many are there: {RATES[8]:.0f} and {RATES[9.5]:.0f}",
    f"4,000 tokens of Llama-3.1-8B take {1000 * (1e-4 + PROMPT * KV / 50e9):.1f} ms over {50 * 8} Gb/s",
    f"their prefill {1000 * SECONDS:.0f} ms at half of an H100's peak. Below {PROMPT * KV / SECONDS / 1e9:.2f} GB/s",
    # the pitfalls
    f"the p75 would be {np.percentile([50] * 5000 + [0] * 5000, 75):.1f} s "
    f"instead of {np.percentile(DUE, 75) / 1e3:.1f}",
    f"with one more request {100 * 2 / 5002:.2f}% would be above 1 s",
    f"the one says {DAYS.mean() - 1.96 * DAYS.std():.1f} to {DAYS.mean() + 1.96 * DAYS.std():.1f}, the other 49.5 to",
    f"{1 / 0.01:.0f} requests have one beyond p99",
    f"{1000 * (1e-4 + PROMPT * KV / 50e9):.1f} ms become {1000 * (1e-4 + 8 * PROMPT * KV / 50e9):.1f} or "
    f"{1000 * (1e-4 + PROMPT * KV / 400e9):.1f}",
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_lesson_states_the_computed_number(claim):
    assert claim in LESSON


@pytest.mark.parametrize(
    "claim",
    [
        f"then {40 - 3} brought 100",
        f"about {100 / 40:.1f} times too long",
        f"give {(1 + 0.1) / 2:.2f} and {(1 + 10 * 0.1) / 11:.3f} s",
        f"Of 200 requests {200 * 0.01:.0f} lie beyond the p99",
        f"a load of {1000 / 2 / 0.8:.0f} s",
        f"a p90, beyond which there are {200 * 0.1:.0f}",
        f"one sample of {len(NOTED):,}",
        f"below {PROMPT * KV / SECONDS / 1e9:.2f} GB/s",
    ],
)
def test_the_answers_state_the_computed_number(claim):
    assert claim in ANSWERS


def test_what_the_lesson_says_in_words():
    waits = np.random.default_rng(0).exponential(2, 10**6)  # M/M/1: the time in the system is exponential
    assert np.percentile(waits, 99) == pytest.approx(log(100) * 2, rel=0.02)
    times = np.linspace(1.0, 1.4, 5)  # "four gaps of 0.1 s. As one gap per chunk it would be 0.4"
    assert np.diff(times) == pytest.approx([0.1] * 4)
    draws = np.random.default_rng(0).choice(DAYS, (20_000, 100)).mean(1)
    low, high = np.percentile(draws, [2.5, 97.5])
    assert (high - low) / 2 == pytest.approx(1.96 * DAYS.std() / 10, rel=0.03)  # "as the formula has it"
    assert RATES[8] / 8 == pytest.approx(1 / (10 - 8)) and RATES[9.5] / 9.5 == pytest.approx(1 / (10 - 9.5))
    assert RATES[9.5] / 9.5 == pytest.approx(4 * RATES[8] / 8)


def test_the_picture_of_the_stall_is_a_queue():
    """One place, first come first served; a closed loop counts from when it sent."""
    busy, answered, sent = 0, [], []
    for due, service in zip(range(6), [5, 0.1, 0.1, 0.1, 0.1, 0.1]):
        sent.append(max(due, busy))  # the client sends when the answer before has come, or later
        busy = sent[-1] + service
        answered.append(busy)

    def line(name, values):
        return f"{name:<22}" + "".join(f"{value:<6.2g}" for value in values).rstrip()

    assert line("due at", range(6)) + "     seconds" in LESSON
    assert line("answered at", answered) in LESSON
    assert line("users waited", [end - due for due, end in enumerate(answered)]) in LESSON
    assert line("the client notes", [end - begin for begin, end in zip(sent, answered)]) in LESSON


def one_device(requests, prefill, step):
    """(what it does in each tick, times of the first request's tokens): prompts before steps."""
    now, waiting, left, does, times = 0, sorted(requests), [], "", []
    while waiting or any(left):
        if waiting and waiting[0][0] <= now:
            _, tokens, name = waiting.pop(0)
            left.append(tokens)
            served, did = [len(left) - 1], name * prefill
        else:
            served, did = [i for i, n in enumerate(left) if n], "·" * step
        now, does = now + len(did), does + did
        for i in served:
            left[i] -= 1
        times += [now] * (0 in served)
    return does, times


def two_devices(requests, prefill, step, transfer):
    """(what the first does, what the second does, times of the first request's tokens)."""
    first, second, left, times = "", "", [], []
    for arrival, tokens, name in sorted(requests):
        first = first.ljust(arrival) + name * prefill
        left.append([len(first) + transfer, tokens - 1])
        times += [len(first)] * (len(left) == 1)
    while any(n for _, n in left):
        served = [i for i, (ready, n) in enumerate(left) if n and ready <= len(second)]
        second += "·" * step if served else " "
        for i in served:
            left[i][1] -= 1
        times += [len(second)] * (0 in served)
    return first, second, times


def test_the_picture_of_two_devices_is_played_through():
    """In tenths of seconds: prefill 1 s, a step 0.1 s, transfer 0.2 s."""
    requests = [(0, 30, "A"), (20, 5, "B"), (35, 2, "C")]

    def marks(times):
        return "".join("a" if tick in times else " " for tick in range(times[-1] + 1))

    alone, late = one_device(requests, 10, 1)
    first, second, early = two_devices(requests, 10, 1, 2)
    rows = [("seconds", "".join(f"{n:<10}" for n in range(6)).rstrip()), ("one device", alone)]
    rows += [
        ("a's tokens", marks(late)),
        ("", ""),
        ("prefill", first),
        ("decode", second),
        ("a's tokens", marks(early)),
    ]
    assert "\n".join(f"{name:<15}{row}".rstrip() for name, row in rows) in PARTS["Pellets"]
    steps = 0.2 + 29 * 0.1 + 28 * 0.2  # a's tokens, if its cache were sent before each step
    assert f"a would end at {early[0] / 10 + steps:.1f} s there, later than on one device, at {late[-1] / 10}" in LESSON
    served_first = 10 + 29 + 10  # a alone to its end, then B's prompt
    assert f"B's first token would come at {served_first / 10} s, not at {alone.rindex('B') / 10 + 0.1:.1f}" in LESSON
    gaps = [max(after - before for before, after in zip(times, times[1:])) / 10 for times in (late, early)]
    assert f"The longest gap of a is {gaps[0]} s, or {gaps[1]}" in LESSON


def test_the_table_of_katas_repeats_their_metadata():
    rows = re.findall(r"^\| `(level10\.\S+)` \|.*\| (●+) \| (\d+) \|$", LESSON, re.M)
    assert rows == [(k.id, "●" * k.dots, str(k.lines)) for k in catalog.katas("level10")]
    assert f"6 concepts · {len(rows)} katas" in LESSON
    assert [int(n) for n in re.findall(r"^### (\d+)\. ", LESSON, re.M)] == list(range(1, 7))
    parts = {name for kata in catalog.katas("level10") for name in kata.names[1:]}
    assert all(f"`{name}`" in PARTS["Clyde"] for name in parts)


def test_links_into_earlier_levels_lead_to_their_headings():
    linked = re.findall(r"\.\./(level\d\d)/README\.md#([^)]*)\)", LESSON)
    assert {level for level, _ in linked} == {"level00", "level01", "level04", "level05"}
    for level, anchor in linked:
        headings = re.findall(r"^#+ (.*)$", (ROOT / f"levels/{level}/README.md").read_text(encoding="utf-8"), re.M)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_lesson_asks_what_is_answered():
    asked = re.findall(r"^\d\. (.*[?.])$", PARTS["Power"], re.M)
    assert asked == [question for question, _ in report.questions("level10")] and len(asked) == 8
    assert "Then eight questions" in LESSON


def test_the_worksheet_is_announced():
    announced = re.findall(r"^\d\. ", PARTS["Inky"], re.M)
    assert len(announced) == len(catalog.answers("level10")) == 8 and "Eight numbers" in PARTS["Inky"]


@pytest.fixture(scope="module")
def solved():
    """Level 10 and what it stands on, all solutions, with SmolLM2 behind its app."""
    with solutions_of(*LEVELS):
        from level00.tokenizer import SmolTokenizer
        from level05.engine import Engine
        from level10.app import make_app
        from level10.bridge import AsyncEngine

        config, params, data = models.load()
        tokenizer = SmolTokenizer.from_model(data)
        engine = AsyncEngine(Engine(params, config))
        app = make_app(engine, tokenizer, models.NAME, config.max_seq_len)
        yield SimpleNamespace(tokenizer=tokenizer, app=app, engine=engine)


async def asked(app, path, body):
    """(status, the data of each event) of a request over ASGI; the client stays."""
    waiting, sent = [{"type": "http.request", "body": body, "more_body": False}], []

    async def receive():
        return waiting.pop() if waiting else await asyncio.get_running_loop().create_future()

    async def send(message):
        sent.append(message)

    await app({"type": "http", "method": "POST", "path": path}, receive, send)
    text = b"".join(message.get("body", b"") for message in sent).decode()
    return sent[0]["status"], [line.removeprefix("data: ") for line in text.split("\n\n") if line]


def test_the_lessons_requests_are_answered(solved):
    """They are shown to learners, so they have to work as they stand."""
    [body] = re.findall(r"-d '(\{.*\})'", LESSON)
    status, events = asyncio.run(asked(solved.app, "/v1/completions", body.encode()))
    assert status == 200 and events[-1] == "[DONE]"
    text = "".join(json.loads(chunk)["choices"][0]["text"] for chunk in events[:-1])
    assert text.startswith(" Paris")
    [arguments] = re.findall(r"^asked = (\{.*\})$", LESSON, re.M)
    assert f'model="{models.NAME}", stream=True, **asked' in LESSON
    body = json.dumps(json.loads(arguments) | {"model": models.NAME, "stream": True}).encode()
    status, events = asyncio.run(asked(solved.app, "/v1/chat/completions", body))
    said = [json.loads(chunk)["choices"][0]["delta"]["content"] for chunk in events[:-1]]
    assert status == 200 and "Paris" in "".join(said)


def test_the_picture_of_an_answer_is_what_the_tokenizer_gives(solved):
    """Which text may be shown after each token: whole characters, less a tail that may begin the stop string."""
    spelled = [solved.tokenizer.token_bytes(id) for id in solved.tokenizer.encode("A cat: 🐈 SOS STOP!")]
    assert len(spelled) == 11 and "with eleven tokens" in LESSON and "Token 11 is never asked for" in LESSON
    data, seen, lines, pieces = b"", "", [f"{'token':<7}{'spells':<14}{'held back':<14}piece of text"], 0
    for n, token in enumerate(spelled[:10], 1):
        data += token
        text = data.decode("utf-8", "ignore")
        half = data[len(text.encode()) :]
        tail = max(k for k in range(4) if text.endswith("STOP"[:k])) if not half else 0
        may = text.partition("STOP")[0] if "STOP" in text else text[: len(text) - tail]
        held = (
            "" if "STOP" in text else " ".join(f"{byte:02X}" for byte in half) or (f'"{text[-tail:]}"' if tail else "")
        )
        whole = token.decode("utf-8", "ignore")
        rest = " ".join(f"{byte:02X}" for byte in token[len(whole.encode()) :])
        spells = " ".join(word for word in (f'"{whole}"' if whole else "", rest) if word)
        piece = f'"{may[len(seen) :]}"' if len(may) > len(seen) or "STOP" in text else "·"
        pieces += piece != "·"
        piece += ", and the answer ends: stop" * ("STOP" in text)
        lines.append(f"{n:>3}    {spells:<14}{held:<14}{piece}".rstrip())
        seen = may
    assert "\n".join(lines) in PARTS["Pinky"]
    assert pieces == 9 and "finds nine where ten tokens were paid for" in LESSON
    cat = [token for token in spelled if not token.isascii()]
    assert len(cat) == 3 and "are three tokens of SmolLM2" in LESSON
    alone = "".join(token.decode("utf-8", "replace") for token in spelled[:6])
    assert f'"A cat: 🐈" becomes "{alone}" with the one' in LESSON


def test_the_server_sends_what_the_picture_shows(solved):
    from level10.pieces import text_pieces

    ids = solved.tokenizer.encode("A cat: 🐈 SOS STOP!")

    async def tokens():
        for id in ids:
            yield id, id == ids[-1]

    async def read():
        async with aclosing(text_pieces(tokens(), solved.tokenizer.token_bytes, (), ["STOP"])) as pieces:
            return [(piece.num_tokens, piece.text) async for piece in pieces]

    drawn = re.findall(r'^ *(\d+)    .*"([^"]*)"(?:, and the answer ends: stop)?$', PARTS["Pinky"], re.M)
    assert asyncio.run(read()) == [(int(n), text) for n, text in drawn]


def test_the_checkpoint_is_what_the_lesson_says():
    [path] = (ROOT / "levels/level10/checkpoint").glob("test_*.py")
    source, power = path.read_text(encoding="utf-8"), PARTS["Power"]
    with solutions_of(*LEVELS):
        made = checkpoint_of("level10")
    assert (len(made.STORED), made.STREAMS, made.TOKENS, made.NEED) == (5, 8, 4, 0.5)
    for asserted, said in (
        ("expect(read, list(STORED)).equals", "the five stored texts"),
        ("poisson_arrivals(50.0, 12", "Twelve requests that come by chance, 50 a second"),
        ("found[1] <= 0.6 * tokens", "in at most 60% of as many steps as they get tokens"),
        ('(" 7, 8, ", "stop", 8, True)', 'the text ends before "9" after 8 tokens'),
        ("expect(steps, 80).holds(lambda n: 3 <= n <= 12", "asked for 80 tokens"),
        ("leave_after=3", "after its third event: at most 12 steps"),
        ("([200, 200, 429]", "two are answered, and one gets status 429"),
        ("found[0] <= n + 2 and found[1] >= n - 1", "at most 12 events, at least 9 with text"),
    ):
        assert asserted in source and said in power
    assert len(made.STORED["letters"]["answer"]) == 10 and "An answer of 10 tokens" in power
