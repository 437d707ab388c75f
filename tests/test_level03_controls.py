"""The negative controls of level 03's checkpoint: what it refuses, and the right programs that it accepts."""

import json
import math
from dataclasses import replace

import pytest
import torch

from dojo.cost import count, count_calls
from dojo.models import load, matrices
from dojo.roofline import Sweep, judge
from tests.controls import checkpoint_of, solutions_of

LEVELS = ("level00", "level01", "level02", "level03")


@pytest.fixture(scope="module")
def checkpoint():
    """The checkpoint's module, over the solutions."""
    with solutions_of(*LEVELS):
        yield checkpoint_of("level03")


@pytest.fixture(scope="module")
def tokenizer(checkpoint):
    return checkpoint.SmolTokenizer.from_model(load()[2])


@pytest.fixture(scope="module")
def vocab(checkpoint, tokenizer):
    return checkpoint.token_texts(tokenizer)


@pytest.fixture(scope="module")
def right(checkpoint, tokenizer):
    """The seeded texts that the checkpoint asks for."""
    return checkpoint.batch(load(), tokenizer, checkpoint.REQUESTS, checkpoint.exact_choice)


@pytest.fixture(scope="module")
def text_logits(checkpoint):
    return logits_of(checkpoint, checkpoint.STORED["text"]["ids"])


def logits_of(checkpoint, ids):
    config, params, _ = load()
    return checkpoint.forward(params, config, torch.tensor([ids]))[0]


# ---- the cuts


@pytest.mark.parametrize("name", ["capital", "the"])
def test_a_nucleus_without_the_token_that_crosses_p_has_another_size(checkpoint, name):
    """Where one token is all there is, nothing is left; in the large nuclei one token is within the 2%."""
    case = checkpoint.CUTS[name]
    probs = logits_of(checkpoint, case["ids"])[-1].double().softmax(-1).sort(descending=True).values.cumsum(-1)
    _, p, size = case["nucleus"][0]
    assert (probs <= p).sum() == size - 1 < 0.98 * size


@pytest.mark.parametrize("name", ["capital", "the"])
def test_with_the_temperature_last_a_nucleus_has_another_size(checkpoint, name):
    row = logits_of(checkpoint, checkpoint.CUTS[name]["ids"])[-1:]
    from level03.sampling import top_p

    for temperature, p, size in checkpoint.CUTS[name]["nucleus"]:
        last = int((top_p(row, p) > -torch.inf).sum())
        assert (abs(last - size) > 0.02 * size) == (temperature != 1)


def test_top_k_and_min_p_as_people_get_them_wrong_keep_other_tokens(checkpoint):
    """One token more; a part of all the mass, or of the best logit, instead of the best token's probability."""
    wrong = {"one more": [], "of the mass": [], "of the logit": []}
    for case in checkpoint.CUTS.values():
        row = logits_of(checkpoint, case["ids"])[-1]
        wrong["one more"] += [sorted(row.topk(k + 1).indices.tolist()) == ids for k, ids in case["top_k"]]
        for m, ids in case["min_p"]:
            wrong["of the mass"].append((row.softmax(-1) >= m).nonzero()[:, 0].tolist() == ids)
            wrong["of the logit"].append((row >= m * row.max()).nonzero()[:, 0].tolist() == ids)
    for name, same in wrong.items():
        assert not all(same), name


# ---- the chain


def orders(checkpoint):
    """Every order of the five steps: name -> a `process`."""
    from level03 import sampling

    def run(order, logits, p, prompts, outputs):
        steps = {
            "penalties": lambda x: sampling.apply_penalties(
                x, prompts, outputs, p.repetition_penalty, p.presence_penalty, p.frequency_penalty
            ),
            "temperature": lambda x: sampling.apply_temperature(x, p.temperature),
            "top_k": lambda x: sampling.top_k(x, p.top_k) if p.top_k else x,
            "top_p": lambda x: sampling.top_p(x, p.top_p),
            "min_p": lambda x: sampling.min_p(x, p.min_p),
        }
        for name in order:
            logits = steps[name](logits)
        return logits

    return run, ["penalties", "temperature", "top_k", "top_p", "min_p"]


