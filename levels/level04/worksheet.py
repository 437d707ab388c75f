"""Level 04 by hand: eight numbers of latencies, roofs and what was reached.

Put your answer in place of each `...`: a number, or an expression such as `2 * 576 * 1536`. `...` means not answered
yet. An answer counts as right within 1%, so three or four digits are enough.

Llama-3-70B: 70,553,706,496 parameters, of which embedding and head, not tied, have 1,050,673,152 each and the norms
1,318,912; 80 layers, 64 query heads and 8 KV heads of head_dim 128. GB = 1e9 bytes. A multiply-add is two FLOPs.
Bytes are weights, keys and values; FLOPs are matrix products.
"""

# 1. A request arrives at 3.20 s. Its tokens reach the user at 3.95, 4.01, 4.05 and 4.25 s. How many ms is its TPOT?
#    (a whole number)
tpot_ms = ...

# 2. The data sheet of an H200 says: bfloat16 1,979 TFLOP/s*, memory 4.8 TB/s; * with sparsity, which doubles it. At how
#    many FLOPs per byte is its ridge, for dense products in bfloat16? (4 digits)
ridge = ...

# 3. A product of (1024, 8192) and (8192, 28672) in bfloat16. FLOPs per byte? (4 digits)
product_intensity = ...

# 4. Llama-3-70B with weights in 8 bits and the cache in bfloat16, one sequence at context 8,192, on an H200 (4.8 TB/s,
#    989 TFLOP/s). How many tokens/s can it make at most? (4 digits)
single_ceiling = ...

# 5. The same with 16 such sequences: how many tokens/s together, at most? (4 digits)
batch_ceiling = ...

# 6. Weights in 4 bits, arithmetic in bfloat16 on an H200. From how many sequences on does the arithmetic of the weights
#    take at least as long as reading them? Leave the cache out. (a whole number, exact)
critical_sequences = ...

# 7. The 16 sequences of number 5 are measured: 400 tokens/s together. How many percent is the MBU? (4 digits)
mbu_percent = ...

# 8. And the MFU of the same run, in percent? The arithmetic is bfloat16's, 989 TFLOP/s. Count two FLOPs for each weight
#    of the matrices, the head's included, and the scores at context 8,192. (4 digits)
mfu_percent = ...
