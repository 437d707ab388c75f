"""Slips of the worksheet of level12. `slip` is given when this is read."""

from math import ceil

TOKEN = 2 * 40 * 8 * 128 * 2
BLOCK = 32 * TOKEN
FREE = 0.92 * 48e9 - 2 * 12.25e9 - 1.8e9
RATE = 0.4 * 362e12
ONE = 2 * 12.25e9 / RATE  # seconds of a token
BOTH_WAYS = 2 * 1760 * TOKEN / 25e9

slip(
    "level12.worksheet.num_blocks",
    "keys_only",
    "6813: half of the bytes are missing; a block holds keys and values.",
    value=FREE // (BLOCK / 2),
)
slip(
    "level12.worksheet.num_blocks",
    "share_of_the_rest",
    "3807: 0.92 was taken of what the weights and activations leave; it is a share of the whole memory.",
    value=0.92 * (48e9 - 2 * 12.25e9 - 1.8e9) // BLOCK,
)
slip(
    "level12.worksheet.num_blocks",
    "share_of_what_weights_leave",
    "3780: 0.92 was taken of what the weights leave; it is a share of the whole memory, weights included.",
    value=(0.92 * (48e9 - 2 * 12.25e9) - 1.8e9) // BLOCK,
)
slip(
    "level12.worksheet.num_blocks",
    "whole_memory",
    "4138: all of the 48 GB were used; the engine may have 0.92 of them.",
    value=(48e9 - 2 * 12.25e9 - 1.8e9) // BLOCK,
)
slip(
    "level12.worksheet.num_blocks",
    "no_activations",
    "3749: a step's activations need room as well.",
    value=(0.92 * 48e9 - 2 * 12.25e9) // BLOCK,
)
slip(
    "level12.worksheet.num_blocks",
    "no_weights",
    "8079: the weights lie in the same memory.",
    value=(0.92 * 48e9 - 1.8e9) // BLOCK,
)
slip(
    "level12.worksheet.num_blocks",
    "a_byte_each",
    "5743: the parameters were counted as bytes; bfloat16 takes two for each.",
    value=(0.92 * 48e9 - 12.25e9 - 1.8e9) // BLOCK,
)
slip(
    "level12.worksheet.num_blocks",
    "tokens",
    "109,008: those are the tokens that fit; a block has 32 of them.",
    value=FREE // TOKEN,
)
slip(
    "level12.worksheet.num_blocks",
    "a_layer",
    "136,261: a block was counted for one layer; it holds its tokens' keys and values of all 40.",
    value=FREE // (BLOCK / 40),
)
slip(
    "level12.worksheet.at_once",
    "nothing_shared",
    "56: each got 60 blocks of its own; the first 20 are the same for all, and held once.",
    value=(3406 - 1) // 60,
)
slip(
    "level12.worksheet.at_once",
    "shared_by_nobody",
    "85: the 20 shared blocks were taken off each request, and never held; somebody has to hold them, once.",
    value=(3406 - 1) // 40,
)
slip(
    "level12.worksheet.at_once",
    "prompts_only",
    "125: the answers were left out; they get blocks as they grow, and with that many some are preempted.",
    value=(3406 - 1 - 20) // (ceil(1500 / 32) - 20),
)
slip(
    "level12.worksheet.at_once",
    "partial_block_shared",
    "86: 21 blocks were shared; the one that also holds tokens 651 to 672 is full of what each has for itself.",
    value=(3406 - 1 - 21) // (60 - 21),
)
slip(
    "level12.worksheet.at_once",
    "answers_only",
    "260: of each only the answer was counted; behind the shared 640 tokens a prompt has 860 of its own.",
    value=(3406 - 1 - 20) // ceil(400 / 32),
)
slip(
    "level12.worksheet.at_once",
    "half_of_the_answer",
    "99: that is with answers half done, as they are on average; asked is for never a preemption.",
    value=(3406 - 1 - 20) // (ceil(1700 / 32) - 20),
)
slip(
    "level12.worksheet.run_again",
    "nothing",
    "0: all of it is cached, but then nothing runs, and there are no logits to choose from.",
    value=0,
)
slip(
    "level12.worksheet.run_again",
    "last_token",
    "1: the last token has to run, but a hit consists of whole blocks: the last block runs with it.",
    value=1,
)
slip(
    "level12.worksheet.run_again",
    "whole_prompt",
    "1280: its blocks are free, and not forgotten: they can be found until somebody else gets them.",
    value=1280,
)
slip(
    "level12.worksheet.run_again",
    "last_but_one",
    "31: a hit ends at a multiple of 32, and 1,280 - 31 is none.",
    value=31,
)
slip(
    "level12.worksheet.run_again",
    "one_block_more",
    "64: 38 blocks were taken; 39 leave 32 tokens to run, and one would be enough.",
    value=64,
)
slip(
    "level12.worksheet.run_again",
    "found",
    "1248: those are found; asked is what runs.",
    value=1248,
)
slip(
    "level12.worksheet.run_again",
    "blocks_of_16",
    "16: that is with blocks of 16 tokens; here a block has 32.",
    value=16,
)
slip(
    "level12.worksheet.first_step",
    "nothing_shared",
    "2100: each ran all of its prompt; a block has its key as soon as its tokens are planned, in the same step.",
    value=3 * 700,
)
slip(
    "level12.worksheet.first_step",
    "token_by_token",
    "1060: 520 tokens were shared; a key stands for a full block, and the seventeenth differs.",
    value=700 + 2 * 180,
)
slip(
    "level12.worksheet.first_step",
    "rounded_up",
    "1012: 17 blocks were shared; the seventeenth also holds tokens that are not the same.",
    value=700 + 2 * (700 - 17 * 32),
)
slip(
    "level12.worksheet.first_step",
    "nobody_runs_it",
    "564: the shared blocks ran for nobody; the first of the three has to compute them.",
    value=3 * (700 - 512),
)
slip(
    "level12.worksheet.first_step",
    "only_the_second",
    "1588: only one of them found the blocks; all that come later do.",
    value=700 + (700 - 512) + 700,
)
slip(
    "level12.worksheet.first_step",
    "one_prompt",
    "700: the others have tokens of their own behind what they share.",
    value=700,
)
slip(
    "level12.worksheet.first_step",
    "shared_tokens",
    "1024: those are not run because they are shared; asked is what runs.",
    value=2 * 512,
)
slip(
    "level12.worksheet.first_step",
    "one_block_less",
    "1140: a block was left out of each hit; a token is left to run anyway, behind the shared ones.",
    value=700 + 2 * (700 - 480),
)
slip(
    "level12.worksheet.prompt_steps",
    "without_the_hit",
    "7: all 3,000 tokens ran; 960 of them are cached.",
    value=ceil(3000 / 472),
)
slip(
    "level12.worksheet.prompt_steps",
    "whole_budget",
    "4: the prompt got all 512 tokens; 40 of them are the decodes'.",
    value=ceil(2040 / 512),
)
slip(
    "level12.worksheet.prompt_steps",
    "one_step",
    "1: a step runs no more tokens than its budget.",
    value=1,
)
slip(
    "level12.worksheet.prompt_steps",
    "not_rounded",
    "4.322: the last chunk takes a step as well, however short it is.",
    value=2040 / 472,
)
slip(
    "level12.worksheet.prompt_steps",
    "a_step_more",
    "6: a step was added for the token; the last chunk's step gives it.",
    value=6,
)
slip(
    "level12.worksheet.prompt_steps",
    "shared_equally",
    "164: the budget was shared out evenly among 41; a decode takes one token, and the prompt all that is left.",
    value=ceil(2040 / (512 / 41)),
)
slip(
    "level12.worksheet.prompt_steps",
    "a_token_a_step",
    "2040: a token a step is for decodes; a prompt's tokens are all known.",
    value=2040,
)
slip(
    "level12.worksheet.recompute_ms",
    "prompt_only",
    "91.37: the output was forgotten; its keys and values are gone as well.",
    value=1e3 * ONE * (1500 - 960),
)
slip(
    "level12.worksheet.recompute_ms",
    "without_the_hit",
    "297.8: all 1,760 ran; 30 blocks of them are still found.",
    value=1e3 * ONE * 1760,
)
slip(
    "level12.worksheet.recompute_ms",
    "whole_prompt",
    "253.8: the prompt ran, whole and alone; what is found is left out, and the output runs too.",
    value=1e3 * ONE * 1500,
)
slip(
    "level12.worksheet.recompute_ms",
    "output_only",
    "43.99: only the output ran; of the prompt just 960 tokens are found.",
    value=1e3 * ONE * 260,
)
slip(
    "level12.worksheet.recompute_ms",
    "the_hit",
    "162.4: those are the tokens that are found; the other 800 run.",
    value=1e3 * ONE * 960,
)
slip(
    "level12.worksheet.recompute_ms",
    "macs",
    "67.68: half of the FLOPs are missing; a parameter takes a multiplication and an addition.",
    value=5e2 * ONE * 800,
)
slip(
    "level12.worksheet.recompute_ms",
    "full_rate",
    "54.14: that is at the full rate; it reaches 40% of it.",
    value=1e3 * ONE * 800 * 0.4,
)
slip(
    "level12.worksheet.recompute_ms",
    "seconds",
    "0.1354: those are seconds.",
    value=ONE * 800,
)
slip(
    "level12.worksheet.recompute_ms",
    "blocks_as_tokens",
    "292.7: 30 tokens were taken off; 30 blocks are 960.",
    value=1e3 * ONE * 1730,
)
slip(
    "level12.worksheet.worth_computing",
    "one_way",
    "68.17: they were moved out only; they have to come back as well.",
    value=BOTH_WAYS / 2 / ONE,
)
slip(
    "level12.worksheet.worth_computing",
    "missing_only",
    "61.97: only the 800 were moved that are not found; without the cache all 1,760 have to be moved.",
    value=BOTH_WAYS * 800 / 1760 / ONE,
)
slip(
    "level12.worksheet.worth_computing",
    "full_rate",
    "340.9: that is at the full rate; it reaches 40% of it.",
    value=BOTH_WAYS / ONE / 0.4,
)
slip(
    "level12.worksheet.worth_computing",
    "macs",
    "272.7: half of the FLOPs are missing; a parameter takes a multiplication and an addition.",
    value=2 * BOTH_WAYS / ONE,
)
slip(
    "level12.worksheet.worth_computing",
    "milliseconds",
    "23.07: those are the ms on the link; asked is how many tokens are computed in that time.",
    value=1e3 * BOTH_WAYS,
)
slip(
    "level12.worksheet.worth_computing",
    "prompt_moved",
    "116.2: only the prompt was moved; the output has keys and values too.",
    value=BOTH_WAYS * 1500 / 1760 / ONE,
)
slip(
    "level12.worksheet.worth_computing",
    "all_but",
    "1624: those are to be found at least; asked is how many may be left.",
    value=1760 - BOTH_WAYS / ONE,
)
slip(
    "level12.worksheet.worth_computing",
    "query_heads",
    "545.4: keys and values of 32 heads were moved; 8 KV heads have them.",
    value=4 * BOTH_WAYS / ONE,
)
slip(
    "level12.worksheet.queue_place",
    "all_to_the_back",
    "11: all went to the back; the last blocks of a and b are not full, so they have no key, and go to the front.",
    value=11,
)
slip(
    "level12.worksheet.queue_place",
    "in_the_order_of_the_table",
    "9: a's blocks were freed from the first on; the last goes first, so that the beginning is kept longest.",
    value=9,
)
slip(
    "level12.worksheet.queue_place",
    "both_mistakes",
    "7: a table is freed from its end, and blocks without a key go to the front.",
    value=7,
)
slip(
    "level12.worksheet.queue_place",
    "last_freed_first",
    "5: what is freed last was put in front; a block with a key goes to the back, since somebody may ask for it.",
    value=5,
)
slip(
    "level12.worksheet.queue_place",
    "b_first",
    "15: b was freed first; a is.",
    value=15,
)
slip(
    "level12.worksheet.queue_place",
    "by_number",
    "1: the blocks lie in the queue as they were freed, and not in the order of their numbers.",
    value=1,
)
slip(
    "level12.worksheet.queue_place",
    "block_0",
    "13: block 0 was counted; it is never free.",
    value=13,
)
slip(
    "level12.worksheet.queue_place",
    "partial_ones_left_out",
    "10: the last blocks of a and b were left out; they have no key, but they are free, and in front.",
    value=10,
)
