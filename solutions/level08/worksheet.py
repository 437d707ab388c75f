"""Level 08 by hand: eight numbers of drafts, rounds and passes.

Put your answer in place of each `...`: a number, or an expression such as `2 * 576 * 1536`. `...` means not answered
yet. An answer counts as right within 1%, so three or four digits are enough.

Mistral Small 3: 40 layers, 32 query heads and 8 KV heads, of head_dim 128. A step reads 22.90e9 parameters, and does
two FLOPs with each of them for every token; scores and weighted sums come on top. An MI300X has 192 GB at 5.3 TB/s, and
computes 1307 TFLOP/s in bfloat16. bfloat16 takes 2 bytes. GB = 1e9 bytes.
"""

# 1. Of four tokens the target's probabilities are 0.45, 0.25, 0.2 and 0.1, the drafter's 0.2, 0.5, 0.1 and 0.2. A token
#    is drawn from the drafter. With what probability is it accepted? (3 digits)
acceptance = 0.2 + 0.25 + 0.1 + 0.1

# 2. The same two. The drafted token was the second, and it is rejected. With what probability is the third put in its
#    place? (4 digits)
replacement = (0.2 - 0.1) / ((0.45 - 0.2) + (0.2 - 0.1))  # the second and the fourth have nothing left over

# 3. Each drafted token is accepted with probability 0.72, if all before it were. How many tokens does a round with six
#    drafted ones give on average? (4 digits)
round_tokens = sum(0.72**i for i in range(7))

# 4. Those drafts come from a model of 1.4e9 parameters, for the target's 22.90e9, both in bfloat16. There is one
#    sequence, and its caches are too small to count. How many times as many tokens a second come out as without drafts?
#    (4 digits)
times_as_fast = sum(0.72**i for i in range(7)) / (1 + 6 * 1.4 / 22.90)  # 3.213 tokens in 1.367 steps

# 5. Another drafter: a token is accepted with probability 0.85, if all before it were, and costs 0.04 steps. The pass
#    over it costs 1 step, however long the draft is, up to 24 tokens. Which length is the best? (a whole number)
best_length = max(range(25), key=lambda n: sum(0.85**i for i in range(n + 1)) / (1 + 0.04 * n))  # 3.971 times as fast

# 6. Mistral Small 3 on an MI300X, all in bfloat16: 160 sequences, each token attends to 300. How many plain decode
#    steps does a pass over three drafted tokens of each sequence cost? (4 digits)
pass_cost = (160 * 4 * (2 * 22.90e9 + 300 * 4 * 40 * 32 * 128) / 1307e12) / (  # 22.5 ms
    (2 * 22.90e9 + 160 * 300 * 2 * 40 * 8 * 128 * 2) / 5.3e12  # 10.1 ms; the arithmetic of a plain step takes 5.6
)

# 7. Six rounds accepted 5, 3, 0, 5, 1 and 2 tokens. The first five had drafted 5 each, the last one, close to the end,
#    only 2. What is the most likely probability that a token is accepted, if all before it were? (4 digits)
alpha_estimate = 16 / (16 + 3)  # three rounds ended with a rejection

# 8. A tree of six drafted tokens: two candidates for the next token, behind each of them one token, and behind that one
#    more. The target chooses the first candidate with probability 0.6, the second with 0.2, and a token behind an
#    accepted one with 0.6. How many tokens does a round give on average? (4 digits)
tree_tokens = 1 + 0.8 + 0.8 * 0.6 + 0.8 * 0.6**2
