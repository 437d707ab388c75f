"""Level 09 by hand: eight numbers of messages, shares and pipelines.

Put your answer in place of each `...`: a number, or an expression such as `2 * 576 * 1536`. `...` means not answered
yet. An answer counts as right within 1%, so three or four digits are enough.

Qwen2.5-72B in bfloat16: 80 layers, d_model 8192, 64 query heads and 8 KV heads of head_dim 128; a decode step reads
142.9 GB of weights. An A100 reads its memory at 2.039 TB/s. NVLink 3 carries 300 GB/s one way, and a message takes 4 us
besides its bytes. All-reduces go by ring. bfloat16 takes 2 bytes; GB = 1e9 and MB = 1e6 bytes.
"""

from math import ceil

# 1. The hidden states of 512 tokens are summed over 4 A100s. How many us does that all-reduce take? (4 digits)
all_reduce_us = 2 * 3 * (4 + 512 * 8192 * 2 / 4 / 300e9 * 1e6)  # six steps of 4 + 6.991 us

# 2. Tensor parallel on 8 A100s, one sequence, its cache left out. How many ms does a decode step take? (4 digits)
decode_ms = 142.9e9 / 8 / 2.039e12 * 1e3 + (2 * 80 + 1) * 2 * 7 * (4e-3 + 8192 * 2 / 8 / 300e9 * 1e3)  # 8.760 + 9.031

# 3. How many MB does each of 4 ranks send in all-reduces when 24 sequences make a token each? (3 digits)
sent_mb = (2 * 80 + 1) * 2 * 3 / 4 * 24 * 8192 * 2 / 1e6  # 161 times 1.5 times 393,216 bytes

# 4. On 32 ranks, how many GB of keys and values does each hold for a sequence of 30,000 tokens? (4 digits)
rank_cache_gb = 80 * 2 * ceil(8 / 32) * 128 * 2 * 30000 / 1e9  # 64 heads give two a rank; of KV heads there is one

# 5. A pipeline of 6 stages shall be idle for 8% of the time at most. How many micro-batches does that take? (a whole
#    number)
micro_batches = ceil(5 / 0.08 - 5)  # 5 / (m + 5)

# 6. Six experts get 96, 48, 60, 0, 36 and 0 tokens. What is the imbalance? (3 digits)
imbalance = 96 / ((96 + 48 + 60 + 36) / 6)  # over a mean of 40

# 7. Each of 6 ranks has 96 tokens of 5,120 numbers in bfloat16. Each token goes to 4 experts, and all experts get
#    equally many from every rank. How many MB leave a rank on the way out? (4 digits)
dispatch_mb = 96 * 4 * 5 / 6 * 5120 * 2 / 1e6  # 320 of 384 rows

# 8. A sequence of 12,000 tokens is cut into 6 parts, one behind the other, each on its rank. How many times the mean of
#    all ranks does the last one compute in causal attention? (4 digits)
last_rank = sum(range(10001, 12001)) / (sum(range(1, 12001)) / 6)  # 22.0 million pairs, over 12.0
