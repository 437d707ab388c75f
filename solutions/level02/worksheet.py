"""Level 02 by hand: eight numbers of what a cache holds, writes and wastes.

Put your answer in place of each `...`: a number, or an expression such as `2 * 576 * 1536`. `...` means not answered
yet. An answer counts as right within 1%, so three or four digits are enough.

Llama-3-70B: 70,553,706,496 parameters, of which embedding and head, not tied, have 1,050,673,152 each; 80 layers, 64
query heads and 8 KV heads of head_dim 128. SmolLM2-135M: 30 layers, 9 query heads and 3 KV heads of head_dim 64.
H200: 141 GB. GB = 1e9 bytes.
"""

# 1. A model of 36 layers has 20 query heads and 4 KV heads of head_dim 96, and a cache in bfloat16. How many bytes does
#    one token take? (a whole number)
token_bytes = 2 * 36 * 4 * 96 * 2  # a key and a value, in 36 layers, for 4 KV heads of 96 numbers, 2 bytes each

# 2. Llama-3-70B with its cache in 8 bits. How many GB does one request of 60,000 tokens take? (4 digits)
request_gigabytes = 60000 * 2 * 80 * 8 * 128 / 1e9  # 163,840 bytes a token

# 3. Llama-3-70B with weights in 8 bits and the cache in bfloat16, on one H200 of which 10% are kept free. How many
#    tokens can be cached, over all requests? (4 digits)
room_tokens = (0.9 * 141e9 - 70553706496) / (2 * 80 * 8 * 128 * 2)  # 126.9 GB less 70.55 GB of weights

# 4. How many requests of 4,096 cached tokens each are that? (a whole number)
num_requests = 41  # 171,955 / 4,096 = 41.98, and the last one would fit only in part

# 5. The same weights and cache. A batch of 16 requests, equally long, decodes: at how many cached tokens per request
#    does a step read as many bytes of cache as of weights? (4 digits)
tokens_per_request = (70553706496 - 1050673152) / 327680 / 16  # the embedding is looked up, not read

# 6. SmolLM2-135M in float32. A cache of 500 tokens grows by 1,500 more, one at a time, by torch.cat. How many GB are
#    written? (4 digits)
concat_gigabytes = 2 * 30 * 3 * 64 * 4 * (1500 * 500 + 1500 * 1501 / 2) / 1e9  # step i writes 500 + i tokens

# 7. A ring of 12 slots has seen 100 tokens. Slots and positions are counted from 0. Which position does slot 4 hold?
#    (a whole number)
slot_position = 88  # positions 88 to 99 are held, and 88 % 12 = 4

# 8. Five requests hold 150, 300, 900, 2,500 and 4,000 tokens, each in a row with room for 8,192. How many percent of
#    the room are unused? (3 digits)
unused_percent = 100 * (1 - (150 + 300 + 900 + 2500 + 4000) / (5 * 8192))  # 7,850 of 40,960 are held
