"""The worksheet of level 12: right values by filling blocks, running steps and walking queues one by one."""

import pytest

LAYERS, KV_HEADS, HEAD_DIM, PARAMETERS = 40, 8, 128, 12.25e9  # of Mistral Nemo
MEMORY, RATE, BLOCK = 48e9, 362e12, 32  # of an L40S; tokens in a block

TOKEN = sum(HEAD_DIM * 2 for _ in range(LAYERS) for _ in range(KV_HEADS) for _ in "kv")  # bytes


def blocks_of(tokens, size=BLOCK):
    """Tokens are laid down one by one; a block is taken when there is no room."""
    taken = room = 0
    for _ in range(tokens):
        if not room:
            taken, room = taken + 1, size
        room -= 1
    return taken


def hit(common, tokens):
    """Tokens found of a prompt, block by block, whose first `common` are cached; its last one has to run."""
    found = 0
    while found + BLOCK <= common and found + BLOCK < tokens:
        found += BLOCK
    return found


def pool():
    left, blocks = 0.92 * MEMORY - 2 * PARAMETERS - 1.8e9, 0
    while left >= BLOCK * TOKEN:
        left, blocks = left - BLOCK * TOKEN, blocks + 1
    return blocks


@pytest.mark.kata("level12.worksheet.num_blocks")
def test_what_weights_leave_is_cut_into_blocks(answer):
    """It decides how many requests run at once. Oracle: blocks are taken off until none is left."""
    answer("num_blocks").equals(pool(), rel=0.01)


@pytest.mark.kata("level12.worksheet.at_once")
def test_a_shared_beginning_is_held_once(answer):
    """Who holds it for each admits two thirds of them. Oracle: requests are let in until the blocks are gone."""
    free, requests, shared = pool() - 1, 0, 0
    while True:
        begin = sum(end <= 650 for end in range(BLOCK, 1500, BLOCK))
        more = blocks_of(1500 + 400 - 1) - (begin if shared else 0)
        if more > free:
            break
        free, requests, shared = free - more, requests + 1, begin
    answer("at_once").equals(requests, rel=0.01)


@pytest.mark.kata("level12.worksheet.run_again")
def test_of_a_cached_prompt_the_last_block_runs_again(answer):
    """Without a token that runs there are no logits. Oracle: blocks, found until one token stays."""
    answer("run_again").equals(1280 - hit(1280, 1280), rel=0.01)


@pytest.mark.kata("level12.worksheet.first_step")
def test_prompts_of_one_step_share(answer):
    """A burst behind one system prompt pays for it once. Oracle: a walk over all beginnings."""
    known, ran = set(), 0
    for name in "abc":
        prompt = [("all" if i < 520 else name, i) for i in range(700)]
        beginnings = [tuple(prompt[:end]) for end in range(BLOCK, 700 + 1, BLOCK)]
        found = 0
        while found < len(beginnings) and beginnings[found] in known and (found + 1) * BLOCK < 700:
            found += 1
        ran += 700 - found * BLOCK
        known.update(beginnings)
    answer("first_step").equals(ran, rel=0.01)


@pytest.mark.kata("level12.worksheet.prompt_steps")
def test_a_prompt_gets_what_decodes_leave(answer):
    """The time to its first token is a number of steps. Oracle: the steps themselves."""
    computed, steps = 960, 0
    while computed < 3000:
        left = 512
        for _ in range(40):
            left -= 1
        computed, steps = computed + min(left, 3000 - computed), steps + 1
    answer("prompt_steps").equals(steps, rel=0.01)


@pytest.mark.kata("level12.worksheet.recompute_ms")
def test_prompt_and_output_run_again_behind_the_hit(answer):
    """What a preemption costs. Oracle: the time of the tokens that are not found, one after the other."""
    one = 2 * PARAMETERS / (0.4 * RATE)
    answer("recompute_ms").equals(1e3 * sum(one for at in range(1500 + 260) if at >= 30 * BLOCK), rel=0.01)


@pytest.mark.kata("level12.worksheet.worth_computing")
def test_a_few_tokens_are_computed_sooner_than_all_are_moved(answer):
    """Why engines recompute. Oracle: tokens are added until computing takes longer than both ways."""
    both_ways = sum(1760 * TOKEN / 25e9 for _ in ("out", "in"))
    one, tokens = 2 * PARAMETERS / (0.4 * RATE), 0
    while (tokens + 1) * one <= both_ways:
        tokens += 1
    answer("worth_computing").equals(tokens, rel=0.01)


@pytest.mark.kata("level12.worksheet.queue_place")
def test_the_beginning_of_a_prompt_is_forgotten_late(answer):
    """The order of the queue decides what the cache keeps. Oracle: the two are freed by hand, block by block."""
    queue = list(range(1, 16))
    tables = []
    for tokens in (18, 13):
        tables.append([queue.pop(0) for _ in range(blocks_of(tokens, 4))])
    for tokens, table in zip((18, 13), tables):
        for block in reversed(table):
            full = (table.index(block) + 1) * 4 <= tokens
            queue.insert(len(queue) if full else 0, block)
    answer("queue_place").equals(queue.index(tables[0][0]) + 1, rel=0.01)
