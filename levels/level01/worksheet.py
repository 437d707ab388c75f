"""Level 01 by hand: eight numbers of prefill, decode and streaming.

Put your answer in place of each `...`: a number, or an expression such as `2 * 576 * 1536`. `...` means not answered
yet. An answer counts as right within 1%, so three or four digits are enough.

SmolLM2-135M: 134,515,008 weights, of which 106,168,320 are matrices of the layers and 28,311,552 the tied embedding;
30 layers, 9 query heads and 3 KV heads of head_dim 64. H100 SXM: 3.35 TB/s, 989 TFLOP/s in dense bfloat16.
Bytes are weights, keys and values; activations are left out.
"""

# 1. A prompt of 30 tokens and 20 new ones, without a cache. How many tokens go through the model in all? (a whole
#    number)
naive_tokens = ...

# 2. The same request with a cache? (a whole number)
cached_tokens = ...

# 3. A prompt of 1000 tokens goes through SmolLM2 in float32, in chunks of 128. How many GB (1e9 bytes) of weights are
#    read? Leave keys and values out. (3 digits)
chunked_gigabytes = ...

# 4. SmolLM2 in bfloat16 decodes a token behind 4095 cached ones, so that it attends to 4096. FLOPs per byte? Count the
#    keys and values of all 4096. (4 digits)
decode_intensity = ...

# 5. How many microseconds does an H100 need for that step at least? (4 digits)
decode_microseconds = ...

# 6. And for the prefill of 4096 tokens in one pass, with the logits of the last one only? Count the pairs that a causal
#    mask allows. (4 digits)
prefill_microseconds = ...

# 7. How many tokens of that prompt does it process in the time of that one decoded token? (4 digits)
prompt_tokens_per_step = ...

# 8. Stop strings are "Human:" and a double line end, "\n\n". So far the pieces "Done.", "\n" and "Hum" have come. How
#    many characters may be shown by now? (a whole number)
shown_characters = ...
