"""Level 10 by hand: eight numbers of streams, loads and links.

Put your answer in place of each `...`: a number, or an expression such as `2 * 576 * 1536`. `...` means not answered
yet. An answer counts as right within 1%, so three or four digits are enough.

Qwen2.5-7B: 28 layers, 28 query heads and 4 KV heads, of head_dim 128; a cache in bfloat16 takes 2 bytes a number. Links
are sold in bits: 1 Gb/s is 1e9 bits per second, and a byte has 8.
"""

# 1. The tokens of an answer spell "It", " is", the bytes F0 9F, the byte 98, the byte 80 (together one emoji), "OS",
#    "S", "T" and "OP :)". The stop string is "STOP", the client asks for the usage, and it is no chat. How many chunks
#    does stream_completion send? "[DONE]" is none. (a whole number)
num_chunks = ...

# 2. A chat's chunks come at 0.15 s (the role), 0.50 (1 token), 0.90 (4 tokens) and 1.34 (3 tokens); those of another
#    answer at 0.30 (2 tokens) and 0.72 (1 token). What is the mean inter-token latency, in ms, over all gaps between
#    tokens of both? (3 digits)
mean_itl_ms = ...

# 3. For 60 s a client means to send a request every 20 ms, but waits for each answer. They take 2 ms, but for one that
#    takes 12 s. When the omitted requests are put back, what part of all took longer than 0.5 s? (4 digits)
slow_part = ...

# 4. A load of 8 requests per second is to have 10 requests beyond its p99.5, after a tenth of its time was cut off at
#    either end. For how many seconds does it have to run? (4 digits)
load_seconds = ...

# 5. 400 TTFTs have a mean of 1.7 s and a standard deviation of 0.9 s. In 95% of resamples the mean lies within so many
#    ms of 1.7 s, on either side. How many? (3 digits)
half_width_ms = ...

# 6. A server with one slot answers 6 requests per second when it has no pause. Requests come at random, at 84% of that,
#    and their lengths are random, too (M/M/1). How many seconds does one take on average, its waiting included?
#    (4 digits)
seconds_in_system = ...

# 7. A prompt of 1,500 tokens of Qwen2.5-7B was prefilled, and its cache goes to another device: 200 Gb/s, and 0.2 ms
#    before the first byte arrives. How many ms does that take? (4 digits)
transfer_ms = ...

# 8. Prefill takes 0.6 s, a decode step 0.05 s. A stream of 21 tokens arrives at 0; two more prompts at 0.82 and 1.1 s.
#    With a second device for decode, and 0.08 s for a cache to get there: how many seconds earlier does the stream get
#    its last token than from one device that prefills first? (3 digits)
seconds_earlier = ...
