"""Level 11 by hand: eight numbers of experts, latents, windows and states.

Put your answer in place of each `...`: a number, or an expression such as `2 * 576 * 1536`. `...` means not answered
yet. An answer counts as right within 1%, so three or four digits are enough.

Numbers are bfloat16, 2 bytes; GB = 1e9 and MB = 1e6 bytes. An A100 reads its memory at 2.039 TB/s.
Qwen3-30B-A3B: 48 layers, 4 KV heads of head_dim 128, 128 experts in each layer, of which a token uses 8. A step reads
1.230e9 parameters besides experts; one expert has 226.5e6 in all layers together.
MiniCPM3-4B: 62 layers, 40 heads, latents of 256 and a rotated key of 32; d_nope and d_v are 64.
Gemma-3-12B: 48 layers, of which every sixth sees everything and the others 1,024 tokens; 8 KV heads of head_dim 256.
Mamba-2-1.3B: 1.344e9 parameters; 48 layers, each with a state of 4096 times 128 numbers.
Llama-3.2-1B: 1.236e9 parameters; 16 layers, 8 KV heads of head_dim 64.
"""

# 1. 24 sequences make a token each with Qwen3-30B-A3B. How many experts of a layer are read, on average? (4 digits)
touched = 128 * (1 - (1 - 8 / 128) ** 24)  # a token leaves an expert out with 15/16, all of them with 0.2125

# 2. Each of them attends to 4,000 tokens. How many ms does the step take at least, on an A100? (4 digits)
step_ms = ((1.23e9 + 226.5e6 * touched) * 2 + 24 * 4000 * 48 * 2 * 4 * 128 * 2) / 2.039e12 * 1e3  # 48.12 + 9.437 GB

# 3. The sigmoids of a token's scores are 0.6, 0.5, 0.3 and 0.2, the biases 0, -0.2, 0.1 and 0.3. Of the 4 experts it
#    goes to 2, and scale is 2.5. What is the gate of the last expert? (4 digits)
last_gate = 2.5 * 0.2 / (0.6 + 0.2)  # sums of 0.6, 0.3, 0.4 and 0.5: the first and the last are chosen

# 4. Experts 0 to 3 get 6, 3, 3 and 0 of all choices; k is 2. Their mean probabilities are 0.4, 0.3, 0.2 and 0.1. What
#    is the balance loss? (3 digits)
balance_loss = 4 * (6 / 12 * 0.4 + 3 / 12 * 0.3 + 3 / 12 * 0.2 + 0 / 12 * 0.1)  # 4 times 0.325

# 5. How many MB does MiniCPM3-4B cache for 20,000 tokens? (4 digits)
latent_mb = 62 * (256 + 32) * 2 * 20000 / 1e6  # 35,712 bytes a token

# 6. For each byte of the cache that an absorbed decode step of MiniCPM3-4B reads, how many FLOPs do scores and weighted
#    sums take? (4 digits)
flops_per_byte = 40 * 2 * ((256 + 32) + 256) / ((256 + 32) * 2)  # 43,520 FLOPs and 576 bytes for a token in a layer

# 7. How many GB of keys and values does Gemma-3-12B need for a sequence of 50,000 tokens? (4 digits)
windows_gb = (8 * 50000 + 40 * 1024) * 2 * 8 * 256 * 2 / 1e9  # 440,960 tokens in a layer, of 8,192 bytes

# 8. Eight sequences. From which context on does a step of Llama-3.2-1B move more bytes than one of Mamba-2-1.3B?
#    (4 digits)
crossover = ((1.344e9 - 1.236e9) * 2 + 8 * 2 * 48 * 4096 * 128 * 2) / (8 * 16 * 2 * 8 * 64 * 2)  # 1,021 MB / 262,144 B
