"""Level 05 by hand: eight numbers of steps, flips and schedules.

Put your answer in place of each `...`: a number, or an expression such as `2 * 576 * 1536`. `...` means not answered
yet. An answer counts as right within 1%, so three or four digits are enough.

Llama-2-13B in bfloat16: 13,015,864,320 parameters, of which embedding and head, not tied, have 163,840,000 each and
the norms 414,720; 40 layers, 40 query heads and as many KV heads, of head_dim 128. An A100 reads 2.039 TB/s and
computes 312 TFLOP/s. GB = 1e9 bytes. A multiply-add is two FLOPs. Bytes are weights, keys and values; FLOPs are matrix
products.
"""

# 1. A decode step of five sequences, with contexts of 150, 600, 1,000, 2,400 and 3,350 tokens, the new ones included.
#    How many ms does it take the A100 at least? (4 digits)
step_ms = 1e3 * (2 * (13015864320 - 163840000) + 7500 * 2 * 40 * 40 * 128 * 2) / 2.039e12  # 25.70 GB and 6.144

# 2. All sequences have a context of 80 tokens. From which batch on does the arithmetic of a step take as long as its
#    reading? (a whole number)
flip_sequences = 250  # 12.61 ms of weights / (82.59 µs of arithmetic - 32.14 µs of cache) = 249.9

# 3. What is the longest context at which there is such a batch, however large? (a whole number)
last_context = 206  # 2 · 12.85 GFLOP / 312e12 = 82.38 µs; a token more: 0.4018 µs of cache, 0.002626 of scores

# 4. The sequences have 1,500 tokens on average. How many tokens/s can no batch exceed, even if memory had no end?
#    (4 digits)
most_tokens = 2.039e12 / (1500 * 2 * 40 * 40 * 128 * 2)  # the weights are shared by ever more; 1.229 GB are not

# 5. Decode steps of 1, 2, 4, 8 and 16 sequences were timed: 22.5, 24, 27, 33 and 45 ms. At which batch do all sequences
#    together cost as much as the fixed part? (3 digits)
measured_flip = 21 / 1.5  # on a line: 1.5 ms more for each sequence, so 21 ms for none

# 6. Nine answers, in this order and all there at the start: 6, 25, 4, 10, 30, 5, 8, 12 and 20 tokens. There are three
#    slots. How many steps does continuous batching save, against static batches of three? (a whole number)
saved_steps = (25 + 30 + 20) - 47  # three slots: 6 + 30, 25 + 12, and 4 + 10 + 5 + 8 + 20 steps

# 7. 96 sequences decode all the while, the budget is 512 tokens a step, and a prompt of 10,000 tokens comes. How many
#    steps does it take until all of it has run? (a whole number)
prompt_steps = 25  # 416 tokens a step: 24.04

# 8. 18 requests arrive per second. From arrival to the last token each takes 4.2 s, of which it waits 0.7 s until it
#    first runs. How many run at once, on average? (a whole number)
running_at_once = 18 * (4.2 - 0.7)
