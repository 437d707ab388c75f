"""Level 02 by hand: eight numbers of what a cache holds, writes and wastes.

Put your answer in place of each `...`: a number, or an expression such as `2 * 576 * 1536`. `...` means not answered
yet. An answer counts as right within 1%, so three or four digits are enough.

Llama-3-70B: 70,553,706,496 parameters, of which embedding and head, not tied, have 1,050,673,152 each; 80 layers, 64
query heads and 8 KV heads of head_dim 128. SmolLM2-135M: 30 layers, 9 query heads and 3 KV heads of head_dim 64.
H200: 141 GB. GB = 1e9 bytes.
"""

# 1. A model of 36 layers has 20 query heads and 4 KV heads of head_dim 96, and a cache in bfloat16. How many bytes does
#    one token take? (a whole number)
token_bytes = ...

# 2. Llama-3-70B with its cache in 8 bits. How many GB does one request of 60,000 tokens take? (4 digits)
request_gigabytes = ...

# 3. Llama-3-70B with weights in 8 bits and the cache in bfloat16, on one H200 of which 10% are kept free. How many
#    tokens can be cached, over all requests? (4 digits)
room_tokens = ...

# 4. How many requests of 4,096 cached tokens each are that? (a whole number)
num_requests = ...

# 5. The same weights and cache. A batch of 16 requests, equally long, decodes: at how many cached tokens per request
#    does a step read as many bytes of cache as of weights? (4 digits)
tokens_per_request = ...

# 6. SmolLM2-135M in float32. A cache of 500 tokens grows by 1,500 more, one at a time, by torch.cat. How many GB are
#    written? (4 digits)
concat_gigabytes = ...

# 7. A ring of 12 slots has seen 100 tokens. Slots and positions are counted from 0. Which position does slot 4 hold?
#    (a whole number)
slot_position = ...

# 8. Five requests hold 150, 300, 900, 2,500 and 4,000 tokens, each in a row with room for 8,192. How many percent of
#    the room are unused? (3 digits)
unused_percent = ...
