"""Level 00 by hand: eight numbers of the forward pass.

Put your answer in place of each `...`: a number, or an expression such as `2 * 576 * 1536` (`exp` and `sqrt` are
imported). `...` means not answered yet. An answer counts as right within 1%, so three or four digits are enough.
"""

from math import exp, sqrt

# 1. BPE on the text "abababcb", 8 bytes. Each round merges the most frequent pair, on a tie the smallest. How many
#    tokens are left after two merges? (a whole number)
tokens_left = ...

# 2. Softmax of four scores: 102, 101, 100, and a masked key at -inf. The weight of the first? (4 digits)
first_weight = ...

# 3. RMSNorm of [2, -1, 4, 2] with weight 1 in every place and eps 0. The third output? (3 digits)
normed_feature = ...

# 4. RoPE with theta 100000 and head_dim 64; planes are counted from 0. By how many radians does plane 16 turn a query
#    at position 1000? (4 digits; whole turns are not taken off)
plane_angle = ...

# 5. The dot products of a query with its two keys are 16 and 8, and head_dim is 64. Which weight does attention give to
#    the first key? (3 digits)
attended_weight = ...

# 6. One layer of SmolLM2-135M: d_model 576, 9 query heads and 3 KV heads of head_dim 64, SwiGLU with d_ff 1536. How
#    many MB (1e6 bytes) do its matrices take in bfloat16? Leave the norms out. (3 digits)
layer_megabytes = ...

# 7. SmolLM2-135M has 30 such layers and a tied embedding of 49152 rows. How many MFLOP (1e6) does one new token cost
#    that attends to 2048 tokens, itself included? Matrix products only, a multiply-add is two. (4 digits)
token_megaflops = ...

# 8. The same model: at which context do scores and weighted sum cost one token as many FLOPs as all its matrices, the
#    vocabulary projection included? (tokens, 4 digits)
even_context = ...
