"""Level 07 by hand: eight numbers of tiles, merges and splits.

Put your answer in place of each `...`: a number, or an expression such as `2 * 576 * 1536`. `...` means not answered
yet. An answer counts as right within 1%, so three or four digits are enough.

Qwen2.5-14B: 48 layers, 40 query heads and 8 KV heads, of head_dim 128. An A100 has 80 GB at 2.039 TB/s, computes
312 TFLOP/s in bfloat16, and has 108 processors; a kernel can use 163 KiB (1 KiB = 1024 bytes) of the memory of each. A
multiply-add is two FLOPs, and bfloat16 takes 2 bytes. exp and log are natural.
"""

from math import ceil, exp

# 1. One head, 5,000 tokens, bfloat16, not causal. How many times as many bytes as in tiles of 192 queries and 64 keys
#    does attention move in three steps? (4 digits)
times_the_bytes = ...

# 2. How many FLOPs come with a byte that those tiles move? (4 digits)
tiled_intensity = ...

# 3. The scores 1, 2, then 3.5, 0, then 3, 2 arrive in three blocks. What is the denominator after the last one?
#    (4 digits)
denominator = ...

# 4. Three splits of a cache give the outputs 2, 6 and -1, with log-sum-exps 1, 2.5 and 0.5. What is the output of all?
#    (4 digits)
merged = ...

# 5. Tiles of 96 keys, head_dim 128, Q, K and V in bfloat16, all else in float32. How many queries has the largest tile
#    that fits into 163 KiB, in multiples of 16? (a whole number)
tile_height = ...

# 6. A chunk of 1,024 tokens stands behind 512 cached ones; tiles have 128 queries and 256 keys. What part of all tiles
#    does a causal mask leave to compute? (3 digits)
computed_part = ...

# 7. Qwen2.5-14B decodes behind 12,000 tokens, its cache in bfloat16. How many times as many FLOPs per byte as its
#    attention has would the ridge of an A100 ask for? (3 digits)
below_the_ridge = ...

# 8. Two sequences of 20,000 tokens decode at once. Their caches are split for the A100's 108 processors, no split below
#    256 tokens. How many tokens has the longest split? (a whole number)
split_tokens = ...