def gives(checkpoint, processed, name):
    """Does a chain's result equal the stored one?"""
    for row, stored in zip(processed, checkpoint.CHAINS[name]["rows"]):
        if checkpoint.kept_in(row) != stored["kept"]:
            return False
        if (row[row > -torch.inf] - torch.tensor(stored["logits"])).abs().max() > 2e-3:
            return False
    return True


def test_two_neighbours_of_the_chain_can_not_be_swapped(checkpoint, text_logits):
    """But for temperature and top-k, which is no other program: a division changes no rank."""
    run, right = orders(checkpoint)
    histories = checkpoint.histories.__wrapped__()
    rows = text_logits[checkpoint.STORED["places"]]
    settings = {name: checkpoint.SamplingParams(**chain["settings"]) for name, chain in checkpoint.CHAINS.items()}

    def passes(order):
        return all(gives(checkpoint, run(order, rows, p, *histories), name) for name, p in settings.items())

    assert passes(right)
    for a in range(4):
        order = list(right)
        order[a], order[a + 1] = order[a + 1], order[a]
        assert passes(order) == ({right[a], right[a + 1]} == {"temperature", "top_k"}), order


def test_penalties_as_people_get_them_wrong_have_other_logits(checkpoint, text_logits):
    """Division of negative logits, a factor for each occurrence, a prompt that counts, an output that does not."""
    from level03.sampling import apply_penalties

    ids, stored = checkpoint.STORED["text"]["ids"], checkpoint.STORED["penalties"]
    prompts, outputs = checkpoint.histories.__wrapped__()
    rows, settings = text_logits[checkpoint.STORED["places"]], stored["settings"]

    def differs(lowered):
        pairs = zip(lowered, stored["rows"])
        return any((row[s["seen"]] - torch.tensor(s["logits"])).abs().max() > 0.1 for row, s in pairs)

    assert not differs(apply_penalties(rows, prompts, outputs, **settings))
    both = [prompt + output for prompt, output in zip(prompts, outputs)]
    assert differs(apply_penalties(rows, [[]] * 4, both, **settings)), "frequency over the prompt"
    assert differs(apply_penalties(rows, [[]] * 4, outputs, **settings)), "repetition over the output only"
    assert differs(apply_penalties(rows, outputs, prompts, **settings)), "swapped"
    seen = [torch.zeros(len(rows[0])).index_fill(0, torch.tensor(sorted(set(one))), 1) for one in both]
    times = [torch.bincount(torch.tensor(one), minlength=len(rows[0])) for one in both]
    subtracted = apply_penalties(rows, [[]] * 4, outputs, 1.0, settings["presence_penalty"], 0.25) - rows
    r = settings["repetition_penalty"]
    divided = torch.stack([row / r**once for row, once in zip(rows, seen)]) + subtracted
    powers = [torch.where(row > 0, row / r**often, row * r**often) for row, often in zip(rows, times)]
    assert differs(divided), "a negative logit divided"
    assert differs(torch.stack(powers) + subtracted), "once per occurrence"
    assert len(ids) == checkpoint.STORED["places"][-1] + 1


def test_log_probabilities_of_other_tokens_or_other_logits_differ(checkpoint, text_logits):
    stored = checkpoint.STORED["text"]
    ids, logprobs = torch.tensor(stored["ids"]), torch.tensor(stored["logprobs"])
    of = checkpoint.token_logprobs
    wrong = {
        "the token before": of(text_logits[1:], ids[1:]),
        "of processed logits": of(text_logits[:-1] / 0.7, ids[1:]),
        "in bfloat16": of(text_logits[:-1].bfloat16(), ids[1:]),
        "in bits": of(text_logits[:-1], ids[1:]) / math.log(2),
        "raw": text_logits[:-1].gather(1, ids[1:, None])[:, 0],
    }
    for name, found in wrong.items():
        assert (found - logprobs).abs().max() > 0.01, name


