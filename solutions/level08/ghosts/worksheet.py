"""Slips of the worksheet of level08. `slip` is given when this is read."""

from math import sqrt

P, Q = (0.45, 0.25, 0.2, 0.1), (0.2, 0.5, 0.1, 0.2)
DRAFT_COST = 1.4 / 22.90
STEPS = 1 + 6 * DRAFT_COST  # of a round
SEQUENCES, READ, SCORES, TOKEN = 160, 22.90e9, 300 * 4 * 40 * 32 * 128, 2 * 40 * 8 * 128 * 2
READING = (2 * READ + SEQUENCES * 300 * TOKEN) / 5.3e12  # seconds
COMPUTING = SEQUENCES * (2 * READ + SCORES) / 1307e12  # of one token of each


def tokens(alpha, drafted):
    return sum(alpha**i for i in range(drafted + 1))


def best(gain):
    return max(range(25), key=gain)


slip(
    "level08.worksheet.acceptance",
    "agreement",
    "0.255: so often a draw from each gives the same token; the drafted one alone is tested, and kept more often.",
    value=sum(p * q for p, q in zip(P, Q)),
)
slip(
    "level08.worksheet.acceptance",
    "maximum",
    "1.35: the larger of the two was added up; a token is kept as far as both give it room: the smaller one.",
    value=sum(map(max, P, Q)),
)
slip(
    "level08.worksheet.acceptance",
    "rejected",
    "0.35: that is the total variation distance, the probability of a rejection; asked is the rest.",
    value=0.35,
)
slip(
    "level08.worksheet.acceptance",
    "differences",
    "0.7: those are all differences; what one has too much the other has too little, so half of it is rejected.",
    value=sum(abs(p - q) for p, q in zip(P, Q)),
)
slip(
    "level08.worksheet.acceptance",
    "one_minus_differences",
    "0.3: the differences were counted on both sides; the total variation distance is half of their sum.",
    value=1 - sum(abs(p - q) for p, q in zip(P, Q)),
)
slip(
    "level08.worksheet.acceptance",
    "mean_of_the_ratios",
    "0.75: min(1, p/q) was averaged over the tokens; each comes as often as the drafter draws it.",
    value=sum(min(1, p / q) for p, q in zip(P, Q)) / 4,
)
slip(
    "level08.worksheet.acceptance",
    "likeliest_only",
    "0.5: that is for the drafter's likeliest token; average over all that it may draw.",
    value=0.25 / 0.5,
)
slip(
    "level08.worksheet.acceptance",
    "cosine",
    "0.779: that is the cosine of the two; acceptance is 1 minus their total variation distance.",
    value=sum(p * q for p, q in zip(P, Q)) / sqrt(sum(p * p for p in P) * sum(q * q for q in Q)),
)
slip(
    "level08.worksheet.replacement",
    "from_the_target",
    "0.2: that draws from p itself; what the drafter proposes anyway would come out too often.",
    value=0.2,
)
slip(
    "level08.worksheet.replacement",
    "not_normalised",
    "0.1: that is p - q; all that is left over sums to 0.35, so divide by it.",
    value=0.1,
)
slip(
    "level08.worksheet.replacement",
    "absolute",
    "0.1429: |p - q| was taken; the drafter gives the second and the fourth too much already, so they get nothing.",
    value=0.1 / 0.7,
)
slip(
    "level08.worksheet.replacement",
    "without_the_drafted",
    "0.2667: only the rejected token was taken out of p; from every token what q gives it is taken off.",
    value=0.2 / 0.75,
)
slip(
    "level08.worksheet.replacement",
    "p_where_it_is_larger",
    "0.3077: p was kept where it is larger than q; what counts is by how much.",
    value=0.2 / 0.65,
)
slip(
    "level08.worksheet.replacement",
    "reversed",
    "0: q - p was taken; missing is what p has beyond q.",
    value=0,
)
slip(
    "level08.worksheet.replacement",
    "the_first",
    "0.7143: that is the first token; asked is the third.",
    value=0.25 / 0.35,
)
slip(
    "level08.worksheet.replacement",
    "all_alike",
    "0.25: all four were taken as equally likely; draw from what p has beyond q.",
    value=0.25,
)
slip(
    "level08.worksheet.round_tokens",
    "no_bonus",
    "2.213: those are the accepted tokens; the target adds one of its own in every round.",
    value=tokens(0.72, 6) - 1,
)
slip(
    "level08.worksheet.round_tokens",
    "linear",
    "5.32: 0.72 was counted six times; a token counts only if all before it were accepted.",
    value=1 + 6 * 0.72,
)
slip(
    "level08.worksheet.round_tokens",
    "linear_without_bonus",
    "4.32: a token counts only if all before it were accepted; and the target adds one of its own.",
    value=6 * 0.72,
)
slip(
    "level08.worksheet.round_tokens",
    "endless_draft",
    "3.571: that is the limit of a draft without end, 1 / (1 - alpha); this one has six tokens.",
    value=1 / 0.28,
)
slip(
    "level08.worksheet.round_tokens",
    "one_term_less",
    "3.074: that is with five drafted tokens; six make seven terms, from alpha^0 to alpha^6.",
    value=tokens(0.72, 5),
)
slip(
    "level08.worksheet.round_tokens",
    "one_term_more",
    "3.313: that is with seven drafted tokens; the last term of six is alpha^6.",
    value=tokens(0.72, 7),
)
slip(
    "level08.worksheet.round_tokens",
    "all_or_nothing",
    "0.1393: with that probability all six are accepted; count the rounds that end earlier as well.",
    value=0.72**6,
)
slip(
    "level08.worksheet.round_tokens",
    "all_accepted",
    "7: that many come only if nothing is rejected.",
    value=7,
)
slip(
    "level08.worksheet.times_as_fast",
    "draft_is_free",
    "3.213: those are the tokens of a round; it lasts longer than a step, as the draft has to be made.",
    value=tokens(0.72, 6),
)
slip(
    "level08.worksheet.times_as_fast",
    "one_draft_step",
    "3.028: the draft was paid once; its six tokens are made one after the other.",
    value=tokens(0.72, 6) / (1 + DRAFT_COST),
)
slip(
    "level08.worksheet.times_as_fast",
    "seven_draft_steps",
    "2.250: seven draft steps were paid; the seventh token is the target's own.",
    value=tokens(0.72, 6) / (1 + 7 * DRAFT_COST),
)
slip(
    "level08.worksheet.times_as_fast",
    "verified_one_by_one",
    "0.4362: a step of the target was paid for each token; one pass checks them all.",
    value=tokens(0.72, 6) / (7 + 6 * DRAFT_COST),
)
slip(
    "level08.worksheet.times_as_fast",
    "no_bonus",
    "1.619: the target's own token was left out.",
    value=(tokens(0.72, 6) - 1) / STEPS,
)
slip(
    "level08.worksheet.times_as_fast",
    "linear",
    "3.892: six times 0.72 tokens were counted; a token counts only if all before it were accepted.",
    value=(1 + 6 * 0.72) / STEPS,
)
slip(
    "level08.worksheet.times_as_fast",
    "pass_is_free",
    "8.760: only the draft was paid; the target's pass takes a step.",
    value=tokens(0.72, 6) / (6 * DRAFT_COST),
)
slip(
    "level08.worksheet.times_as_fast",
    "steps",
    "1.367: that is how long a round takes, in steps; divide the tokens by it.",
    value=STEPS,
)
slip(
    "level08.worksheet.times_as_fast",
    "cost_upside_down",
    "0.03241: 22.90 was divided by 1.4; the small model costs the smaller part.",
    value=tokens(0.72, 6) / (1 + 6 / DRAFT_COST),
)
slip(
    "level08.worksheet.best_length",
    "longest",
    "24: the most tokens come from the longest draft; but late ones are rarely reached, and always made.",
    value=24,
)
slip(
    "level08.worksheet.best_length",
    "likelier_than_its_cost",
    "19: up to there a token's probability exceeds its cost; but the time could give 3.971 tokens a step.",
    value=best(lambda n: tokens(0.85, n) - 0.04 * n),
)
slip(
    "level08.worksheet.best_length",
    "likelier_than_not",
    "4: from the fifth on a token is rather lost than kept; at 0.04 steps it is worth trying far longer.",
    value=max(n for n in range(25) if 0.85**n > 0.5),
)
slip(
    "level08.worksheet.best_length",
    "one_too_few",
    "10: the eleventh token comes out with 0.85^11 = 0.167, and costs 0.04 steps, in which 0.159 others would.",
    value=10,
)
slip(
    "level08.worksheet.best_length",
    "one_too_many",
    "12: the twelfth token comes out with 0.85^12 = 0.142, and costs 0.04 steps, in which 0.159 others would.",
    value=12,
)
slip(
    "level08.worksheet.best_length",
    "gain",
    "3.971: that is how much faster it gets at the best length; asked is the length.",
    value=max(tokens(0.85, n) / (1 + 0.04 * n) for n in range(25)),
)
slip(
    "level08.worksheet.best_length",
    "pass_is_free",
    "1: the pass was left out; it costs a step, and is shared by all tokens of the round.",
    value=1,
)
slip(
    "level08.worksheet.best_length",
    "verified_one_by_one",
    "0: a step was paid for each drafted token; here the pass over all of them costs one.",
    value=best(lambda n: tokens(0.85, n) / (n + 1 + 0.04 * n)),
)
slip(
    "level08.worksheet.pass_cost",
    "always_one",
    "1: more tokens are free as long as reading takes longer; 640 tokens compute for 22.5 ms.",
    value=1,
)
slip(
    "level08.worksheet.pass_cost",
    "per_token",
    "4: a plain step waits for its 10.1 ms of reading, not for its 5.6 ms of arithmetic.",
    value=4,
)
slip(
    "level08.worksheet.pass_cost",
    "newest_forgotten",
    "1.668: three tokens of each sequence were run; the newest one runs as well, as its row predicts the first of them.",
    value=3 * COMPUTING / READING,
)
slip(
    "level08.worksheet.pass_cost",
    "one_too_many",
    "2.781: five tokens of each sequence were run; three drafted ones and the newest are four.",
    value=5 * COMPUTING / READING,
)
slip(
    "level08.worksheet.pass_cost",
    "no_cache",
    "2.595: the caches were left out; a step reads 7.86 GB of them beside the weights.",
    value=4 * SEQUENCES * 2 / 1307e12 / (2 / 5.3e12),
)
slip(
    "level08.worksheet.pass_cost",
    "added",
    "2.072: reading and arithmetic were added; they overlap, and the longer one decides.",
    value=(4 * COMPUTING + READING) / (COMPUTING + READING),
)
slip(
    "level08.worksheet.pass_cost",
    "macs",
    "1.112: half of the FLOPs are missing; a multiply-add is two.",
    value=2 * COMPUTING / READING,
)
slip(
    "level08.worksheet.pass_cost",
    "h100",
    "1.858: those are the roofs of an H100; an MI300X has 1307 TFLOP/s and 5.3 TB/s.",
    value=4 * COMPUTING * 1307 / 989 / (READING * 5.3 / 3.35),
)
slip(
    "level08.worksheet.pass_cost",
    "milliseconds",
    "22.52: those are the ms of the pass; divide them by those of a plain step.",
    value=4e3 * COMPUTING,
)
slip(
    "level08.worksheet.alpha_estimate",
    "accepted_over_proposed",
    "0.5926: 27 were drafted, but those behind a rejected one were never tested: they are no failures.",
    value=16 / 27,
)
slip(
    "level08.worksheet.alpha_estimate",
    "a_rejection_each_round",
    "0.7273: a rejection was counted in every round; in three of the six all of the draft was accepted.",
    value=16 / 22,
)
slip(
    "level08.worksheet.alpha_estimate",
    "last_round_rejected",
    "0.8: the last round had drafted only 2, and both were accepted.",
    value=16 / 20,
)
slip(
    "level08.worksheet.alpha_estimate",
    "empty_round_left_out",
    "0.8889: the round with none accepted was left out; its first token was tested, and rejected.",
    value=16 / 18,
)
slip(
    "level08.worksheet.alpha_estimate",
    "mean_of_the_shares",
    "0.6333: the accepted shares of the rounds were averaged; what was tested counts, token by token.",
    value=(1 + 0.6 + 0 + 1 + 0.2 + 1) / 6,
)
slip(
    "level08.worksheet.alpha_estimate",
    "rejected",
    "0.1579: that is the part that was rejected; asked is the rest.",
    value=3 / 19,
)
slip(
    "level08.worksheet.alpha_estimate",
    "tokens_of_a_round",
    "2.667: that is how many a round accepted; asked is the probability for one token.",
    value=16 / 6,
)
slip(
    "level08.worksheet.alpha_estimate",
    "full_rounds",
    "0.5: half of the rounds were accepted to their ends; the tokens of the others count as well.",
    value=0.5,
)
slip(
    "level08.worksheet.tree_tokens",
    "no_bonus",
    "1.568: those are the accepted tokens; the target adds one of its own in every round.",
    value=0.8 * (1 + 0.6 + 0.36),
)
slip(
    "level08.worksheet.tree_tokens",
    "one_candidate",
    "2.176: that is the chain behind the first candidate alone; the second is right where the first is not.",
    value=tokens(0.6, 3),
)
slip(
    "level08.worksheet.tree_tokens",
    "two_candidates_each_time",
    "2.952: two candidates were counted at each place; only the first has two, behind them there is one.",
    value=tokens(0.8, 3),
)
slip(
    "level08.worksheet.tree_tokens",
    "independent",
    "2.333: 1 - 0.4 · 0.8 is for independent tries; the target chooses one token, so the two probabilities add up.",
    value=1 + 0.68 * (1 + 0.6 + 0.36),
)
slip(
    "level08.worksheet.tree_tokens",
    "linear",
    "3: the probabilities of the three places were added; a token counts only if those above it are accepted.",
    value=1 + 0.8 + 0.6 + 0.6,
)
slip(
    "level08.worksheet.tree_tokens",
    "two_deep",
    "2.28: the last token of each branch was left out: there are three in a row.",
    value=1 + 0.8 + 0.48,
)
slip(
    "level08.worksheet.tree_tokens",
    "second_ends",
    "2.376: the second candidate was counted alone; there are tokens behind it as well.",
    value=tokens(0.6, 3) + 0.2,
)
slip(
    "level08.worksheet.tree_tokens",
    "all_nodes",
    "7: all six and one more; only one branch can be accepted.",
    value=7,
)
