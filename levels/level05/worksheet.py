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
step_ms = ...

# 2. All sequences have a context of 80 tokens. From which batch on does the arithmetic of a step take as long as its
#    reading? (a whole number)
flip_sequences = ...

# 3. What is the longest context at which there is such a batch, however large? (a whole number)
last_context = ...

# 4. The sequences have 1,500 tokens on average. How many tokens/s can no batch exceed, even if memory had no end?
#    (4 digits)
most_tokens = ...

# 5. Decode steps of 1, 2, 4, 8 and 16 sequences were timed: 22.5, 24, 27, 33 and 45 ms. At which batch do all sequences
#    together cost as much as the fixed part? (3 digits)
measured_flip = ...

# 6. Nine answers, in this order and all there at the start: 6, 25, 4, 10, 30, 5, 8, 12 and 20 tokens. There are three
#    slots. How many steps does continuous batching save, against static batches of three? (a whole number)
saved_steps = ...

# 7. 96 sequences decode all the while, the budget is 512 tokens a step, and a prompt of 10,000 tokens comes. How many
#    steps does it take until all of it has run? (a whole number)
prompt_steps = ...

# 8. 18 requests arrive per second. From arrival to the last token each takes 4.2 s, of which it waits 0.7 s until it
#    first runs. How many run at once, on average? (a whole number)
running_at_once = ...