# ---- the beams


@pytest.fixture(scope="module")
def searching(checkpoint):
    """The checkpoint's search, with one thing about it replaced."""
    import level03.search as search

    next_logprobs = checkpoint.next_logprobs.__wrapped__(load())
    beams = checkpoint.BEAMS

    def found(case, step=search.beam_step, width=beams["width"], eos=beams["eos_id"], **how):
        arguments = {key: case[key] for key in ("length_penalty", "early_stopping")} | how
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(search, "beam_step", step)
            return search.beam_search(next_logprobs, width, beams["max_tokens"], eos, **arguments)

    return found


def tokens_of(found):
    return [list(tokens) for tokens, _ in found]


def test_beams_chosen_beam_by_beam_find_other_texts(checkpoint, searching):
    from level03.search import beam_step

    def per_beam(beams, logprobs, width, eos_id):
        if len(beams) > 1:
            logprobs = logprobs.masked_fill(logprobs < logprobs.amax(-1, keepdim=True), -torch.inf)
        return beam_step(beams, logprobs, width, eos_id)

    for case in checkpoint.BEAMS["searches"]:
        assert tokens_of(searching(case, step=per_beam)) != [tokens for tokens, _ in case["found"]]
        assert tokens_of(searching(case)) == [tokens for tokens, _ in case["found"]]


def test_other_widths_ends_and_lengths_find_other_texts(checkpoint, searching):
    """No end, three beams, and the other ways of stopping and of weighing lengths: somebody notices each of them."""
    cases = {(case["length_penalty"], case["early_stopping"]): case for case in checkpoint.BEAMS["searches"]}

    def same(case, **how):
        return tokens_of(searching(case, **how)) == [tokens for tokens, _ in case["found"]]

    assert not any(same(case, width=3) for case in cases.values())
    assert not any(same(case, eos=-1) for case in cases.values() if case["early_stopping"])
    for penalty in (1.0, 2.0):
        assert not same(cases[penalty, True], early_stopping=False)
        assert not same(cases[penalty, False], early_stopping=True)
        assert not same(cases[penalty, False], length_penalty=0.0)


def test_scores_that_count_the_prompt_or_not_the_end_are_others(checkpoint):
    for case in checkpoint.BEAMS["searches"]:
        for tokens, score in case["found"]:
            total = score * len(tokens) ** case["length_penalty"]
            for length in (len(tokens) + len(checkpoint.BEAMS["ids"]), len(tokens) - 1):
                other = abs(total / length ** case["length_penalty"] - score) > 1e-3
                assert other == (case["length_penalty"] > 0)


# ---- seeds


def test_the_seeded_texts_do_not_hang_on_a_rounding(checkpoint, tokenizer, right):
    """Logits moved by up to 1e-3, 20 times what another machine's order of additions does, give the same texts."""

    def moved(*params):
        generator, exact = torch.Generator().manual_seed(0), checkpoint.exact_choice(*params)

        def choose(logits, prompt_ids, output_ids):
            return exact(
                logits + 1e-3 * (2 * torch.rand(logits.shape, generator=generator) - 1), prompt_ids, output_ids
            )

        return choose

    assert checkpoint.batch(load(), tokenizer, checkpoint.REQUESTS, moved) == right
    assert right[0] != right[2], "two seeds, one prompt"


