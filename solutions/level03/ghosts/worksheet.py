"""Slips of the worksheet of level03. `slip` is given when this is read."""

from math import exp, log, log2, log10

slip(
    "level03.worksheet.tempered_probability",
    "multiplied",
    "0.8789: the logits were multiplied by the temperature; divide: above 1 it makes the distribution flatter.",
    value=exp(6) / (exp(6) + exp(4) + 1),
)
slip(
    "level03.worksheet.tempered_probability",
    "no_temperature",
    "0.7054: that is at temperature 1; divide each logit by 2 first.",
    value=exp(3) / (exp(3) + exp(2) + 1),
)
slip(
    "level03.worksheet.tempered_probability",
    "first_logit_only",
    "0.3482: only the first logit was divided; the denominator has all three, each divided by 2.",
    value=exp(1.5) / (exp(1.5) + exp(2) + 1),
)
slip(
    "level03.worksheet.tempered_probability",
    "probability_divided",
    "0.3527: that is the probability divided by 2, and three such numbers sum to 0.5; temperature divides logits.",
    value=exp(3) / (exp(3) + exp(2) + 1) / 2,
)
slip(
    "level03.worksheet.tempered_probability",
    "forgets_the_zero",
    "0.6225: a logit of 0 counts as well: exp(0) is 1, not 0.",
    value=exp(1.5) / (exp(1.5) + exp(1)),
)
slip(
    "level03.worksheet.tempered_probability",
    "softmax_twice",
    "0.3976: the softmax was taken before dividing by 2, and then once more; temperature divides the logits.",
    value=exp(0.352701) / (exp(0.352701) + exp(0.129751) + exp(0.017559)),
)
slip(
    "level03.worksheet.entropy_bits",
    "nats",
    "1.280: that is in nats, with the natural logarithm; bits are counted with log2.",
    value=-sum(p * log(p) for p in (0.4, 0.3, 0.2, 0.1)),
)
slip(
    "level03.worksheet.entropy_bits",
    "uniform",
    "2: that would be four equally likely tokens; these are not, so they leave less in doubt.",
    value=2,
)
slip(
    "level03.worksheet.entropy_bits",
    "not_weighted",
    "2.176: that is the plain mean of -log2 p; an unlikely token comes seldom, so weight each term by its p.",
    value=-sum(log2(p) for p in (0.4, 0.3, 0.2, 0.1)) / 4,
)
slip(
    "level03.worksheet.entropy_bits",
    "sign",
    "-1.846: the logarithm of a probability is negative; the entropy is minus the sum.",
    value=sum(p * log2(p) for p in (0.4, 0.3, 0.2, 0.1)),
)
slip(
    "level03.worksheet.entropy_bits",
    "most_likely_only",
    "1.322: that is -log2 of the most likely token alone; the entropy is the mean over all four.",
    value=-log2(0.4),
)
slip(
    "level03.worksheet.entropy_bits",
    "log10",
    "0.5558: that is with logarithms to base 10; bits are counted with base 2.",
    value=-sum(p * log10(p) for p in (0.4, 0.3, 0.2, 0.1)),
)
slip(
    "level03.worksheet.entropy_bits",
    "perplexity",
    "3.596: that is 2 to the power of the entropy, a number of tokens; asked are the bits.",
    value=2 ** -sum(p * log2(p) for p in (0.4, 0.3, 0.2, 0.1)),
)
slip(
    "level03.worksheet.nucleus_probability",
    "drops_crossing",
    "0.4286: 0.4 and 0.3 sum to 0.7, short of 0.82; the token with which the sum reaches p, 0.15, stays.",
    value=0.3 / 0.7,
)
slip(
    "level03.worksheet.nucleus_probability",
    "one_too_many",
    "0.3158: one token too many was kept. Sort first: 0.4, 0.3 and 0.15 sum to 0.85, which has reached 0.82.",
    value=0.3 / 0.95,
)
slip(
    "level03.worksheet.nucleus_probability",
    "not_renormalized",
    "0.3: what is left has to sum to 1 again; divide by the mass of the tokens that stay.",
    value=0.3,
)
slip(
    "level03.worksheet.nucleus_probability",
    "divided_by_p",
    "0.3659: that is 0.3 / 0.82; the tokens that stay have 0.85 together, so divide by that.",
    value=0.3 / 0.82,
)
slip(
    "level03.worksheet.nucleus_probability",
    "another_token",
    "0.4706: that is the most likely token's; asked is token 2, which had 0.3.",
    value=0.4 / 0.85,
)
slip(
    "level03.worksheet.least_logit",
    "logit_scale",
    "1.5: that is 0.3 of the logit; the rule is about probabilities, and a ratio of these is a difference of logits.",
    value=0.3 * 5,
)
slip(
    "level03.worksheet.least_logit",
    "subtracts_m",
    "4.7: m itself was subtracted; the difference of logits is ln m.",
    value=5 - 0.3,
)
slip(
    "level03.worksheet.least_logit",
    "complement",
    "4.643: that is with 1 - m; a token is kept from m times the best one's probability on.",
    value=5 + log(0.7),
)
slip(
    "level03.worksheet.least_logit",
    "base_10",
    "4.477: that is with a logarithm to base 10; logits belong to powers of e, so take ln.",
    value=5 + log10(0.3),
)
slip(
    "level03.worksheet.least_logit",
    "base_2",
    "3.263: that is with a logarithm to base 2; logits belong to powers of e, so take ln.",
    value=5 + log2(0.3),
)
slip(
    "level03.worksheet.least_logit",
    "sign",
    "6.204: that is above the largest logit, so nothing would be kept; ln 0.3 is negative, and it is added.",
    value=5 - log(0.3),
)
slip(
    "level03.worksheet.least_logit",
    "distance",
    "-1.204: that is the distance to the largest logit; asked is the logit.",
    value=log(0.3),
)
slip(
    "level03.worksheet.new_token_probability",
    "divides_negative",
    "0.5922: -1 was divided, to -0.5, which makes a seen token likelier; a negative logit is multiplied, to -2.",
    value=exp(2) / (exp(1.5) + exp(2) + exp(-0.5)),
)
slip(
    "level03.worksheet.new_token_probability",
    "per_occurrence",
    "0.7665: token 0 was penalized twice; the repetition penalty counts a token once, however often it occurred.",
    value=exp(2) / (exp(0.75) + exp(2) + exp(-2)),
)
slip(
    "level03.worksheet.new_token_probability",
    "no_penalty",
    "0.2654: that is without the penalty; it counts the tokens of the prompt too.",
    value=exp(2) / (exp(3) + exp(2) + exp(-1)),
)
slip(
    "level03.worksheet.new_token_probability",
    "subtracts",
    "0.7275: the penalty was subtracted from the seen logits; presence works so, repetition divides or multiplies.",
    value=exp(2) / (exp(1) + exp(2) + exp(-3)),
)
slip(
    "level03.worksheet.new_token_probability",
    "all_tokens",
    "0.3706: token 1 was divided as well; it has not occurred yet.",
    value=exp(1) / (exp(1.5) + exp(1) + exp(-2)),
)
slip(
    "level03.worksheet.new_token_probability",
    "not_negative",
    "0.6037: the negative logit was left at -1; token 2 has occurred too, and its logit becomes -2.",
    value=exp(2) / (exp(1.5) + exp(2) + exp(-1)),
)
slip(
    "level03.worksheet.new_token_probability",
    "probabilities_divided",
    "0.4193: probabilities were halved and normalized again; the penalty works on logits.",
    value=exp(2) / (exp(3) / 2 + exp(2) + exp(-1) / 2),
)
slip(
    "level03.worksheet.perplexity",
    "whole_text",
    "250: that is 1 over the probability of the whole text; perplexity is per token, so take the fourth root.",
    value=1 / 0.004,
)
slip(
    "level03.worksheet.perplexity",
    "mean_nats",
    "1.380: that is the mean of -ln p; the perplexity is e to that power.",
    value=-log(0.004) / 4,
)
slip(
    "level03.worksheet.perplexity",
    "mean_bits",
    "1.991: that is the mean of -log2 p, in bits; the perplexity is 2 to that power.",
    value=-log2(0.004) / 4,
)
slip(
    "level03.worksheet.perplexity",
    "mean_probability",
    "2.581: that is 1 over the mean probability; average the logarithms, not the probabilities.",
    value=4 / (0.5 + 0.2 + 0.8 + 0.05),
)
slip(
    "level03.worksheet.perplexity",
    "mean_of_inverses",
    "7.062: that is the mean of 1/p, and the worst token has all the weight; average the logarithms.",
    value=(1 / 0.5 + 1 / 0.2 + 1 / 0.8 + 1 / 0.05) / 4,
)
slip(
    "level03.worksheet.perplexity",
    "mixed_bases",
    "7.322: logarithms to base 2 were put into a power of e; use one base for both.",
    value=exp(-log2(0.004) / 4),
)
slip(
    "level03.worksheet.perplexity",
    "upside_down",
    "0.2515: that is the mean probability of a token (the geometric one); the perplexity is 1 over it.",
    value=0.004**0.25,
)
slip(
    "level03.worksheet.beam_probability",
    "greedy",
    "0.16: that is the greedy text, which goes on from A alone; with width 2 B goes on as well.",
    value=0.40 * 0.40,
)
slip(
    "level03.worksheet.beam_probability",
    "exhaustive",
    "0.225: that is the best text of all, by way of C; a width of 2 has dropped C after the first step.",
    value=0.25 * 0.90,
)
slip(
    "level03.worksheet.beam_probability",
    "last_token",
    "0.5: that is the last token's probability alone; a text has the product of both.",
    value=0.50,
)
slip(
    "level03.worksheet.beam_probability",
    "sum",
    "0.85: probabilities of tokens that follow one another are multiplied; their logarithms add.",
    value=0.35 + 0.50,
)
slip(
    "level03.worksheet.beam_probability",
    "log_probability",
    "-1.743: that is the logarithm, the score that the search compares; asked is the probability.",
    value=log(0.35 * 0.50),
)
slip(
    "level03.worksheet.beam_probability",
    "per_token",
    "0.4183: that is the geometric mean per token; asked is the probability of the text.",
    value=(0.35 * 0.50) ** 0.5,
)
slip(
    "level03.worksheet.logits_percent",
    "one_row",
    "0.003194: that is one request; each of the 64 has a row of logits.",
    value=100 * 128256 * 4 / (2 * 8030261248),
)
slip(
    "level03.worksheet.logits_percent",
    "half",
    "0.1022: half of the right value: logits are float32, 4 bytes each, and weights bfloat16, 2 bytes each.",
    value=100 * 64 * 128256 * 2 / (2 * 8030261248),
)
slip(
    "level03.worksheet.logits_percent",
    "one_byte_weights",
    "0.4089: twice the right value: a weight in bfloat16 has 2 bytes.",
    value=100 * 64 * 128256 * 4 / 8030261248,
)
slip(
    "level03.worksheet.logits_percent",
    "fraction",
    "0.002044: that is the fraction; asked are percent.",
    value=64 * 128256 * 4 / (2 * 8030261248),
)
slip(
    "level03.worksheet.logits_percent",
    "smollm2_vocabulary",
    "0.07835: that is with SmolLM2's vocabulary of 49,152; Llama-3's has 128,256.",
    value=100 * 64 * 49152 * 4 / (2 * 8030261248),
)
