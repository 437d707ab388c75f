"""Level 06 by hand: eight numbers of blocks, prefixes and bits.

Put your answer in place of each `...`: a number, or an expression such as `2 * 576 * 1536`. `...` means not answered
yet. An answer counts as right within 1%, so three or four digits are enough.

Yi-34B: 34,388,917,248 parameters, of which embedding and head, not tied, have 458,752,000 each, and the matrices of the
60 layers 33,470,545,920; 56 query heads and 8 KV heads, of head_dim 128. An H200 has 141 GB, an H100 computes
989 TFLOP/s. GB = 1e9 bytes. A multiply-add is two FLOPs. `log` is the natural logarithm, ln.
"""

from math import ceil, log, sqrt

# 1. Four sequences have 100, 700, 37 and 1,500 tokens, in blocks of 16. What part of the slots in their blocks is
#    empty? (3 digits)
empty_part = 1 - 2337 / (16 * (7 + 44 + 3 + 94))  # 12, 4, 11 and 4 of 2,368

# 2. On an H200 with a tenth of its memory in reserve, Yi-34B in bfloat16 leaves the rest to a pool in bfloat16, in
#    blocks of 16 tokens. How many blocks does it have? (a whole number)
pool_blocks = (0.9 * 141e9 - 2 * 34388917248) // (16 * 2 * 60 * 8 * 128 * 2)  # 58.12 GB; a block has 3,932,160 bytes

# 3. Five answers are drawn for one prompt of 100 tokens: its cache, in blocks of 16, is forked four times, and goes on
#    itself as the fifth. How many blocks are in use when each has 30 tokens more? (a whole number)
sample_blocks = 100 // 16 + 5 * (ceil(130 / 16) - 100 // 16)  # 6 that all own, and 3 of each one's own

# 4. Two prompts have their first 1,000 tokens in common; one of them is cached, in blocks of 64. How many ms does that
#    save the other, with Yi-34B on an H100 at 40% of its peak? Two FLOPs for each token and weight in the layers'
#    matrices, no scores. (4 digits)
saved_ms = 1e3 * (1000 // 64 * 64) * 2 * 33470545920 / (0.4 * 989e12)  # 960 tokens, 64.3 TFLOP

# 5. The weights of a row are 0.42 at most in magnitude, and 0.07 in root mean square. Rounding errors are spread evenly
#    over one step. How large is the root mean square error of symmetric int8, over that of the weights? (3 digits)
relative_error = 0.42 / 127 / sqrt(12) / 0.07  # a step of 0.003307

# 6. In a group all magnitudes are at most 1, but one is 24. Below which magnitude does symmetric 4-bit rounding make 0
#    of a weight? (4 digits)
lost_below = 24 / 7 / 2  # half a step: codes from -7 to 7

# 7. All weights of Yi-34B that a decode step reads are in 4 bits, in groups of 128 with a scale and a least value of 16
#    bits each; keys and values stay in bfloat16. How many times as many bytes would a step of 16 sequences of 3,000
#    tokens read if the weights were in bfloat16, too? (4 digits)
fewer_bytes = (2 * 33930165248 + 48000 * 245760) / (33930165248 * 4.25 / 8 + 48000 * 245760)  # 79.66 over 29.82 GB

# 8. To three tokens a model gives the probabilities 0.6, 0.3 and 0.1; quantized, it gives 0.5, 0.3 and 0.2. How large
#    is KL(reference || changed), in nats? (3 digits)
kl_nats = 0.6 * log(0.6 / 0.5) + 0.3 * log(0.3 / 0.3) + 0.1 * log(0.1 / 0.2)  # 0.1094 + 0 - 0.0693