@pytest.mark.parametrize("wrong", ["unseeded", "one number for all", "the prompt counts", "a row counts"])
def test_random_numbers_from_elsewhere_make_other_texts(checkpoint, tokenizer, right, wrong):
    """What each row's random number depends on: nothing, the first row's seed, the whole history, the place."""

    def chooser(*params):
        def choose(logits, prompt_ids, output_ids):
            own = {
                "unseeded": [replace(p, seed=None) for p in params],
                "one number for all": [replace(p, seed=params[0].seed) for p in params],
                "the prompt counts": params,
                "a row counts": [replace(p, seed=p.seed + row) for row, p in enumerate(params)],
            }[wrong]
            if wrong == "the prompt counts":
                with pytest.MonkeyPatch.context() as patch:
                    import level03.sampler as sampler

                    longer, uniform = len(prompt_ids[0]), sampler.uniform
                    patch.setattr(sampler, "uniform", lambda seed, step: uniform(seed, step + longer))
                    return sampler.choose_tokens(logits, prompt_ids, output_ids, own)
            return checkpoint.choose_tokens(logits, prompt_ids, output_ids, own)

        return choose

    assert checkpoint.batch(load(), tokenizer, checkpoint.REQUESTS, chooser) != right


def test_a_generator_that_is_drawn_from_in_turn_depends_on_the_company(checkpoint, tokenizer):
    """A seed for all requests together: each one's text is another as soon as the batch is."""
    from level03.drawing import sample

    def shared(*params):
        generator = torch.Generator().manual_seed(7)
        return lambda logits, *_: sample(logits, generator)

    alone = checkpoint.batch(load(), tokenizer, checkpoint.REQUESTS[3:], shared)
    together = checkpoint.batch(load(), tokenizer, checkpoint.REQUESTS[2:], shared)
    assert alone[0] != together[1]


# ---- constraints


def test_control_tokens_and_parts_of_characters_have_no_text(tokenizer, vocab):
    """Else a mask would let <|im_start|> stand in a string: 17 control tokens, and 314 others."""
    assert {vocab[i] for i in tokenizer.special.values()} == {""}
    assert vocab.count("") == 331 and vocab[tokenizer.encode("{")[0]] == "{"


def masked_by(checkpoint, tokenizer, vocab, allowed, dfa, prompt=(), most=20):
    """The greedy tokens under other masks than the level's."""
    import level03.constrained as constrained

    config, params, _ = load()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constrained, "allowed_tokens", allowed)
        choose = checkpoint.Constrained(checkpoint.greedy, dfa, vocab, tokenizer.eos_id)
        prompt = prompt or checkpoint.CUTS["capital"]["ids"]
        return checkpoint.generate(params, config, prompt, most, [tokenizer.eos_id], choose=choose)


def test_masks_by_the_first_character_lead_into_a_dead_end(checkpoint, tokenizer, vocab):
    def first_character(dfa, state, vocab, eos_id):
        allowed = [text != "" and dfa.step(state, text[0]) is not None for text in vocab]
        return torch.tensor([*allowed[:eos_id], state in dfa.accepting, *allowed[eos_id + 1 :]])

    with pytest.raises((ValueError, TypeError, KeyError)):
        masked_by(checkpoint, tokenizer, vocab, first_character, checkpoint.words_dfa())


def test_an_end_that_may_always_come_leaves_half_a_text(checkpoint, tokenizer, vocab):
    def always(dfa, state, vocab, eos_id):
        mask = checkpoint.allowed_tokens(dfa, state, vocab, eos_id)
        mask[eos_id] = True
        return mask

    prompt = tokenizer.encode("Question: What is the largest planet?\nAnswer:")  # the model itself would end here
    text = tokenizer.decode(masked_by(checkpoint, tokenizer, vocab, always, checkpoint.words_dfa(), prompt))
    assert text.endswith("<|im_end|>")
    with pytest.raises(json.JSONDecodeError):
        json.loads(text.removesuffix("<|im_end|>"))


