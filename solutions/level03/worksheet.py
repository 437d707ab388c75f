"""Level 03 by hand: eight numbers of distributions, searches and bytes.

Put your answer in place of each `...`: a number, or an expression such as `exp(2) / (exp(2) + 1)`. `...` means not
answered yet. An answer counts as right within 1%, so three or four digits are enough.

Conventions are this level's: top-p keeps the token with which the sum reaches p, min-p is relative to the most likely
token, the repetition penalty counts prompt and output. `log` is the natural logarithm, ln.
"""

from math import exp, log, log2

# 1. Logits 3, 2 and 0 at temperature 2. What probability has the first? (4 digits)
tempered_probability = exp(1.5) / (exp(1.5) + exp(1) + exp(0))  # 4.482 / (4.482 + 2.718 + 1)

# 2. Four tokens have the probabilities 0.4, 0.3, 0.2 and 0.1. What is the entropy, in bits? (4 digits)
entropy_bits = -(0.4 * log2(0.4) + 0.3 * log2(0.3) + 0.2 * log2(0.2) + 0.1 * log2(0.1))  # 2 if all were 0.25

# 3. Tokens 0 to 4 have the probabilities 0.1, 0.4, 0.3, 0.15 and 0.05. What probability has token 2 (0.3 before) after
#    top-p with p = 0.82? (4 digits)
nucleus_probability = 0.3 / (0.4 + 0.3 + 0.15)  # sorted: 0.4, 0.7, and 0.85 reaches 0.82

# 4. The largest logit of a row is 5. From which logit on does min-p with m = 0.3 keep tokens? (4 digits)
least_logit = 5 + log(0.3)  # a ratio of probabilities is a difference of logits; ln 0.3 = -1.204

# 5. Logits 3, 2 and -1. Tokens 0 and 2 are in the prompt, token 0 twice; token 1 is new. What probability has token 1
#    after a repetition penalty of 2? (4 digits)
new_token_probability = exp(2) / (exp(3 / 2) + exp(2) + exp(-1 * 2))  # positive: divided; negative: multiplied

# 6. A model gave the four tokens of a text the probabilities 0.5, 0.2, 0.8 and 0.05. What is the perplexity? (4 digits)
perplexity = (0.5 * 0.2 * 0.8 * 0.05) ** (-1 / 4)  # exp of the mean of -ln p, which is 1.380

# 7. First tokens A, B and C have the probabilities 0.40, 0.35 and 0.25. The likeliest token after A has 0.40, after B
#    0.50, after C 0.90. What is the probability of the best text of two tokens that a beam search of width 2 finds?
#    (4 digits)
beam_probability = 0.35 * 0.50  # C is dropped after the first step, so 0.25 · 0.90 = 0.225 is never seen

# 8. Llama-3-8B has 8,030,261,248 parameters, in bfloat16, and a vocabulary of 128,256. A decode step of 64 requests
#    makes float32 logits. How many percent of the weights' bytes do they take? (4 digits)
logits_percent = 100 * 64 * 128256 * 4 / (2 * 8030261248)  # 32.8 MB beside 16.06 GB
