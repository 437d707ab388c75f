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
times_the_bytes = (4 * 5000 * 128 + 4 * 5000**2) / (2 * 5000 * 128 * (1 + ceil(5000 / 192)))  # 205.1 over 71.68 MB

# 2. How many FLOPs come with a byte that those tiles move? (4 digits)
tiled_intensity = 4 * 5000**2 * 128 / (2 * 2 * 5000 * 128 * (1 + ceil(5000 / 192)))  # 12.8 GFLOP; the ridge is at 153

# 3. The scores 1, 2, then 3.5, 0, then 3, 2 arrive in three blocks. What is the denominator after the last one?
#    (4 digits)
denominator = exp(1 - 3.5) + exp(2 - 3.5) + 1 + exp(0 - 3.5) + exp(3 - 3.5) + exp(2 - 3.5)  # 1.368, 1.335, 2.165

# 4. Three splits of a cache give the outputs 2, 6 and -1, with log-sum-exps 1, 2.5 and 0.5. What is the output of all?
#    (4 digits)
merged = (2 * exp(1) + 6 * exp(2.5) - exp(0.5)) / (exp(1) + exp(2.5) + exp(0.5))  # weights 0.1643, 0.7361, 0.0996

# 5. Tiles of 96 keys, head_dim 128, Q, K and V in bfloat16, all else in float32. How many queries has the largest tile
#    that fits into 163 KiB, in multiples of 16? (a whole number)
tile_height = (163 * 1024 - 2 * 128 * 2 * 96) // ((2 * 128 + 4 * (96 + 128 + 2)) * 16) * 16  # 101.5 would fit

# 6. A chunk of 1,024 tokens stands behind 512 cached ones; tiles have 128 queries and 256 keys. What part of all tiles
#    does a causal mask leave to compute? (3 digits)
computed_part = sum(ceil((512 + 128 * i) / 256) for i in range(1, 9)) / (8 * 6)  # 3, 3, 4, 4, 5, 5, 6 and 6 of 48

# 7. Qwen2.5-14B decodes behind 12,000 tokens, its cache in bfloat16. How many times as many FLOPs per byte as its
#    attention has would the ridge of an A100 ask for? (3 digits)
below_the_ridge = 312e12 / 2.039e12 / (4 * 5 * 12000 * 128 / (2 * 128 * (2 * 12000 + 2 * 5)))  # 153.0 over 4.998

# 8. Two sequences of 20,000 tokens decode at once. Their caches are split for the A100's 108 processors, no split below
#    256 tokens. How many tokens has the longest split? (a whole number)
split_tokens = ceil(20000 / ceil(108 / (2 * 8)))  # 16 pieces of work, so 7 splits