def test_masks_of_single_characters_spell_another_text(checkpoint, tokenizer, vocab):
    def singles(dfa, state, vocab, eos_id):
        return checkpoint.allowed_tokens(dfa, state, [text if len(text) == 1 else "" for text in vocab], eos_id)

    made = masked_by(checkpoint, tokenizer, vocab, singles, checkpoint.words_dfa())
    assert made != checkpoint.STORED["word"]["tokens"]
    assert tokenizer.decode(made).removesuffix("<|im_end|>") in checkpoint.WORDS  # legal all the same


def test_a_mask_for_every_step_is_made_more_often_than_there_are_states(checkpoint, tokenizer, vocab):
    """All but the first of 6 tokens come after the same state."""
    dfa, prompt = checkpoint.compile_pattern("[a-z, ]*"), tokenizer.encode("Once upon a time")
    kept, forgotten = count_calls(checkpoint.allowed_tokens), count_calls(checkpoint.allowed_tokens)
    made = masked_by(checkpoint, tokenizer, vocab, kept, dfa, prompt, 6)
    texts = [tokenizer.decode(made[:n]) for n in range(len(made))]
    assert kept.calls == len({checkpoint.state_after(dfa, text) for text in texts}) < len(made) == 6
    with pytest.MonkeyPatch.context() as patch:
        whole = checkpoint.Constrained.mask

        def mask(self, output):
            self.masks.clear()
            return whole(self, output)

        patch.setattr(checkpoint.Constrained, "mask", mask)
        masked_by(checkpoint, tokenizer, vocab, forgotten, dfa, prompt, 6)
    assert forgotten.calls == 6


def test_the_texts_under_a_schema_do_not_hang_on_a_rounding(checkpoint, tokenizer, vocab):
    """The checkpoint asks for their form only, but a text that rambled on would not end within its 28 tokens."""
    config, params, _ = load()
    schema = {"type": "object", "properties": checkpoint.SCHEMA}
    dfa = checkpoint.compile_pattern(checkpoint.schema_pattern(schema))
    generator, prompt = torch.Generator().manual_seed(0), checkpoint.CUTS["capital"]["ids"]
    choose = checkpoint.Constrained(checkpoint.chooser(*checkpoint.MASKED), dfa, vocab, tokenizer.eos_id)

    def moved(logits, *histories):
        return choose(logits + 1e-3 * (2 * torch.rand(logits.shape, generator=generator) - 1), *histories)

    for output in checkpoint.generate_batch(params, config, [prompt] * 3, 28, [tokenizer.eos_id], choose=moved):
        assert output[-1] == tokenizer.eos_id
        assert json.loads(tokenizer.decode(output[:-1])).keys() == checkpoint.SCHEMA.keys()


# ---- what a choice costs


def one_choice(checkpoint, choose):
    """The choice that the checkpoint measures, made by `choose`."""
    row = logits_of(checkpoint, checkpoint.CUTS["capital"]["ids"])[-1:]
    prompt, output = checkpoint.HISTORY
    return lambda: choose(row, [prompt], [output], [checkpoint.EVERYTHING])


def timed_choice(checkpoint, make):
    """(target, reference) for the clock: the choice, and the weights of a decode step read once."""
    return one_choice(checkpoint, make(checkpoint)), Sweep(matrices(load()[1]), 1)


def entry_by_entry(checkpoint):
    """A loop over the tensor of logits, in one of the processors, and written in the fastest way."""
    import level03.sampler as sampler

    def min_p(logits, m):
        logits, least = logits.clone(), float(logits.max()) + math.log(m)
        for row in logits:
            for entry in row:
                if float(entry) < least:
                    entry.fill_(-math.inf)
        return logits

    def choose(*arguments):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sampler, "min_p", min_p)
            return sampler.choose_tokens(*arguments)

    return choose


