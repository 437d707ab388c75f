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
touched = ...

# 2. Each of them attends to 4,000 tokens. How many ms does the step take at least, on an A100? (4 digits)
step_ms = ...

# 3. The sigmoids of a token's scores are 0.6, 0.5, 0.3 and 0.2, the biases 0, -0.2, 0.1 and 0.3. Of the 4 experts it
#    goes to 2, and scale is 2.5. What is the gate of the last expert? (4 digits)
last_gate = ...

# 4. Experts 0 to 3 get 6, 3, 3 and 0 of all choices; k is 2. Their mean probabilities are 0.4, 0.3, 0.2 and 0.1. What
#    is the balance loss? (3 digits)
balance_loss = ...

# 5. How many MB does MiniCPM3-4B cache for 20,000 tokens? (4 digits)
latent_mb = ...

# 6. For each byte of the cache that an absorbed decode step of MiniCPM3-4B reads, how many FLOPs do scores and weighted
#    sums take? (4 digits)
flops_per_byte = ...

# 7. How many GB of keys and values does Gemma-3-12B need for a sequence of 50,000 tokens? (4 digits)
windows_gb = ...

# 8. Eight sequences. From which context on does a step of Llama-3.2-1B move more bytes than one of Mamba-2-1.3B?
#    (4 digits)
crossover = ...
