"""Level 15 by hand: nine numbers of a cache that another model reads.

Put your answer in place of each `...`: a number, or an expression such as `2 * 576 * 1536`. `...` means not answered
yet. An answer counts as right within 1%, so three or four digits are enough.

Qwen2.5-14B has read 20,000 tokens, and Qwen2.5-72B goes on. The 14B: 48 layers, 40 heads. The 72B: 80 layers, 64 heads,
70e9 weights in its matrices (leave the vocabulary out). Both have 8 KV heads of head_dim 128 and caches in bfloat16,
2 bytes. Maps are in float32, 4 bytes. GB = 1e9 bytes.
"""

from math import cos, sin

# 1. The cache goes over a link, and is mapped where it arrives. How many GB cross the link? (4 digits)
moved_gb = ...

# 2. Each head of each of the 72B's layers reads all heads of 5 of the 14B's layers. How many GB do the maps have?
#    (4 digits)
map_gb = ...

# 3. Those maps run at 200 TFLOP/s; count their products. How many ms do all 20,000 tokens take? (4 digits)
map_ms = ...

# 4. The link has 10 GB/s, and 15% of the prefill, which takes 9 s in all, is done after all. One step follows the
#    other. How many seconds until the 72B can decode? (4 digits)
ready_seconds = ...

# 5. Another time the 72B's own cache of 8,192 tokens is there, on another machine. It prefills at 400 TFLOP/s: two
#    FLOPs for each weight and token, and attention, causal, as in level 01. At how many GB/s does moving the cache take
#    as long as making it? (3 digits)
breakeven_gb_per_second = ...

# 6. A key of head_dim 2 was stored at position 9 as [0.8, 0.6]. What is its first feature, if it is moved to position
#    11? The base does not matter to this pair: a position is 1 radian. (4 digits)
moved_feature = ...

# 7. The source has 1, 2 and 6, the target 2, 3 and 10; lam is 4, on sums. What is W of the ridge map? (4 digits)
slope = ...

# 8. With its own cache the 72B has a loss of 1.62 nats, with the mapped one 1.83, without any 2.46. How much is
#    retained? (3 digits)
retained = ...

# 9. Now the sender is a fine-tuned 72B, so nothing is mapped. The link has 5 GB/s, a prefill of the 20,000 tokens takes
#    7.8 s. Some layers are recomputed while the others are moved, so that both end at the same time. After how many
#    seconds? (4 digits)
together_seconds = ...