def row_by_row_of_the_history(checkpoint):
    """A new row of logits for each token that has been seen."""
    import level03.sampler as sampler

    def apply_penalties(logits, prompt_ids, output_ids, repetition, presence, frequency):
        [prompt], [output] = prompt_ids, output_ids
        for token in {*prompt, *output}:
            logits = logits.clone()
            logits[0, token] *= 1 / repetition if logits[0, token] > 0 else repetition
        for token in output:
            logits[0, token] -= frequency
        for token in set(output):
            logits[0, token] -= presence
        return logits

    def choose(*arguments):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sampler, "apply_penalties", apply_penalties)
            return sampler.choose_tokens(*arguments)

    return choose


def in_lists(checkpoint):
    """The whole chain in plain Python, over lists: the slowest right choice here."""
    return lambda logits, prompts, outputs, params: checkpoint.exact_choice(*params)(logits, prompts, outputs)


def ranked(checkpoint):
    """Ranks by two sorts in float64, one sort for each processor, and a loop of small operators over the history."""
    import level03.sampler as sampler

    def apply_penalties(logits, prompt_ids, output_ids, repetition, presence, frequency):
        logits, [prompt], [output] = logits.clone(), prompt_ids, output_ids
        for token in {*prompt, *output}:
            logits[0, token] *= 1 / repetition if logits[0, token] > 0 else repetition
        for token in output:
            logits[0, token] -= frequency
        for token in set(output):
            logits[0, token] -= presence
        return logits

    def ranks(logits):
        return logits.double().argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)

    def top_k(logits, k):
        return torch.where(ranks(logits) < k, logits, -torch.inf)

    def top_p(logits, p):
        rank = ranks(logits)
        probs = logits.double().softmax(-1)
        mass = torch.zeros_like(probs).scatter(-1, rank, probs).cumsum(-1).gather(-1, rank)
        return torch.where(mass - probs < p - 1e-12, logits, -torch.inf)

    def choose(*arguments):
        with pytest.MonkeyPatch.context() as patch:
            for function in (apply_penalties, top_k, top_p):
                patch.setattr(sampler, function.__name__, function)
            return sampler.choose_tokens(*arguments)

    return choose


RIGHT = [in_lists, ranked]


def test_the_other_choices_are_right(checkpoint):
    """What they waste aside: their token is that of the solution."""
    [token] = one_choice(checkpoint, checkpoint.choose_tokens)().tolist()
    for make in [row_by_row_of_the_history, *RIGHT]:
        assert one_choice(checkpoint, make(checkpoint))().tolist() == [token], make.__name__


def test_a_choice_entry_by_entry_starts_too_many_operators_and_is_too_slow(checkpoint):
    slow, sweep = timed_choice(checkpoint, entry_by_entry)
    cost = count(slow)
    assert cost.calls.total() > 4 * checkpoint.MOST_CALLS
    assert cost.result.tolist() == one_choice(checkpoint, checkpoint.choose_tokens)().tolist()
    verdict = judge(slow, sweep, need=checkpoint.NEED, rounds=2, attempts=1)
    assert verdict.state == "fail", str(verdict)


def test_a_row_for_each_token_of_the_history_moves_too_many_bytes(checkpoint):
    """The clock may let it pass: the count of bytes does not."""
    most = checkpoint.MOST_BYTES * 4 * checkpoint.count_params(load()[0])["total"]
    assert count(one_choice(checkpoint, row_by_row_of_the_history(checkpoint))).bytes > 2 * most


@pytest.mark.parametrize("make", [lambda checkpoint: checkpoint.choose_tokens, *RIGHT])
def test_right_choices_pass_the_clock_and_the_counts(checkpoint, make):
    right, sweep = timed_choice(checkpoint, make)
    cost = count(right)
    assert cost.bytes < checkpoint.MOST_BYTES / 2 * 4 * checkpoint.count_params(load()[0])["total"]
    assert cost.calls.total() < checkpoint.MOST_CALLS / 3
    verdict = judge(right, sweep, need=checkpoint.NEED)
    assert verdict.state == "pass", str(verdict)
