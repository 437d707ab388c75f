"""Level 14 by hand: eight numbers of losses, of what learns, and of the time that learning takes.

Put your answer in place of each `...`: a number, or an expression such as `2 * 576 * 1536`. `...` means not answered
yet. An answer counts as right within 1%, so three or four digits are enough.

Qwen2.5-7B: 28 layers of width 3584 with MLPs of 18944, 4 KV heads of head_dim 128 for 28 heads; 7.616e9 parameters, of
which 6.525e9 are in the linear layers. An A100 has 2039 GB/s and 312 TFLOP/s. bfloat16 takes 2 bytes; GB = 1e9 bytes.
"""

from math import exp, log

# 1. A batch of two conversations. The learned tokens of one had the probabilities 0.9, 0.5, 0.6 and 0.8, the only one
#    of the other 0.25. What is the loss? (3 digits)
loss = -log(0.9 * 0.5 * 0.6 * 0.8 * 0.25) / 5  # 2.919 of five tokens

# 2. Examples of 800, 500, 1100, 300, 900, 400 and 1300 tokens are packed into rows of 2,000, first-fit decreasing. How
#    many percent of the rows' places are filled? (3 digits)
filled_percent = 100 * 5300 / (3 * 2000)  # 1300 500, 1100 900, 800 400 300

# 3. Adapters of rank 12 on q and v of all layers. How many numbers learn? (4 digits)
num_trainable = 12 * ((3584 + 3584) + (4 * 128 + 3584)) * 28  # 135,168 in a layer

# 4. The linear layers are in NF4: blocks of 32 weights, their scales in 8 bits, and 128 scales share a float32. All
#    else is in bfloat16. On top come adapters of rank 64 on all linear layers, 161.5e6 numbers in bfloat16, each with a
#    bfloat16 gradient and 12 bytes of AdamW's. How many GB is that in all? (4 digits)
tuning_gb = (6.525e9 * (4 + (8 + 32 / 128) / 32) / 8 + 1.091e9 * 2 + 161.5e6 * 16) / 1e9  # 3.473 + 2.182 + 2.584

# 5. A pair of answers. The model gives the chosen one a log-probability of -31.5 and the rejected one -24; its
#    reference gives -33.5 and -22.5. What is DPO's loss with beta 0.3? (3 digits)
preference_loss = log(1 + exp(-0.3 * (2 + 1.5)))  # rewards 0.6 and -0.45

# 6. Five answers to one prompt get the rewards 3, 1, none, 0 and 0: the third one could not be judged. What is the
#    advantage of the first, divided by the std as in this level? (3 digits)
advantage = (3 - 1) / ((4 + 0 + 1 + 1) / 3) ** 0.5  # of four rewards

# 7. A token was written with probability 0.2, and now has 0.35; the reference gives it 0.7. Its answer has an advantage
#    of 0.8. The clip is 0.2 below and 0.28 above, and beta is 0.4. What does the token add to the objective, the KL
#    taken off? (3 digits)
objective = 1.28 * 0.8 - 0.4 * (2 - log(2) - 1)  # ratio 1.75; k3 is 0.3069

# 8. Groups of 32 answers of 768 tokens to prompts of 512, all in bfloat16, on one A100; learning reaches 35% of its
#    rate, and a forward pass takes two FLOPs for each parameter and token. How many percent of a step's time go into
#    decoding, as in rollout_share? (3 digits)
decode_percent = 100 / (  # 768 readings of the weights, and 32 caches: 6.359 s; learning takes 17.14 s
    1 + 3 * 32 * 1280 * 15.232e9 / 109.2e12 / ((768 * 15.232e9 + 32 * 57344 * 687744) / 2039e9)
)
