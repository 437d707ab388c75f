"""Level 12 by hand: eight numbers of a pool of blocks, and of those who share it.

Put your answer in place of each `...`: a number, or an expression such as `2 * 576 * 1536`. `...` means not answered
yet. An answer counts as right within 1%, so three or four digits are enough.

Mistral Nemo in bfloat16: 40 layers, 8 KV heads of head_dim 128, 12.25e9 parameters. It runs on an L40S with 48 GB and
362 TFLOP/s, in blocks of 32 tokens; block 0 is given to nobody. bfloat16 takes 2 bytes; GB = 1e9 bytes.
"""

from math import ceil

# 1. The engine may use 0.92 of the memory, and activations take 1.8 GB. How many blocks has the pool? (4 digits)
num_blocks = ...

# 2. Requests of 1,500 tokens, of which the first 650 are the same in all, with answers of 400. How many can run in that
#    pool at once, so that nobody is ever preempted? (a whole number)
at_once = ...

# 3. A prompt of 1,280 tokens has just been answered, and comes again. How many of its tokens run in its first step, in
#    an idle engine? (a whole number)
run_again = ...

# 4. Three prompts of 700 tokens come together, of which the first 520 are the same in all. Nothing is cached yet, and
#    the budget is 4,096. How many tokens run in the first step? (4 digits)
first_step = ...

# 5. 40 sequences decode, and go on doing so. Then a prompt of 3,000 tokens comes, of which 960 are cached; the budget
#    is 512. How many steps does it take until its first token? (a whole number)
prompt_steps = ...

# 6. A sequence with a prompt of 1,500 tokens has made 260 more, and is preempted. When it is let in again, 30 of its
#    blocks are still in the cache. How many ms does the rest compute, with two FLOPs for each parameter and token, at
#    40% of the L40S's rate? (4 digits)
recompute_ms = ...

# 7. The keys and values of these 1,760 tokens could have been moved out and back in over 25 GB/s instead. How many
#    tokens may be left to run for computing to take no longer than that? (3 digits)
worth_computing = ...

# 8. A small pool: 16 blocks of 4 tokens, none ever used. a with 18 tokens and b with 13 others run in one step, in this
#    order, and after it both are done. In which place of the free queue is then the first block of a, if the block in
#    front is in place 1? (a whole number)
queue_place = ...
